#include "server/model_card.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/buffer.h"
#include "cli/json_get.h"
#include "cli/paths.h"
#include "flashnext_tools.h"

/* The last part of the directory's name: "models/demo/" is "demo". */
static char *name_of(const char *dir) {
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') {
        n--;
    }
    size_t begin = n;
    while (begin > 0 && dir[begin - 1] != '/') {
        begin--;
    }
    cli_buffer name = {0};
    cli_buffer_add(&name, dir + begin, n - begin);
    bool usable = name.n > 0 && name.data[0] != '.' && cli_utf8_valid(name.data, name.n) == name.n;
    char *copy = cli_strdup(usable ? name.data : "flashnext");
    cli_buffer_free(&name);
    return copy;
}

static json_t *read_template(const srv_options *options, json_t *config) {
    char *path = options->template_path != NULL
                     ? cli_strdup(options->template_path)
                     : cli_path_join(options->model_dir, "chat_template.jinja");
    cli_buffer text = {0};
    json_t *source = NULL;
    if (cli_path_exists(path) && cli_read_text(&text, path, NULL) == FN_OK) {
        source = json_stringn(cli_buffer_text(&text), text.n);
    } else {
        json_t *inside = json_object_get(config, "chat_template");
        source = json_is_string(inside) ? json_incref(inside) : json_null();
    }
    cli_buffer_free(&text);
    free(path);
    return source;
}

static json_t *read_tokenizer_config(const srv_options *options) {
    char *path = cli_path_join(options->model_dir, "tokenizer_config.json");
    json_t *config = json_load_file(path, 0, NULL);
    free(path);
    if (!json_is_object(config)) {
        json_decref(config);
        config = json_object();
    }
    (void)json_object_del(config, "added_tokens_decoder");
    return config;
}

void srv_model_card_read(const srv_options *options, srv_model_card *out) {
    char *text = NULL;
    *out = (srv_model_card){.created = (int64_t)time(NULL)};
    out->id =
        options->model_name != NULL ? cli_strdup(options->model_name) : name_of(options->model_dir);
    if (fn_inspect(options->model_dir, &text, NULL) == FN_OK) {
        json_t *json = json_loads(text, 0, NULL);
        out->n_parameters = cli_json_whole(json, "params.total");
        out->n_bytes = cli_json_whole(json, "bytes");
        json_decref(json);
    }
    fn_string_free(text);
    out->tokenizer_config = read_tokenizer_config(options);
    out->chat_template = read_template(options, out->tokenizer_config);
    (void)json_object_del(out->tokenizer_config, "chat_template");
}

void srv_model_card_free(srv_model_card *card) {
    free(card->id);
    json_decref(card->tokenizer_config);
    json_decref(card->chat_template);
    *card = (srv_model_card){0};
}
