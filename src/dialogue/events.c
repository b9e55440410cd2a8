#include "dialogue/events.h"

#include <string.h>

#include "base/mem.h"
#include "dialogue/matcher.h"
#include "tokens/detokenize.h"
#include "tokens/utf8.h"

#define CLOSER "</think>"
#define RESERVED_BYTES 4096

struct fn_dialogue {
    fn_dialogue_options options; /* its stop list is not kept */
    fn_dialogue_state state;
    bool in_thought;
    bool at_start;      /* newlines here are the template's */
    bool hidden_closer; /* the closer's token is special: the detokenizer gives no text for it */
    int32_t closer_id;
    size_t thinking_ids;
    fn_matcher *closer, *stops;
    fn_detokenizer detokenizer;
    fn_text_buffer text; /* of the id at hand */
    fn_text_buffer held; /* text of the current part that has not come out */
};

/* ---- life ----------------------------------------------------------------------------------- */

static fn_status check_stops(const fn_dialogue_options *options, fn_error *err) {
    for (size_t i = 0; i < options->n_stop; i++) {
        const char *text = options->stop[i];
        if (text == NULL || text[0] == '\0') {
            return fn_fail(err, FN_E_USAGE, "stop: string %zu is empty", i);
        }
        size_t n = strlen(text);
        if (fn_utf8_valid_prefix((const unsigned char *)text, n) != n) {
            return fn_fail(err, FN_E_USAGE, "stop: string %zu is not valid UTF-8", i);
        }
    }
    return FN_OK;
}

static void find_closer(fn_dialogue *d) {
    const fn_tokenizer *t = d->options.tokenizer;
    d->closer_id = fn_tokenizer_id(t, CLOSER, strlen(CLOSER));
    d->hidden_closer = d->closer_id >= 0 && fn_tokenizer_is_special(t, d->closer_id);
    fn_detokenizer_init(&d->detokenizer, t, true);
}

fn_status fn_dialogue_create(const fn_dialogue_options *options, fn_dialogue **out, fn_error *err) {
    static const char *const closers[] = {CLOSER};
    *out = NULL;
    fn_status status = check_stops(options, err);
    if (status != FN_OK) {
        return status;
    }
    fn_dialogue *d = fn_alloc_zero(1, sizeof *d);
    if (d == NULL) {
        return fn_fail_nomem(err, "a dialogue", sizeof *d);
    }
    d->options = *options;
    d->options.stop = NULL;
    d->closer_id = -1;
    d->in_thought = options->starts_in_thought;
    d->at_start = options->starts_in_thought;
    status = fn_text_buffer_reserve(&d->text, RESERVED_BYTES, err);
    if (status == FN_OK) {
        status = fn_text_buffer_reserve(&d->held, RESERVED_BYTES, err);
    }
    if (status == FN_OK) {
        status = fn_matcher_create(closers, 1, &d->closer, err);
    }
    if (status == FN_OK) {
        status = fn_matcher_create(options->stop, options->n_stop, &d->stops, err);
    }
    if (status != FN_OK) {
        fn_dialogue_destroy(d);
        return status;
    }
    if (options->tokenizer != NULL) {
        find_closer(d);
    }
    *out = d;
    return FN_OK;
}

void fn_dialogue_destroy(fn_dialogue *d) {
    if (d != NULL) {
        fn_matcher_destroy(d->closer);
        fn_matcher_destroy(d->stops);
        fn_text_buffer_free(&d->text);
        fn_text_buffer_free(&d->held);
        fn_free(d);
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Sends the first n held bytes out as a piece of the current part. */
static void emit(fn_dialogue *d, size_t n) {
    if (n == 0) {
        return;
    }
    fn_event event = {.kind = d->in_thought ? FN_EVENT_THINKING : FN_EVENT_ANSWER,
                      .text = d->held.bytes,
                      .n = n,
                      .id = -1};
    if (d->options.on_event != NULL && !d->options.on_event(d->options.ud, &event)) {
        d->state = FN_DIALOGUE_CANCELLED;
    }
    memmove(d->held.bytes, d->held.bytes + n, d->held.count - n);
    d->held.count -= n;
}

static size_t without_newlines(const fn_dialogue *d, size_t n) {
    while (n > 0 && d->held.bytes[n - 1] == '\n') {
        n -= 1;
    }
    return n;
}

static void take_byte(fn_dialogue *d, char byte) {
    if (d->at_start && byte == '\n') {
        return;
    }
    d->at_start = false;
    d->held.bytes[d->held.count++] = byte;
    size_t found = fn_matcher_step(d->in_thought ? d->closer : d->stops, byte);
    if (found == 0) {
        return;
    }
    d->held.count -= found;
    emit(d, d->in_thought ? without_newlines(d, d->held.count) : d->held.count);
    d->held.count = 0;
    if (d->in_thought) {
        d->in_thought = false;
        d->at_start = true;
    } else if (d->state == FN_DIALOGUE_OPEN) {
        d->state = FN_DIALOGUE_STOPPED;
    }
}

/* Takes d->text, then sends out what is clear: not the start of a closer or a stop string, not
 * newlines that would be dropped at the end of the thought. */
static fn_status take_text(fn_dialogue *d, fn_error *err) {
    fn_status status = fn_text_buffer_reserve(&d->held, d->text.count, err);
    if (status != FN_OK) {
        return status;
    }
    for (size_t i = 0; i < d->text.count && d->state == FN_DIALOGUE_OPEN; i++) {
        take_byte(d, d->text.bytes[i]);
    }
    if (d->state == FN_DIALOGUE_OPEN) {
        size_t clear = d->held.count - fn_matcher_held(d->in_thought ? d->closer : d->stops);
        emit(d, d->in_thought ? without_newlines(d, clear) : clear);
    }
    return FN_OK;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static fn_status decode(fn_dialogue *d, int32_t id, fn_error *err) {
    bool closes = d->in_thought && d->hidden_closer && id == d->closer_id;
    d->text.count = 0;
    fn_status status = fn_detokenizer_push(&d->detokenizer, id, &d->text, err);
    if (status == FN_OK && closes) {
        status = fn_detokenizer_finish(&d->detokenizer, &d->text, err);
    }
    if (status != FN_OK || !closes) {
        return status;
    }
    return fn_text_buffer_append(&d->text, CLOSER, strlen(CLOSER), err);
}

fn_status fn_dialogue_feed(fn_dialogue *d, int32_t id, fn_dialogue_state *state, fn_error *err) {
    fn_status status = FN_OK;
    if (d->options.tokenizer != NULL && d->state == FN_DIALOGUE_OPEN) {
        d->thinking_ids += d->in_thought;
        status = decode(d, id, err);
        if (status == FN_OK) {
            status = take_text(d, err);
        }
    }
    *state = d->state;
    return status;
}

fn_status fn_dialogue_finish(fn_dialogue *d, fn_error *err) {
    if (d->options.tokenizer == NULL || d->state != FN_DIALOGUE_OPEN) {
        return FN_OK;
    }
    d->text.count = 0;
    fn_status status = fn_detokenizer_finish(&d->detokenizer, &d->text, err);
    if (status == FN_OK) {
        status = take_text(d, err);
    }
    if (status == FN_OK && d->state == FN_DIALOGUE_OPEN) {
        emit(d, d->held.count);
    }
    return status;
}

fn_dialogue_state fn_dialogue_get_state(const fn_dialogue *d) {
    return d->state;
}

bool fn_dialogue_in_thought(const fn_dialogue *d) {
    return d->in_thought;
}

size_t fn_dialogue_thinking_ids(const fn_dialogue *d) {
    return d->thinking_ids;
}

int32_t fn_dialogue_closer(const fn_dialogue *d) {
    return d->closer_id;
}
