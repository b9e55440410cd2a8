/* dialogue/events.h - chosen ids become events: the thought, the answer, and where to stop.
 *
 * Path:    sampled ids -> [tokens/detokenize.h: whole characters] -> [this: thinking split, stop
 *          strings] -> FN_EVENT_THINKING and FN_EVENT_ANSWER pieces for the caller.
 * Thought: starts_in_thought says that the prompt ended inside <think>. Text up to "</think>" (an
 *          added token or spelt over several) is the thought; newlines at its ends and before the
 *          answer are the template's, not the text's, and are left out. Without a closer all is
 *          thought; outside of a thought "</think>" is text.
 * Stops:   looked for in the answer only, byte by byte: the string that ends first counts (of
 *          several, the longest), and the answer ends before it. Text that may be the start of
 *          one is held back until it is clear.
 * Pieces:  whole UTF-8 characters; joined they are the same however the text falls into tokens.
 *          Special tokens give no text.
 * Threads: one dialogue belongs to one thread at a time.
 * Memory:  at creation; while feeding only when a held text outgrows its buffer. */
#ifndef FN_DIALOGUE_EVENTS_H
#define FN_DIALOGUE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "tokens/tokenizer.h"

typedef struct fn_dialogue fn_dialogue;

typedef struct fn_dialogue_options {
    const fn_tokenizer *tokenizer; /* lent; NULL: ids only, there is no text and no event */
    bool starts_in_thought;
    const char *const *stop; /* [n_stop], copied: not empty, valid UTF-8 */
    size_t n_stop;
    bool (*on_event)(void *ud, const fn_event *event); /* NULL allowed; false: stop here */
    void *ud;
} fn_dialogue_options;

typedef enum fn_dialogue_state {
    FN_DIALOGUE_OPEN,
    FN_DIALOGUE_STOPPED,  /* a stop string was found: nothing more will come out */
    FN_DIALOGUE_CANCELLED /* on_event returned false: nothing more will come out */
} fn_dialogue_state;

/* The caller owns *out. Fails with FN_E_USAGE (empty or broken stop string) or FN_E_NOMEM. */
FN_NODISCARD fn_status fn_dialogue_create(const fn_dialogue_options *options, fn_dialogue **out,
                                          fn_error *err);
void fn_dialogue_destroy(fn_dialogue *d); /* NULL is allowed */

/* Takes the next id (not the end token). *state is what fn_dialogue_get_state tells. */
FN_NODISCARD fn_status fn_dialogue_feed(fn_dialogue *d, int32_t id, fn_dialogue_state *state,
                                        fn_error *err);

/* No more ids: what was held back comes out, unless the state is not OPEN. */
FN_NODISCARD fn_status fn_dialogue_finish(fn_dialogue *d, fn_error *err);

fn_dialogue_state fn_dialogue_get_state(const fn_dialogue *d);

/* Is the text still in the thought; ids that belong to it, the closer's among them. */
bool fn_dialogue_in_thought(const fn_dialogue *d);
size_t fn_dialogue_thinking_ids(const fn_dialogue *d);
/* The id whose text closes a thought, or -1 where no single one does. */
int32_t fn_dialogue_closer(const fn_dialogue *d);

#endif
