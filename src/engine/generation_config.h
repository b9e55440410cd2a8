/* engine/generation_config.h - sampling defaults and end tokens of a checkpoint.
 *
 * Path:    generation_config.json (end tokens: else config.json) -> [this] -> struct fn_text.
 * Memory:  text->sampling and text->end_ids are set; nothing is kept. */
#ifndef FN_ENGINE_GENERATION_CONFIG_H
#define FN_ENGINE_GENERATION_CONFIG_H

#include "engine/text.h"

#define FN_MAX_TEXT_FILE ((size_t)64 << 20)

/* Without the files: greedy, no end token. Fails with FN_E_MODEL: a value of a wrong type or out of
 * range. Whether end tokens are in the vocabulary is for the engine to say, which knows it. */
FN_NODISCARD fn_status fn_generation_config_read(fn_text *text, const char *dir, fn_error *err);

/* dir/name if it is there; *path is freed by the caller (NULL: not there, or no dir). */
FN_NODISCARD fn_status fn_text_find_file(const char *dir, const char *name, char **path,
                                         fn_error *err);
/* The object in dir/name; *out is NULL when there is no such file. */
FN_NODISCARD fn_status fn_text_read_json(const char *dir, const char *name, json_t **out,
                                         fn_error *err);

#endif
