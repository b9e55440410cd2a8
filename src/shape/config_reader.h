/* shape/config_reader.h - typed, bounded reads of config keys that fail with one good message.
 *
 * The first failure stays in the reader and later reads return 0, so a caller reads all keys and
 * looks at `status` once. Null counts as absent.
 * Path:    checkpoint/config_json.h -> [this] -> shape/shape.c. */
#ifndef FN_SHAPE_CONFIG_READER_H
#define FN_SHAPE_CONFIG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "checkpoint/config_json.h"

typedef struct fn_config_reader {
    const fn_config *config;
    fn_status status;
    fn_error *err;
    bool at_root; /* for messages: the keys now read lie beside text_config, not in it */
} fn_config_reader;

/* The key's value in the text config; NULL when absent or null. */
json_t *fn_reader_value(const fn_config_reader *r, const char *key);

/* An integer from `low` to `high`; the first fails when the key is absent, the second gives
 * `otherwise`. */
size_t fn_reader_size(fn_config_reader *r, const char *key, size_t low, size_t high);
size_t fn_reader_size_or(fn_config_reader *r, const char *key, size_t low, size_t high,
                         size_t otherwise);
bool fn_reader_bool_or(fn_config_reader *r, const char *key, bool otherwise);
/* A positive, finite number in `object` (NULL: the text config). 0 when absent. */
double fn_reader_positive(fn_config_reader *r, json_t *object, const char *key);
/* A string, lent by the config; NULL when absent. */
const char *fn_reader_text(fn_config_reader *r, const char *key);

/* A token id below vocab; `key` for the message. */
int32_t fn_reader_token(fn_config_reader *r, const char *key, const json_t *id, size_t vocab);

/* Failures, as "FILE: text_config.KEY: ...". Each returns with r->status set. */
void fn_reader_fail_missing(fn_config_reader *r, const char *key);
void fn_reader_fail_found(fn_config_reader *r, const char *key, const json_t *found,
                          const char *expected);
void fn_reader_fail(fn_config_reader *r, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
