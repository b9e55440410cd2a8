#include <stdio.h>

#include "cli/build.h"
#include "cli/help.h"
#include "cli/report.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

#if defined(__x86_64__)
static void print_features(void) {
    /* The compiler's own test asks the operating system too (XCR0). */
    __builtin_cpu_init();
#define CLI_FEATURE(name)                                                                          \
    if (__builtin_cpu_supports(name)) {                                                            \
        fputs(" " name, stdout);                                                                   \
    }
    CLI_FEATURE("avx2")
    CLI_FEATURE("fma")
    CLI_FEATURE("avx512f")
    CLI_FEATURE("avx512bw")
    CLI_FEATURE("avx512dq")
    CLI_FEATURE("avx512vl")
    CLI_FEATURE("avx512vnni")
    CLI_FEATURE("avx512bf16")
#undef CLI_FEATURE
}
#else
static void print_features(void) {
}
#endif

int cli_version(const cli_options *options) {
    (void)options;
    printf("flashnext %s", fn_version());
    if (CLI_BUILD_GIT[0] != 0) {
        printf(" (%s)", CLI_BUILD_GIT);
    }
    printf("\nbuild: %s, %s\ncpu:", CLI_BUILD_TYPE[0] != 0 ? CLI_BUILD_TYPE : "plain", COMPILER);
    print_features();
    putchar('\n');
    return CLI_EXIT_OK;
}
