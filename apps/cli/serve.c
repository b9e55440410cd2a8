#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/commands.h"
#include "cli/model.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "server/access.h"
#include "server/server.h"

#define DEFAULT_CACHE_BYTES (UINT64_C(1) << 30)
#define LEAST_CACHE_BYTES (UINT64_C(16) << 20)
#define DEFAULT_PARALLEL 16

typedef struct serve_state {
    const cli_options *options;
    cli_model model;
    bool no_model; /* it could not be opened */
    srv_options server;
    cli_buffer key_text;
    const char **keys; /* [n_keys]: --api-key, then the lines of --api-key-file */
    size_t n_keys;
} serve_state;

/* ---- keys ------------------------------------------------------------------------------- */

static void add_key(serve_state *state, const char *key) {
    const char **more = cli_alloc((state->n_keys + 1) * sizeof *more);
    if (state->n_keys > 0) {
        memcpy(more, state->keys, state->n_keys * sizeof *more);
    }
    more[state->n_keys++] = key;
    free(state->keys);
    state->keys = more;
}

/* One a line; empty lines and those that begin with # are none. */
static fn_status read_key_file(serve_state *state, const char *path, fn_error *err) {
    fn_status status = cli_read_text(&state->key_text, path, err);
    char *rest = NULL;
    size_t before = state->n_keys;
    if (status != FN_OK) {
        return status;
    }
    cli_buffer_puts(&state->key_text, "\n");
    for (char *line = strtok_r(state->key_text.data, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest)) {
        if (line[0] != '#') {
            add_key(state, line);
        }
    }
    return state->n_keys > before
               ? FN_OK
               : cli_fail(err, FN_E_USAGE, "--api-key-file %s: there is no key in it", path);
}

static fn_status read_keys(serve_state *state, fn_error *err) {
    const cli_value *given = &state->options->values[CLI_OPT_API_KEY];
    const char *path = cli_text(state->options, CLI_OPT_API_KEY_FILE);
    for (size_t i = 0; i < given->n_list; i++) {
        if (given->list[i][0] == 0) {
            return cli_fail(err, FN_E_USAGE, "--api-key: expected a key, found nothing");
        }
        add_key(state, given->list[i]);
    }
    return path != NULL ? read_key_file(state, path, err) : FN_OK;
}

/* ---- options ---------------------------------------------------------------------------- */

/* So many answers, each with a guess at least, as there are rows in a forward. */
static fn_status settle_parallel(serve_state *state, fn_error *err) {
    size_t *running = &state->server.scheduler.max_running;
    fn_engine_info info;
    fn_engine_get_info(state->model.engine, &info);
    size_t chunk = info.chunk;
    if (*running <= chunk / 2) {
        return FN_OK;
    }
    if (chunk < 2 || cli_is_set(state->options, CLI_OPT_PARALLEL)) {
        return cli_fail(err, FN_E_USAGE,
                        "--parallel: found %zu, expected at most %zu, half of the tokens computed "
                        "together (%zu; see --chunk and --context)",
                        *running, chunk / 2, chunk);
    }
    *running = chunk / 2;
    return FN_OK;
}

/* Memory for as many whole contexts as answers may run and for the prefix cache; where that does
 * not fit and nobody asked for it, less of either. */
static fn_status open_model(void *ud, fn_engine **out, fn_error *err) {
    serve_state *state = ud;
    const cli_options *options = state->options;
    uint64_t *cache = &state->server.scheduler.cache_bytes;
    bool less_cache = !cli_is_set(options, CLI_OPT_CACHE_SIZE);
    uint64_t least = cli_is_set(options, CLI_OPT_CACHE_DIR) ? LEAST_CACHE_BYTES : 0;
    bool fewer = !cli_is_set(options, CLI_OPT_SEQUENCES);
    size_t sequences = cli_count(options, CLI_OPT_SEQUENCES, state->server.scheduler.max_running);
    for (;;) {
        fn_error failure = {0};
        fn_status status = cli_model_open_for(options, sequences, &state->server.scheduler,
                                              &state->model, &failure);
        bool again =
            status == FN_E_FIT && ((fewer && sequences > 1) || (less_cache && *cache > least));
        if (!again) {
            *err = failure;
            *out = state->model.engine;
            state->no_model = status != FN_OK;
            return status == FN_OK ? settle_parallel(state, err) : status;
        }
        cli_model_close(&state->model);
        if (fewer && sequences > 1) {
            sequences /= 2;
        } else {
            *cache = *cache > LEAST_CACHE_BYTES ? *cache / 4 : 0;
        }
    }
}

static fn_scheduler_options scheduler_options(const cli_options *options) {
    fn_scheduler_options scheduler = fn_scheduler_options_default();
    scheduler.max_running = cli_count(options, CLI_OPT_PARALLEL, DEFAULT_PARALLEL);
    scheduler.max_waiting = cli_count(options, CLI_OPT_MAX_QUEUE, scheduler.max_waiting);
    scheduler.cache_bytes = cli_whole(options, CLI_OPT_CACHE_SIZE, DEFAULT_CACHE_BYTES);
    scheduler.cache_dir = cli_text(options, CLI_OPT_CACHE_DIR);
    scheduler.cache_dir_bytes = cli_whole(options, CLI_OPT_CACHE_DIR_SIZE, 0);
    return scheduler;
}

/* Names that are given must be some. */
static fn_status check_names(const cli_options *options, fn_error *err) {
    static const struct {
        cli_option_id option;
        const char *spelling, *what;
    } names[] = {{CLI_OPT_HOST, "--host", "an address"},
                 {CLI_OPT_MODEL_NAME, "--model-name", "a name"},
                 {CLI_OPT_CACHE_DIR, "--cache-dir", "a folder"},
                 {CLI_OPT_TLS_CERT, "--tls-cert", "a file"},
                 {CLI_OPT_TLS_KEY, "--tls-key", "a file"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *given = cli_text(options, names[i].option);
        if (given != NULL && given[0] == 0) {
            return cli_fail(err, FN_E_USAGE, "%s: expected %s, found nothing", names[i].spelling,
                            names[i].what);
        }
    }
    const cli_value *origins = &options->values[CLI_OPT_CORS_ORIGIN];
    for (size_t i = 0; i < origins->n_list; i++) {
        const char *origin = origins->list[i];
        if (strcmp(origin, "*") != 0 && !srv_is_origin(origin)) {
            return cli_fail(err, FN_E_USAGE,
                            "--cors-origin: expected * or a site as browsers name it, such as "
                            "https://example.org, found '%s'",
                            origin);
        }
    }
    return FN_OK;
}

static fn_status check(const srv_options *server, const cli_options *options, fn_error *err) {
    if ((server->tls_certificate == NULL) != (server->tls_key == NULL)) {
        return cli_fail(err, FN_E_USAGE, "--tls-cert and --tls-key belong together");
    }
    if (!srv_is_loopback(server->host) && server->n_api_keys == 0 &&
        !cli_flag(options, CLI_OPT_INSECURE)) {
        return cli_fail(err, FN_E_USAGE,
                        "--host %s: whoever reaches it could use this server; give --api-key, or "
                        "--insecure if that is meant",
                        server->host);
    }
    size_t chunk = cli_count(options, CLI_OPT_CHUNK, 0);
    if (chunk > 0 && chunk / 2 < server->scheduler.max_running &&
        cli_is_set(options, CLI_OPT_PARALLEL)) {
        return cli_fail(err, FN_E_USAGE,
                        "--chunk: expected at least %zu for --parallel %zu, found %zu",
                        server->scheduler.max_running * 2, server->scheduler.max_running, chunk);
    }
    if (server->scheduler.cache_dir != NULL && server->scheduler.cache_bytes == 0) {
        return cli_fail(err, FN_E_USAGE,
                        "--cache-dir %s: there is no prefix cache to keep with --cache-size 0",
                        server->scheduler.cache_dir);
    }
    return FN_OK;
}

static srv_options server_options(serve_state *state, const char *model_dir) {
    const cli_options *options = state->options;
    const cli_value *origins = &options->values[CLI_OPT_CORS_ORIGIN];
    const char *format = cli_text(options, CLI_OPT_LOG_FORMAT);
    const char *host = cli_text(options, CLI_OPT_HOST);
    return (srv_options){
        .host = host != NULL ? host : "127.0.0.1",
        .port = (uint16_t)cli_count(options, CLI_OPT_PORT, 8080),
        .model_name = cli_text(options, CLI_OPT_MODEL_NAME),
        .model_dir = model_dir,
        .template_path = cli_text(options, CLI_OPT_TEMPLATE),
        .api_keys = state->keys,
        .n_api_keys = state->n_keys,
        .cors_origins = (const char *const *)origins->list,
        .n_cors_origins = origins->n_list,
        .tls_certificate = cli_text(options, CLI_OPT_TLS_CERT),
        .tls_key = cli_text(options, CLI_OPT_TLS_KEY),
        .safe_content = cli_flag(options, CLI_OPT_SAFE_CONTENT),
        .log_json = format != NULL && strcmp(format, "json") == 0,
        .log_requests = !cli_flag(options, CLI_OPT_QUIET),
        .max_body = (size_t)cli_whole(options, CLI_OPT_MAX_BODY, 64u << 20),
        .max_connections = cli_count(options, CLI_OPT_MAX_CONNECTIONS, 512),
        .drain_seconds = cli_number(options, CLI_OPT_DRAIN, 30.0),
        .ping_seconds = cli_number(options, CLI_OPT_PING, 8.0),
        .scheduler = scheduler_options(options),
        .cache_may_shrink = !cli_is_set(options, CLI_OPT_CACHE_SIZE),
        .open = open_model,
        .open_ud = state,
    };
}

int cli_serve(const cli_options *options) {
    fn_error err = {0};
    char *model_dir = NULL;
    serve_state state = {.options = options};
    cli_signals_catch();
    int code = CLI_EXIT_OK;
    fn_status status = cli_model_dir(options, &model_dir, &err);
    status = status == FN_OK ? read_keys(&state, &err) : status;
    if (status == FN_OK) {
        state.server = server_options(&state, model_dir);
        status = check_names(options, &err);
        status = status == FN_OK ? check(&state.server, options, &err) : status;
        if (status == FN_OK) {
            status = srv_run(&state.server, &err);
        }
    }
    if (status != FN_OK) {
        code = state.no_model ? cli_report_model(status, &err) : cli_report(status, &err);
    }
    cli_model_close(&state.model);
    cli_buffer_free(&state.key_text);
    free(state.keys);
    free(model_dir);
    return code;
}
