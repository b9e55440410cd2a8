/* tokens/marked_text.h - a text in which some ranges are marked as data, and rewriting it.
 *
 * Path:    rendered prompt -> [this: valid UTF-8, marks in place] -> added_tokens, nfc -> tokenizer
 * Threads: plain values, one owner at a time.
 * Memory:  views lend their bytes and spans. */
#ifndef FN_TOKENS_MARKED_TEXT_H
#define FN_TOKENS_MARKED_TEXT_H

#include "tokens/text_buffer.h"
#include "tokens/tokenizer.h"

typedef struct fn_marked_text {
    const char *bytes; /* [n] */
    size_t n;
    const fn_text_span *spans; /* [n_spans], ascending, within the text */
    size_t n_spans;
} fn_marked_text;

/* Carries spans along while a text is rewritten from left to right. */
typedef struct fn_span_mover {
    const fn_text_span *from; /* [n] */
    fn_text_span *to;         /* [n], filled as the rewriting goes on */
    size_t n;
    size_t begins; /* how many begins and ends have been moved */
    size_t ends;
} fn_span_mover;

/* Source bytes [at, at + n) were copied to `to`. */
void fn_spans_copied(fn_span_mover *m, size_t at, size_t n, size_t to);

/* Source bytes [at, at + n) became target bytes [to, to_end): an edge inside widens its span. */
void fn_spans_replaced(fn_span_mover *m, size_t at, size_t n, size_t to, size_t to_end);

/* The source ended; edges that stood at its end go to the target's end. */
void fn_spans_finish(fn_span_mover *m, size_t to_end);

/* Clips text to bytes [begin, end); room [text->n_spans] receives the spans. */
fn_marked_text fn_marked_slice(const fn_marked_text *text, size_t begin, size_t end,
                               fn_text_span *room);

/* Appends text to out with U+FFFD for what is not UTF-8; spans follow into `spans` [n_spans]. */
FN_NODISCARD fn_status fn_marked_repair(const fn_marked_text *text, fn_text_buffer *out,
                                        fn_text_span *spans, fn_error *err);

#endif
