#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/build.h"
#include "server/page.h"
#include "server/routes.h"

static json_t *whole(uint64_t n) {
    return json_integer((json_int_t)n);
}

/* ---- the page --------------------------------------------------------------------------- */

/* Browsers all do, in one of these ways. */
static bool takes_gzip(const srv_exchange *x) {
    const char *accepted = srv_exchange_header(x, "Accept-Encoding");
    return accepted != NULL && strstr(accepted, "gzip") != NULL &&
           strstr(accepted, "gzip;q=0") == NULL;
}

void srv_get_page(srv_exchange *x) {
    bool gzip = takes_gzip(x);
    const char *etag = gzip ? srv_page_gzip_etag : srv_page_etag;
    const char *known = srv_exchange_header(x, "If-None-Match");
    srv_exchange_set(x, "Content-Security-Policy", srv_page_policy);
    srv_exchange_set(x, "Referrer-Policy", "no-referrer");
    srv_exchange_set(x, "Cache-Control", "no-cache");
    srv_exchange_set(x, "ETag", etag);
    srv_exchange_set(x, "Vary", "Accept-Encoding");
    if (known != NULL && strcmp(known, etag) == 0) {
        srv_reply_bytes(x, 304, "", NULL, 0);
        return;
    }
    if (gzip) {
        srv_exchange_set(x, "Content-Encoding", "gzip");
    }
    srv_reply_bytes(x, 200, "text/html; charset=utf-8",
                    (const char *)(gzip ? srv_page_gzip : srv_page),
                    gzip ? srv_page_gzip_size : srv_page_size);
}

void srv_get_health(srv_exchange *x) {
    if (x->server->scheduler == NULL) {
        srv_problem problem = {0};
        (void)srv_refuse_as(&problem, 503, "loading", "Loading model");
        srv_reply_problem(x, &problem);
        return;
    }
    srv_reply_json(x, 200, json_pack("{s:s}", "status", "ok"));
}

/* ---- models ----------------------------------------------------------------------------- */

static json_t *model_json(const srv_server *server) {
    const srv_model_card *card = &server->card;
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:{s:o, s:o, s:o, s:o, s:o}}", "id", card->id,
                     "object", "model", "created", (json_int_t)card->created, "owned_by",
                     "flashnext", "max_model_len", whole(server->limits.context), "meta", "n_ctx",
                     whole(server->limits.context), "n_ctx_train", whole(server->info.max_context),
                     "n_vocab", whole(server->limits.vocab), "n_params", whole(card->n_parameters),
                     "size", whole(card->n_bytes));
}

void srv_get_models(srv_exchange *x) {
    srv_reply_json(x, 200,
                   json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(x->server)));
}

/* The names of clients may have slashes and escapes in them. */
void srv_get_model(srv_exchange *x) {
    srv_problem problem = {0};
    const char *asked = x->path + strlen("/v1/models/");
    char *decoded = evhttp_uridecode(asked, 0, NULL);
    bool known = decoded != NULL && strcmp(decoded, x->server->card.id) == 0;
    free(decoded);
    if (known) {
        srv_reply_json(x, 200, model_json(x->server));
        return;
    }
    (void)srv_refuse_as(&problem, 404, "model_not_found", "the model here is called '%s'",
                        x->server->card.id);
    srv_reply_problem(x, &problem);
}

/* ---- properties ------------------------------------------------------------------------- */

static json_t *sampling_json(const fn_text *text) {
    fn_sampling s = fn_text_default_sampling(text);
    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f}", "temperature", (double)s.temperature,
                     "top_k", (int)s.top_k, "top_p", (double)s.top_p, "min_p", (double)s.min_p,
                     "repeat_penalty", (double)s.repetition_penalty, "presence_penalty",
                     (double)s.presence_penalty, "frequency_penalty", (double)s.frequency_penalty);
}

void srv_get_props(srv_exchange *x) {
    const srv_server *server = x->server;
    const char *build = CLI_BUILD_GIT[0] != 0 ? CLI_BUILD_GIT : "";
    json_t *props =
        json_pack("{s:{s:o, s:o}, s:o, s:s, s:O, s:{s:b, s:b}, s:s, s:s, s:s, s:o}",
                  "default_generation_settings", "n_ctx", whole(server->limits.context), "params",
                  sampling_json(server->limits.text), "total_slots",
                  whole(server->options->scheduler.max_running), "model_alias", server->card.id,
                  "chat_template", server->card.chat_template, "modalities", "vision", 0, "audio",
                  0, "build_info", build, "version", fn_version(), "isa", server->info.isa,
                  "threads", whole(server->info.threads));
    srv_reply_json(x, 200, props);
}

void srv_get_metrics(srv_exchange *x) {
    srv_server *server = x->server;
    fn_scheduler_counts counts = {0};
    fn_ngram_counts ngram = {0};
    cli_buffer text = {0};
    bool ready = server->scheduler != NULL;
    if (ready) {
        fn_scheduler_get_counts(server->scheduler, &counts);
        fn_engine_ngram_counts(server->loader.engine, &ngram);
    }
    srv_metrics_write(&server->metrics, ready ? &counts : NULL, ready ? &ngram : NULL,
                      server->card.id != NULL ? server->card.id : "", &text);
    srv_reply_bytes(x, 200, "text/plain; version=0.0.4; charset=utf-8", text.data, text.n);
    cli_buffer_free(&text);
}
