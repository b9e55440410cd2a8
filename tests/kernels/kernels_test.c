/* Choosing a table: names, completeness, order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
    const fn_kernels *tables[FN_ISA_COUNT];
    size_t count = available_tables(tables);
    assert_true(count >= 1);
    assert_string_equal(tables[0]->name, "ref");
    assert_ptr_equal(fn_kernels_best(), tables[count - 1]);
    assert_null(fn_kernels_for(FN_ISA_COUNT));
}

/* A table is a name and function pointers. */
static void no_entry_is_missing(void **state) {
    (void)state;
    const fn_kernels *tables[FN_ISA_COUNT];
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_answer_to_their_names),
        cmocka_unit_test(the_reference_is_always_there_and_the_best_is_the_last),
        cmocka_unit_test(no_entry_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
