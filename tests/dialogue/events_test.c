/* Ids to events: thinking split, stop strings, whole characters. The tokenizer of the test has every
 * byte as token id = byte, some longer tokens, and added tokens as the published one has them.
 *
 * Every script runs in every way its text can fall into two pieces, byte by byte, and whole; the
 * joined pieces must be the same. The static feeding function is reached through the .c file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dialogue/events.c"
#include "support/alloc_fail.h"

#define TOKENIZER "tests/data/dialogue/tokenizer.json"

typedef struct record {
    char thinking[4096], answer[4096];
    size_t n_thinking, n_answer;
    size_t events;
    size_t cancel_after; /* events; 0: never */
} record;

static bool keep(void *ud, const fn_event *event) {
    record *r = ud;
    bool thinking = event->kind == FN_EVENT_THINKING;
    char *text = thinking ? r->thinking : r->answer;
    size_t *n = thinking ? &r->n_thinking : &r->n_answer;
    assert_true(thinking || event->kind == FN_EVENT_ANSWER);
    assert_false(thinking && r->n_answer > 0);
    assert_true(event->n > 0 && *n + event->n < sizeof r->answer);
    assert_int_equal(fn_utf8_valid_prefix((const unsigned char *)event->text, event->n), event->n);
    memcpy(text + *n, event->text, event->n);
    *n += event->n;
    text[*n] = '\0';
    r->events += 1;
    return r->events != r->cancel_after;
}

static fn_tokenizer *tokenizer;

static int load_tokenizer(void **state) {
    fn_error err = {0};
    (void)state;
    if (fn_tokenizer_load(TOKENIZER, &tokenizer, &err) != FN_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    return 0;
}

static int free_tokenizer(void **state) {
    (void)state;
    fn_tokenizer_free(tokenizer);
    return 0;
}

static fn_dialogue *start(bool in_thought, const char *const *stop, size_t n_stop, record *r) {
    fn_error err = {0};
    fn_dialogue *d = NULL;
    fn_dialogue_options options = {.tokenizer = tokenizer,
                                   .starts_in_thought = in_thought,
                                   .stop = stop,
                                   .n_stop = n_stop,
                                   .on_event = keep,
                                   .ud = r};
    if (fn_dialogue_create(&options, &d, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
    return d;
}

static void feed(fn_dialogue *d, int32_t id) {
    fn_dialogue_state now;
    assert_int_equal(fn_dialogue_feed(d, id, &now, NULL), FN_OK);
}

static void feed_bytes(fn_dialogue *d, const char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        feed(d, (unsigned char)bytes[i]);
    }
}

/* As if one token stood for these bytes (whole characters). */
static void feed_piece(fn_dialogue *d, const char *bytes, size_t n) {
    d->text.count = 0;
    if (d->state == FN_DIALOGUE_OPEN) {
        assert_int_equal(fn_text_buffer_append(&d->text, bytes, n, NULL), FN_OK);
        assert_int_equal(take_text(d, NULL), FN_OK);
    }
}

typedef struct script {
    bool in_thought;
    const char *stop[4];
    const char *text;
    const char *thinking, *answer;
    fn_dialogue_state state;
} script;

static void expect(const script *s, fn_dialogue *d, const record *r) {
    assert_int_equal(fn_dialogue_finish(d, NULL), FN_OK);
    assert_string_equal(r->thinking, s->thinking);
    assert_string_equal(r->answer, s->answer);
    assert_int_equal(fn_dialogue_get_state(d), s->state);
    fn_dialogue_destroy(d);
}

static void run(const script *s) {
    size_t n = strlen(s->text);
    size_t n_stop = 0;
    while (n_stop < 4 && s->stop[n_stop] != NULL) {
        n_stop += 1;
    }
    for (size_t cut = 0; cut <= n; cut++) {
        if (fn_utf8_valid_prefix((const unsigned char *)s->text, cut) != cut) {
            continue;
        }
        record r = {0};
        fn_dialogue *d = start(s->in_thought, s->stop, n_stop, &r);
        feed_piece(d, s->text, cut);
        feed_piece(d, s->text + cut, n - cut);
        expect(s, d, &r);
    }
    record r = {0};
    fn_dialogue *d = start(s->in_thought, s->stop, n_stop, &r);
    feed_bytes(d, s->text, n);
    expect(s, d, &r);
    /* And as the tokenizer would cut it, added tokens and all. */
    r = (record){0};
    d = start(s->in_thought, s->stop, n_stop, &r);
    fn_ids ids = {0};
    assert_int_equal(fn_tokenizer_encode(tokenizer, s->text, n, true, &ids, NULL), FN_OK);
    for (size_t i = 0; i < ids.count; i++) {
        feed(d, ids.items[i]);
    }
    fn_ids_free(&ids);
    expect(s, d, &r);
}

static void the_thought_is_split_from_the_answer(void **state) {
    (void)state;
    const script scripts[] = {
        {.in_thought = true, .text = "a b\n</think>\n\nHi!", .thinking = "a b", .answer = "Hi!"},
        {.in_thought = true,
         .text = "\n\na\n\nb\n\n</think>Hi\n",
         .thinking = "a\n\nb",
         .answer = "Hi\n"},
        {.in_thought = true,
         .text = "no closer </thin",
         .thinking = "no closer </thin",
         .answer = ""},
        {.in_thought = true, .text = "open\n\n", .thinking = "open\n\n", .answer = ""},
        {.in_thought = true,
         .text = "\n\n</think>\n\nempty thought",
         .thinking = "",
         .answer = "empty thought"},
        {.in_thought = true,
         .text = "a</think>b</think>c",
         .thinking = "a",
         .answer = "b</think>c"},
        {.in_thought = true,
         .text = "a<</</think<</think></think",
         .thinking = "a<</</think<",
         .answer = "</think"},
        {.in_thought = true, .text = "</think>", .thinking = "", .answer = ""},
        {.in_thought = false,
         .text = "\n\nx</think>\n\ny",
         .thinking = "",
         .answer = "\n\nx</think>\n\ny"},
        {.in_thought = true,
         .text = "\xe4\xb8\x96\n\n\xe4\xb8\x96</think>\n\xe4\xb8\x96",
         .thinking = "\xe4\xb8\x96\n\n\xe4\xb8\x96",
         .answer = "\xe4\xb8\x96"},
        {.in_thought = false, .text = "<tool_call>{}", .thinking = "", .answer = "<tool_call>{}"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        run(&scripts[i]);
    }
}

static void the_answer_ends_before_the_first_stop_string(void **state) {
    (void)state;
    const fn_dialogue_state stopped = FN_DIALOGUE_STOPPED;
    const script scripts[] = {
        {.stop = {"STOP"}, .text = "one STOP two", .answer = "one ", .state = stopped},
        {.stop = {"STOP"}, .text = "one STO", .answer = "one STO"},
        {.stop = {"STOP"}, .text = "STSTOSTOP", .answer = "STSTO", .state = stopped},
        {.stop = {"abab"}, .text = "xabaabab", .answer = "xaba", .state = stopped},
        {.stop = {"bc", "abcd"}, .text = "xabcd", .answer = "xa", .state = stopped},
        {.stop = {"cd", "abcd"}, .text = "xabcd", .answer = "x", .state = stopped},
        {.stop = {"zz", "\n\n"}, .text = "line\n\nmore", .answer = "line", .state = stopped},
        {.stop = {"\xe4\xb8\x96\xe7\x95\x8c"},
         .text = "a\xe4\xb8\x96\xe4\xb8\x96\xe7\x95\x8c",
         .answer = "a\xe4\xb8\x96",
         .state = stopped},
        {.stop = {"\xe4\xb8\x96\xe7\x95\x8c"},
         .text = "a\xe4\xb8\x96\xe7\x95\x8d",
         .answer = "a\xe4\xb8\x96\xe7\x95\x8d"},
        /* Not in the thought, nor in the template's newlines behind it. */
        {.in_thought = true,
         .stop = {"STOP", "\n\n"},
         .text = "STOP\n\nno</think>\n\na STOP",
         .thinking = "STOP\n\nno",
         .answer = "a ",
         .state = stopped},
        {.in_thought = true, .stop = {"k>x"}, .text = "t</think>x", .thinking = "t", .answer = "x"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        script s = scripts[i];
        s.thinking = s.thinking != NULL ? s.thinking : "";
        run(&s);
    }
}

/* A family of three joined by U+200D, a character of 25 bytes, one byte a token. */
static void characters_come_out_whole(void **state) {
    (void)state;
    const char *family =
        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 \xef\xbf\xbd!";
    const script s = {.text = family, .thinking = "", .answer = family};
    run(&s);
}

static void half_a_character_at_the_end_is_replaced(void **state) {
    (void)state;
    record r = {0};
    fn_dialogue *d = start(false, NULL, 0, &r);
    feed_bytes(d, "A\xe4\xb8", 3);
    const script s = {.thinking = "", .answer = "A\xef\xbf\xbd"};
    expect(&s, d, &r);
}

static void text_that_cannot_be_a_stop_is_not_held_back(void **state) {
    (void)state;
    const char *stop[] = {"STOP"};
    record r = {0};
    fn_dialogue *d = start(false, stop, 1, &r);
    feed_bytes(d, "aS", 2);
    assert_string_equal(r.answer, "a");
    feed_bytes(d, "x", 1);
    assert_string_equal(r.answer, "aSx");
    feed_bytes(d, "ST", 2);
    assert_string_equal(r.answer, "aSx");
    fn_dialogue_destroy(d);
}

static void nothing_comes_out_after_a_stop(void **state) {
    (void)state;
    const char *stop[] = {"."};
    record r = {0};
    fn_dialogue *d = start(false, stop, 1, &r);
    feed_bytes(d, "a.b.c", 5);
    const script s = {.thinking = "", .answer = "a", .state = FN_DIALOGUE_STOPPED};
    expect(&s, d, &r);
}

static void the_caller_can_cancel(void **state) {
    (void)state;
    record r = {.cancel_after = 2};
    fn_dialogue *d = start(false, NULL, 0, &r);
    feed_bytes(d, "abcd", 4);
    assert_int_equal(fn_dialogue_finish(d, NULL), FN_OK);
    assert_string_equal(r.answer, "ab");
    assert_int_equal(fn_dialogue_get_state(d), FN_DIALOGUE_CANCELLED);
    fn_dialogue_destroy(d);
}

static void special_tokens_are_not_shown_and_thinking_ids_are_counted(void **state) {
    (void)state;
    int32_t end = fn_tokenizer_id(tokenizer, "<|im_end|>", 10);
    int32_t closer = fn_tokenizer_id(tokenizer, "</think>", 8);
    record r = {0};
    fn_dialogue *d = start(true, NULL, 0, &r);
    assert_true(end >= 0 && closer >= 0);
    feed_bytes(d, "ab", 2);
    feed(d, end);
    assert_true(fn_dialogue_in_thought(d));
    feed(d, closer);
    assert_false(fn_dialogue_in_thought(d));
    feed_bytes(d, "cd", 2);
    feed(d, end);
    assert_int_equal(fn_dialogue_thinking_ids(d), 4);
    const script s = {.thinking = "ab", .answer = "cd"};
    expect(&s, d, &r);
}

/* A tokenizer may mark the closer special: then the detokenizer is silent about it. */
static void a_special_closer_closes_too(void **state) {
    (void)state;
    record r = {0};
    fn_dialogue *d = start(true, NULL, 0, &r);
    d->hidden_closer = true;
    d->closer_id = fn_tokenizer_id(tokenizer, "<|im_end|>", 10);
    feed_bytes(d, "a\xe4", 2);
    feed(d, d->closer_id);
    feed_bytes(d, "\nb", 2);
    const script s = {.thinking = "a\xef\xbf\xbd", .answer = "b"};
    expect(&s, d, &r);
}

static void without_a_tokenizer_ids_give_no_text(void **state) {
    (void)state;
    fn_dialogue_state now;
    fn_dialogue *d = NULL;
    fn_dialogue_options options = {.starts_in_thought = true, .on_event = keep};
    assert_int_equal(fn_dialogue_create(&options, &d, NULL), FN_OK);
    assert_int_equal(fn_dialogue_feed(d, 65, &now, NULL), FN_OK);
    assert_int_equal(now, FN_DIALOGUE_OPEN);
    assert_int_equal(fn_dialogue_finish(d, NULL), FN_OK);
    fn_dialogue_destroy(d);
}

static void broken_stop_strings_are_refused(void **state) {
    (void)state;
    const char *wrong[] = {"", "ok\xe4\xb8"};
    for (size_t i = 0; i < 2; i++) {
        fn_error err = {0};
        fn_dialogue *d = NULL;
        fn_dialogue_options options = {.tokenizer = tokenizer, .stop = &wrong[i], .n_stop = 1};
        assert_int_equal(fn_dialogue_create(&options, &d, &err), FN_E_USAGE);
        assert_null(d);
        assert_non_null(strstr(err.text, "stop"));
    }
}

static void feeding_allocates_nothing(void **state) {
    (void)state;
    const char *stop[] = {"STOP", "\n\n\n"};
    record r = {0};
    fn_dialogue *d = start(true, stop, 2, &r);
    fn_alloc_fail_at(-1);
    feed_bytes(d, "some thought</think>\n\nand an answer with STO in it", 50);
    assert_int_equal(fn_alloc_calls(), 0);
    fn_dialogue_destroy(d);
}

static void creation_survives_lost_memory(void **state) {
    (void)state;
    const char *stop[] = {"a", "bb"};
    for (long n = 0;; n++) {
        fn_error err = {0};
        fn_dialogue *d = NULL;
        fn_dialogue_options options = {.tokenizer = tokenizer, .stop = stop, .n_stop = 2};
        fn_alloc_fail_at(n);
        fn_status status = fn_dialogue_create(&options, &d, &err);
        fn_alloc_fail_at(-1);
        if (status == FN_OK) {
            assert_true(n > 8);
            fn_dialogue_destroy(d);
            break;
        }
        assert_int_equal(status, FN_E_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_thought_is_split_from_the_answer),
        cmocka_unit_test(the_answer_ends_before_the_first_stop_string),
        cmocka_unit_test(characters_come_out_whole),
        cmocka_unit_test(half_a_character_at_the_end_is_replaced),
        cmocka_unit_test(text_that_cannot_be_a_stop_is_not_held_back),
        cmocka_unit_test(nothing_comes_out_after_a_stop),
        cmocka_unit_test(the_caller_can_cancel),
        cmocka_unit_test(special_tokens_are_not_shown_and_thinking_ids_are_counted),
        cmocka_unit_test(a_special_closer_closes_too),
        cmocka_unit_test(without_a_tokenizer_ids_give_no_text),
        cmocka_unit_test(broken_stop_strings_are_refused),
        cmocka_unit_test(feeding_allocates_nothing),
        cmocka_unit_test(creation_survives_lost_memory),
    };
    return cmocka_run_group_tests(tests, load_tokenizer, free_tokenizer);
}
