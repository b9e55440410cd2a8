/* Text cut into pieces at random: thought and answer must be what the text in one piece gives, and
 * what a plain search for the closer and the stop strings gives.
 *
 * Input: a byte of flags and sizes, two stop strings of up to 7 bytes, the text. */
#include <stdlib.h>

#include "dialogue/events.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

typedef struct parts {
    fn_text_buffer thinking, answer;
} parts;

static void must(bool ok) {
    if (!ok) {
        abort();
    }
}

static bool keep(void *ud, const fn_event *event) {
    parts *p = ud;
    fn_text_buffer *text = event->kind == FN_EVENT_THINKING ? &p->thinking : &p->answer;
    must(event->n > 0 &&
         fn_utf8_valid_prefix((const unsigned char *)event->text, event->n) == event->n);
    must(fn_text_buffer_append(text, event->text, event->n, NULL) == FN_OK);
    return true;
}

/* Feeds text [n] in pieces of `step` characters (0: all at once). */
static fn_dialogue_state feed(const fn_dialogue_options *options, const char *text, size_t n,
                              size_t step, parts *out) {
    fn_dialogue_options o = *options;
    fn_dialogue *d = NULL;
    o.on_event = keep;
    o.ud = out;
    must(fn_dialogue_create(&o, &d, NULL) == FN_OK);
    for (size_t at = 0; at < n && d->state == FN_DIALOGUE_OPEN;) {
        size_t end = step == 0 ? n : at;
        for (size_t i = 0; i < step && end < n; i++) {
            end += fn_utf8_length((unsigned char)text[end]);
        }
        d->text.count = 0;
        must(fn_text_buffer_append(&d->text, text + at, end - at, NULL) == FN_OK);
        must(take_text(d, NULL) == FN_OK);
        at = end;
    }
    if (d->state == FN_DIALOGUE_OPEN) {
        emit(d, d->held.count);
    }
    fn_dialogue_state state = d->state;
    fn_dialogue_destroy(d);
    return state;
}

static bool same(const fn_text_buffer *a, const fn_text_buffer *b) {
    return a->count == b->count && (a->count == 0 || memcmp(a->bytes, b->bytes, a->count) == 0);
}

static bool contains(const fn_text_buffer *text, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= text->count; i++) {
        if (memcmp(text->bytes + i, word, n) == 0) {
            return true;
        }
    }
    return false;
}

static void check(const fn_dialogue_options *options, const char *text, size_t n) {
    parts whole = {0};
    fn_dialogue_state state = feed(options, text, n, 0, &whole);
    for (size_t step = 1; step < 4; step++) {
        parts pieces = {0};
        must(feed(options, text, n, step, &pieces) == state);
        must(same(&whole.thinking, &pieces.thinking) && same(&whole.answer, &pieces.answer));
        fn_text_buffer_free(&pieces.thinking);
        fn_text_buffer_free(&pieces.answer);
    }
    must(!contains(&whole.thinking, CLOSER));
    must(options->starts_in_thought || whole.thinking.count == 0);
    for (size_t i = 0; i < options->n_stop; i++) {
        must(!contains(&whole.answer, options->stop[i]));
    }
    fn_text_buffer_free(&whole.thinking);
    fn_text_buffer_free(&whole.answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char stops[2][8] = {{0}};
    const char *stop[2];
    fn_dialogue_options options = {.stop = stop};
    if (n < 1) {
        return 0;
    }
    options.starts_in_thought = (data[0] & 1) != 0;
    size_t lengths[2] = {data[0] >> 1 & 7, data[0] >> 4 & 7};
    data += 1;
    n -= 1;
    for (size_t i = 0; i < 2; i++) {
        if (lengths[i] > n) {
            return 0;
        }
        memcpy(stops[i], data, lengths[i]);
        if (strlen(stops[i]) > 0 &&
            fn_utf8_valid_prefix((unsigned char *)stops[i], strlen(stops[i])) == strlen(stops[i])) {
            stop[options.n_stop++] = stops[i];
        }
        data += lengths[i];
        n -= lengths[i];
    }
    check(&options, (const char *)data, fn_utf8_valid_prefix(data, n));
    return 0;
}
