#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/kernel_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

guarded guarded_alloc(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = body + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* qemu-user reads the whole vector of a masked load: its runs do without the guard */
    int guard = getenv("FN_TESTS_UNGUARDED") == NULL ? PROT_NONE : PROT_READ;
    if (g.map == MAP_FAILED || mprotect((char *)g.map + body, page, guard) != 0)
        fail_msg("cannot map %zu bytes for a test buffer", g.map_bytes);
    g.data = (char *)g.map + body - bytes;
    return g;
}

guarded guarded_floats(size_t n) {
    return guarded_alloc(n * sizeof(float));
}

void guarded_free(guarded *g) {
    munmap(g->map, g->map_bytes);
    g->map = g->data = NULL;
}

uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void fill_random(float *x, size_t n, float low, float high, uint64_t *state) {
    for (size_t i = 0; i < n; i++) {
        float unit = (float)(next_random(state) >> 40) * 0x1p-24f;
        x[i] = low + (high - low) * unit;
    }
}

size_t available_tables(const fn_kernels *tables[FN_ISA_COUNT]) {
    static int printed;
    size_t n = 0;
    for (int isa = 0; isa < FN_ISA_COUNT; isa++) {
        const fn_kernels *table = fn_kernels_for((fn_isa)isa);
        if (table != NULL)
            tables[n++] = table;
        if (!printed)
            fprintf(stderr, "kernel table %d: %s\n", isa,
                    table != NULL ? table->name : "not on this CPU, skipped");
    }
    printed = 1;
    return n;
}

void assert_same_bits(const float *got, const float *want, size_t n, const char *table,
                      const char *what) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof got[i]) == 0 || (isnan(got[i]) && isnan(want[i])))
            continue;
        fail_msg("%s, %s: [%zu of %zu] is %a (%g), the reference has %a (%g)", what, table, i, n,
                 (double)got[i], (double)got[i], (double)want[i], (double)want[i]);
    }
}

void assert_close(const float *got, const double *want, const double *scale, size_t n, double ulps,
                  const char *what) {
    for (size_t i = 0; i < n; i++) {
        double size = fabs(scale != NULL ? scale[i] : want[i]);
        double bound = ulps * 0x1p-24 * size + 0x1p-149;
        if (fabs((double)got[i] - want[i]) <= bound || (isnan(got[i]) && isnan(want[i])) ||
            (double)got[i] == want[i])
            continue;
        fail_msg("%s: [%zu of %zu] is %.9g, should be %.17g within %g", what, i, n, (double)got[i],
                 want[i], bound);
    }
}

double ulps_between(float got, double want) {
    float rounded = fabsf((float)want);
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0.0 : 1e300;
    if (isinf(got) || isinf(rounded))
        return isinf(got) && isinf(rounded) ? 0.0 : 1e300;
    int exponent = -125;
    if (rounded >= 0x1p-126f)
        (void)frexpf(rounded, &exponent);
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

float from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

test_matrix test_matrix_make(fn_matrix_kind kind, size_t rows, size_t cols, size_t group,
                             uint64_t *state) {
    test_matrix t;
    t.values = malloc(rows * cols * sizeof(float));
    uint16_t *words = malloc(cols * sizeof(uint16_t));
    assert_non_null(t.values);
    assert_non_null(words);
    fill_random(t.values, rows * cols, -1.0f, 1.0f, state);
    t.tiles = guarded_alloc(fn_matrix_bytes(kind, rows, cols, group));
    t.m = (fn_matrix){.kind = kind,
                      .rows = rows,
                      .cols = cols,
                      .group = group,
                      .tile_bytes = fn_matrix_tile_bytes(kind, cols, group),
                      .tiles = t.tiles.data};
    for (size_t n = 0; n < rows; n++) {
        float *row = t.values + n * cols;
        for (size_t k = 0; k < cols && kind == FN_MATRIX_BF16; k++) {
            words[k] = to_bf16(row[k]);
            row[k] = from_bf16(words[k]);
        }
        const void *source = kind == FN_MATRIX_BF16 ? (const void *)words : (const void *)row;
        fn_matrix_pack_row(&t.m, t.tiles.data, n, source);
    }
    free(words);
    return t;
}

void test_matrix_free(test_matrix *t) {
    guarded_free(&t->tiles);
    free(t->values);
}
