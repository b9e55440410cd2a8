/* server/model_card.h - what the server tells about its model.
 *
 * Path:     headers and text files of the checkpoint -> [this] -> /v1/models, /props, /tokenizer_info
 * Memory:   owned until srv_model_card_free. */
#ifndef SERVER_MODEL_CARD_H
#define SERVER_MODEL_CARD_H

#include <jansson.h>

#include "flashnext.h"
#include "server/server.h"

typedef struct srv_model_card {
    char *id;
    int64_t created;                /* Unix time of loading */
    uint64_t n_parameters, n_bytes; /* of the files */
    json_t *tokenizer_config;       /* tokenizer_config.json without its list of added tokens */
    json_t *chat_template;          /* its source; JSON null: none */
} srv_model_card;

/* What cannot be read stays empty: the model itself was loaded. */
void srv_model_card_read(const srv_options *options, srv_model_card *out);
void srv_model_card_free(srv_model_card *card);

#endif
