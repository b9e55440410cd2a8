/* Choosing a table: names, completeness, order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/tables.h"
#include "support/kernel_check.h"

static void tables_answer_to_their_names(void **state) {
    (void)state;
    static const char *const names[] = {"ref", "avx2", "avx512"};
    for (int i = 0; i < FN_ISA_COUNT; i++) {
        fn_isa isa = FN_ISA_COUNT;
        assert_true(fn_isa_parse(names[i], &isa));
        assert_int_equal(isa, i);
        const fn_kernels *table = fn_kernels_for(isa);
        if (table != NULL)
            assert_string_equal(table->name, names[i]);
    }
    fn_isa isa = FN_ISA_AVX2;
    assert_false(fn_isa_parse("", &isa));
    assert_false(fn_isa_parse("AVX2", &isa));
    assert_false(fn_isa_parse("sse", &isa));
    assert_int_equal(isa, FN_ISA_AVX2);
}

static void the_reference_is_always_there_and_the_best_is_the_last(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    assert_true(count >= 1);
    assert_string_equal(tables[0]->name, "ref");
    assert_ptr_equal(fn_kernels_best(), tables[count - 1]);
    assert_null(fn_kernels_for(FN_ISA_COUNT));
}

/* A table is a name and function pointers. */
static void no_entry_is_missing(void **state) {
    (void)state;
    const fn_kernels *tables[MAX_TABLES];
    size_t count = available_tables(tables);
    for (size_t t = 0; t < count; t++) {
        for (int kind = 0; kind < FN_MATRIX_KINDS; kind++)
            assert_non_null(tables[t]->matmul[kind]);
        const char *first = (const char *)&tables[t]->dot, *end = (const char *)(tables[t] + 1);
        static const uint8_t null[sizeof(void *)];
        for (const char *entry = first; entry < end; entry += sizeof(void *))
            assert_memory_not_equal(entry, null, sizeof null);
    }
}

/* A CPU with AVX-512 but without the instructions of the fast precision has the table all the same:
 * what it cannot run comes from AVX2. One without AVX-512 does not. */
static void cpus_without_every_instruction_have_their_table(void **state) {
    (void)state;
    fn_cpu old = {.avx2 = true}, alder_lake = {.avx2 = true, .avx_vnni = true};
    fn_cpu skylake = {.avx2 = true, .avx512 = true};
    fn_cpu ice_lake = {.avx2 = true, .avx512 = true, .avx512_vnni = true};
    fn_cpu zen4 = {.avx2 = true, .avx512 = true, .avx512_vnni = true, .avx512_bf16 = true};
    const fn_kernels *avx2 = fn_kernels_on(FN_ISA_AVX2, old);
    const fn_kernels *whole = fn_kernels_on(FN_ISA_AVX512, zen4);
    const fn_kernels *vnni = fn_kernels_on(FN_ISA_AVX512, ice_lake);
    const fn_kernels *plain = fn_kernels_on(FN_ISA_AVX512, skylake);
    const fn_kernels *avx2_vnni = fn_kernels_on(FN_ISA_AVX2, alder_lake);
    assert_null(fn_kernels_on(FN_ISA_AVX512, old));
    assert_string_equal(avx2_vnni->name, "avx2");
    assert_true(avx2_vnni->matmul_fast[FN_MATRIX_INT4] != avx2->matmul_fast[FN_MATRIX_INT4]);
    assert_true(avx2_vnni->attention == avx2->attention);
    assert_null(fn_kernels_on(FN_ISA_AVX2, (fn_cpu){.avx2 = false}));
    assert_string_equal(vnni->name, "avx512");
    assert_string_equal(plain->name, "avx512");
    for (int kind = 0; kind < FN_MATRIX_KINDS; kind++) {
        bool bf16 = kind == FN_MATRIX_BF16;
        bool integer = kind == FN_MATRIX_INT8 || kind == FN_MATRIX_INT4;
        assert_true(vnni->matmul_fast[kind] == (bf16 ? avx2 : whole)->matmul_fast[kind]);
        assert_true(plain->matmul_fast[kind] ==
                    (bf16 || integer ? avx2 : whole)->matmul_fast[kind]);
        assert_true(plain->matmul[kind] == whole->matmul[kind]);
    }
    assert_true(plain->attention == whole->attention);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_answer_to_their_names),
        cmocka_unit_test(the_reference_is_always_there_and_the_best_is_the_last),
        cmocka_unit_test(no_entry_is_missing),
        cmocka_unit_test(cpus_without_every_instruction_have_their_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
