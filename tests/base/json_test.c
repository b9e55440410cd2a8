/* JSON when memory ends: the parser's own allocations fail in the middle of a text that has no fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "support/sanitized.h"

enum { WORDS = 6000, STEP = 32 << 10 };

static char *many_words(size_t *n) {
    char *text = malloc(WORDS * 60 + 2), *at = text;
    assert_non_null(text);
    for (int i = 0; i < WORDS; i++)
        at +=
            sprintf(at, "%c\"word %d\":[\"a text of %d\", \"\\u00e9\"]", i == 0 ? '{' : ',', i, i);
    at += sprintf(at, "}");
    *n = (size_t)(at - text);
    return text;
}

static rlim_t address_space(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    (void)fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* In a process of its own, whose address space grows by no more than `more`: what parsing says. */
static int parse_within(const char *text, size_t n, rlim_t more) {
    pid_t child = fork();
    if (child == 0) {
        rlim_t most = address_space() + more;
        json_t *root = NULL;
        fn_error err;
        if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) != 0)
            _exit(100);
        fn_status status = fn_json_parse(text, n, "words", &root, &err);
        _exit((int)status);
    }
    int state = 0;
    assert_true(child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state));
    return WEXITSTATUS(state);
}

static void memory_that_ends_is_no_fault_of_the_text(void **unused) {
    (void)unused;
    if (SANITIZED)
        skip();
    size_t n = 0;
    char *text = many_words(&n);
    int failed = 0, status = FN_E_NOMEM;
    for (rlim_t more = 0; status != FN_OK; more += STEP) {
        status = parse_within(text, n, more);
        assert_true(status == FN_OK || status == FN_E_NOMEM);
        failed += status != FN_OK;
        assert_true(more < (rlim_t)1 << 30);
    }
    assert_true(failed > 5);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_ends_is_no_fault_of_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
