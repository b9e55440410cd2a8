/* tokens/pretokenize.h - cuts a text into the pieces BPE works on: the split rules, by hand.
 *
 * Path:    normalised text -> [this: piece after piece] -> bpe
 * Rules:   two regular expressions are known, by their exact text in tokenizer.json:
 *          Qwen 2    words are \p{L}+
 *          Qwen 3.5  words are [\p{L}\p{M}]+, and marks are no punctuation
 * Time:    linear, no recursion.
 * Threads: pure functions. */
#ifndef FN_TOKENS_PRETOKENIZE_H
#define FN_TOKENS_PRETOKENIZE_H

#include <stddef.h>

typedef enum fn_split_rule {
    FN_SPLIT_NONE, /* not a known rule */
    FN_SPLIT_QWEN2,
    FN_SPLIT_QWEN35,
} fn_split_rule;

/* The rule with this regular expression, or FN_SPLIT_NONE. */
fn_split_rule fn_split_rule_find(const char *regex);

/* Its regular expression, for messages. */
const char *fn_split_rule_regex(fn_split_rule rule);

/* The length of the piece that starts valid UTF-8 text [n], n > 0. */
size_t fn_split_next(fn_split_rule rule, const char *text, size_t n);

#endif
