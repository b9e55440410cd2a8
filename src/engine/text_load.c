#include "engine/text_load.h"

#include "base/status.h"

static void *read_files(void *arg) {
    fn_text_load *load = arg;
    load->status = fn_text_open(&load->options, &load->text, &load->error);
    return NULL;
}

void fn_text_load_begin(fn_text_load *load, const fn_text_options *options) {
    *load = (fn_text_load){.options = *options};
    load->started = pthread_create(&load->thread, NULL, read_files, load) == 0;
}

fn_status fn_text_load_take(fn_text_load *load, fn_text **out, fn_error *err) {
    if (load->started) {
        pthread_join(load->thread, NULL);
    } else {
        (void)read_files(load);
    }
    *out = load->text;
    return load->status == FN_OK ? FN_OK : fn_fail(err, load->status, "%s", load->error.text);
}
