/* CPU detection against what the kernel says of the first processor in /proc/cpuinfo (which leaves
 * out what it does not save at a context switch). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"

/* The "flags" line with a space at both ends, or "" without one. */
static void read_flags(char *flags, size_t size) {
    flags[0] = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL)
        return;
    while (fgets(flags, (int)size - 1, file) != NULL) {
        if (strncmp(flags, "flags", 5) != 0)
            continue;
        flags[strcspn(flags, "\n")] = ' ';
        fclose(file);
        return;
    }
    flags[0] = 0;
    fclose(file);
}

static bool all_of(const char *flags, const char *const *names) {
    for (; *names != NULL; names++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", *names);
        if (strstr(flags, word) == NULL)
            return false;
    }
    return true;
}

static void detection_agrees_with_the_kernel(void **state) {
    (void)state;
    static char flags[8192];
    static const char *const avx2[] = {"avx2", "fma", "f16c", NULL};
    static const char *const avx512[] = {"avx2",     "fma",      "f16c",     "avx512f",
                                         "avx512bw", "avx512dq", "avx512vl", NULL};
    static const char *const avx_vnni[] = {"avx_vnni", NULL};
    static const char *const vnni[] = {"avx512_vnni", NULL}, *const bf16[] = {"avx512_bf16", NULL};
    read_flags(flags, sizeof flags);
    if (flags[0] == 0)
        skip(); /* no such file here */
    fn_cpu cpu = fn_cpu_detect();
    assert_int_equal(cpu.avx2, all_of(flags, avx2));
    assert_int_equal(cpu.avx_vnni, cpu.avx2 && all_of(flags, avx_vnni));
    assert_int_equal(cpu.avx512, all_of(flags, avx512));
    assert_int_equal(cpu.avx512_vnni, cpu.avx512 && all_of(flags, vnni));
    assert_int_equal(cpu.avx512_bf16, cpu.avx512 && all_of(flags, bf16));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detection_agrees_with_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
