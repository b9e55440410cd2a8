/* tokenize_bench TOKENIZER.json TEXT - encodes TEXT whenever a line arrives on standard input, and
 * prints "seconds ids digest" for it (seconds of CPU); ends with the input. bench/tokenizer_bench.py drives it beside
 * the `tokenizers` package, turn by turn. The digest is FNV-1a over the ids' four bytes each. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "tokens/tokenizer.h"

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t digest(const fn_ids *ids) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < ids->count; i++) {
        for (unsigned k = 0; k < 4; k++) {
            hash ^= (uint32_t)ids->items[i] >> (8 * k) & 0xFFu;
            hash *= UINT64_C(0x100000001B3);
        }
    }
    return hash;
}

static int run(const fn_tokenizer *tokenizer, const char *text, size_t n, fn_error *err) {
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        fn_ids ids = {0};
        double start = now();
        fn_status status = fn_tokenizer_encode(tokenizer, text, n, true, &ids, err);
        double seconds = now() - start;
        if (status != FN_OK) {
            return 1;
        }
        printf("%.6f %zu %016" PRIx64 "\n", seconds, ids.count, digest(&ids));
        (void)fflush(stdout);
        fn_ids_free(&ids);
    }
    return 0;
}

int main(int argc, char **argv) {
    fn_error err = {0};
    fn_tokenizer *tokenizer = NULL;
    char *text = NULL;
    size_t n = 0;
    int code = 2;
    if (argc != 3) {
        (void)fprintf(stderr, "usage: tokenize_bench TOKENIZER.json TEXT\n");
        return code;
    }
    double start = now();
    if (fn_tokenizer_load(argv[1], &tokenizer, &err) == FN_OK &&
        fn_file_read_all(argv[2], (size_t)1 << 30, &text, &n, &err) == FN_OK) {
        printf("%.6f loaded\n", now() - start);
        (void)fflush(stdout);
        code = run(tokenizer, text, n, &err);
    }
    if (err.code != FN_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        code = 1;
    }
    fn_free(text);
    fn_tokenizer_free(tokenizer);
    return code;
}
