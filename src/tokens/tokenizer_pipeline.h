/* tokens/tokenizer_pipeline.h - what a tokenizer.json says is to be done with a text, checked.
 *
 * Path:    tokenizer.json -> [this: normaliser, split rule, and that nothing else is asked for]
 *          -> tokenizer_json.c */
#ifndef FN_TOKENS_TOKENIZER_PIPELINE_H
#define FN_TOKENS_TOKENIZER_PIPELINE_H

#include "tokens/tokenizer_parts.h"

/* Sets t->nfc and t->rule. Fails with FN_E_MODEL (not a tokenizer.json) or FN_E_UNSUPPORTED, with
 * the field, what was found and what is supported. */
FN_NODISCARD fn_status fn_tokenizer_read_pipeline(const json_t *root, fn_tokenizer *t,
                                                  fn_error *err);

#endif
