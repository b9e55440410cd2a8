/* A template and the JSON it is rendered with, a 0 between them: any bytes at all. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokens/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok) {
    if (!ok) {
        abort();
    }
}

static void check_spans(const fn_rendered *out) {
    size_t at = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        must(out->spans[i].begin >= at && out->spans[i].begin < out->spans[i].end);
        at = out->spans[i].end + 1;
    }
    must(out->n_spans == 0 || at - 1 <= out->n);
    must(out->text[out->n] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *text = (const char *)data;
    const char *zero = n > 0 ? memchr(text, 0, n) : NULL;
    size_t n_template = zero != NULL ? (size_t)(zero - text) : n;
    fn_template_part part = {.text = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}",
                             .n = 48};
    if (zero != NULL) {
        part.text = zero + 1;
        part.n = n - n_template - 1;
    }
    fn_render_limits limits = {
        .steps = 20000, .depth = 20, .output_bytes = 1 << 16, .memory_bytes = 1 << 22, .now = 1};
    fn_chat_template *t = NULL;
    fn_error err = {0};
    if (fn_chat_template_compile(text, n_template, "fuzz", &t, &err) != FN_OK) {
        must(t == NULL && err.code == FN_E_MODEL && err.text[0] != 0);
        return 0;
    }
    fn_rendered out;
    if (fn_chat_template_render(t, &part, 1, limits, &out, &err) == FN_OK) {
        check_spans(&out);
    } else {
        must(out.text == NULL && err.code != FN_OK);
    }
    fn_rendered_free(&out);
    fn_chat_template_free(t);
    return 0;
}
