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

#include "base/half.h"
#include "kernels/tables.h"

bool emulated(void) {
    return getenv("FN_TESTS_EMULATED") != NULL;
}

guarded guarded_alloc(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = body + page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* qemu-user reads the whole vector of a masked load: its runs do without the guard */
    int guard = emulated() ? PROT_READ : PROT_NONE;
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

size_t available_tables(const fn_kernels *tables[MAX_TABLES]) {
    static int printed;
    size_t n = 0;
    for (int isa = 0; isa < FN_ISA_COUNT; isa++) {
        const fn_kernels *table = fn_kernels_for((fn_isa)isa);
        if (table == &fn_kernels_avx2_vnni)
            tables[n++] = &fn_kernels_avx2;
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

/* row [K] of random values of the kind, packed as row n. */
static void make_float_row(test_matrix *t, size_t n, float *row, uint64_t *state) {
    size_t cols = t->m.cols;
    uint16_t *words = malloc(cols * sizeof *words);
    assert_non_null(words);
    fill_random(row, cols, -1.0f, 1.0f, state);
    for (size_t k = 0; k < cols && t->m.kind == FN_MATRIX_BF16; k++) {
        words[k] = to_bf16(row[k]);
        row[k] = from_bf16(words[k]);
    }
    const void *source = t->m.kind == FN_MATRIX_BF16 ? (const void *)words : (const void *)row;
    fn_matrix_pack_row(&t->m, t->tiles.data, n, source);
    free(words);
}

/* Integer codes, every one that the kind has, and FP16 scales of either sign. */
static void make_code_row(test_matrix *t, size_t n, float *row, uint64_t *state) {
    size_t cols = t->m.cols, groups = (cols + t->m.group - 1) / t->m.group;
    int low = t->m.kind == FN_MATRIX_INT8 ? -127 : -8,
        count = t->m.kind == FN_MATRIX_INT8 ? 255 : 16;
    int8_t *codes = malloc(cols);
    uint16_t *scales = malloc(groups * sizeof *scales);
    assert_true(codes != NULL && scales != NULL);
    for (size_t g = 0; g < groups; g++)
        scales[g] =
            (uint16_t)(0x1c00u + next_random(state) % 0x400u + next_random(state) % 2 * 0x8000u);
    for (size_t k = 0; k < cols; k++) {
        codes[k] = (int8_t)(low + (int)(next_random(state) % (unsigned)count));
        row[k] = (float)codes[k] * fn_f16_to_float(scales[k / t->m.group]);
    }
    fn_matrix_pack_codes(&t->m, t->tiles.data, n, codes, scales);
    free(codes);
    free(scales);
}

/* E4M3 codes without the two that are no numbers, float32 scales. */
static void make_fp8_row(test_matrix *t, size_t n, float *row, uint64_t *state) {
    size_t cols = t->m.cols, groups = (cols + t->m.group - 1) / t->m.group;
    uint8_t *codes = malloc(cols);
    float *scales = malloc(groups * sizeof *scales);
    assert_true(codes != NULL && scales != NULL);
    fill_random(scales, groups, 0.001f, 0.01f, state);
    for (size_t k = 0; k < cols; k++) {
        codes[k] = (uint8_t)(next_random(state) % 127 + next_random(state) % 2 * 128);
        row[k] = fn_e4m3_to_float(codes[k]) * scales[k / t->m.group];
    }
    fn_matrix_pack_fp8(&t->m, t->tiles.data, n, codes, scales);
    free(codes);
    free(scales);
}

/* E2M1 codes in pairs, E4M3 scales, one float32 scale for the row. */
static void make_nvfp4_row(test_matrix *t, size_t n, float *row, uint64_t *state) {
    size_t cols = t->m.cols, groups = (cols + t->m.group - 1) / t->m.group;
    uint8_t *codes = malloc((cols + 1) / 2);
    uint8_t *scales = malloc(groups);
    float global;
    assert_true(codes != NULL && scales != NULL);
    fill_random(&global, 1, 0.001f, 0.002f, state);
    for (size_t g = 0; g < groups; g++)
        scales[g] = (uint8_t)(0x30 + next_random(state) % 0x4f);
    for (size_t i = 0; i < (cols + 1) / 2; i++)
        codes[i] = (uint8_t)next_random(state);
    for (size_t k = 0; k < cols; k++) {
        uint8_t code = (uint8_t)(codes[k / 2] >> k % 2 * 4 & 15);
        row[k] = fn_e2m1_to_float(code) * fn_e4m3_to_float(scales[k / t->m.group]) * global;
    }
    fn_matrix_pack_nvfp4(&t->m, t->tiles.data, n, codes, scales, global);
    free(codes);
    free(scales);
}

test_matrix test_matrix_make(fn_matrix_kind kind, size_t rows, size_t cols, size_t group,
                             uint64_t *state) {
    test_matrix t;
    group = kind == FN_MATRIX_NVFP4 ? FN_GROUP_NVFP4 : group;
    group = kind == FN_MATRIX_FP8 ? FN_GROUP_DEFAULT : group;
    t.values = malloc(rows * cols * sizeof(float));
    assert_non_null(t.values);
    t.tiles = guarded_alloc(fn_matrix_bytes(kind, rows, cols, group));
    t.m = (fn_matrix){.kind = kind,
                      .rows = rows,
                      .cols = cols,
                      .group = group,
                      .tile_bytes = fn_matrix_tile_bytes(kind, cols, group),
                      .tiles = t.tiles.data};
    for (size_t n = 0; n < rows; n++) {
        float *row = t.values + n * cols;
        if (kind == FN_MATRIX_FP8)
            make_fp8_row(&t, n, row, state);
        else if (kind == FN_MATRIX_NVFP4)
            make_nvfp4_row(&t, n, row, state);
        else if (kind == FN_MATRIX_INT8 || kind == FN_MATRIX_INT4)
            make_code_row(&t, n, row, state);
        else
            make_float_row(&t, n, row, state);
    }
    return t;
}

void test_matrix_free(test_matrix *t) {
    guarded_free(&t->tiles);
    free(t->values);
}
