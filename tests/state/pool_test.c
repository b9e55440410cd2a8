/* The pool of pages and blocks: what is free and given back costs no memory, what is held keeps its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "state/pool.h"

#define BLOCKS 8
#define BLOCK_BYTES ((size_t)3 * 64 * 1024 + 64) /* no multiple of a page */
#define EDGE 8192                                /* a block's first and last page may be shared */

static fn_state_pool *make_pool(void) {
    fn_state_pool *pool = NULL;
    fn_state_layout layout = {.recurrent_bytes = BLOCK_BYTES};
    for (size_t i = 0; i < FN_PARTS; i++) {
        layout.part[i].storage = FN_STORE_RECURRENT;
    }
    assert_int_equal(fn_state_pool_create(&layout, &pool, NULL), FN_OK);
    assert_int_equal(fn_pool_promise(pool, FN_CLASS_RECURRENT, BLOCKS, NULL), FN_OK);
    return pool;
}

static void take_all(fn_state_pool *pool, fn_block **blocks, size_t n) {
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(fn_block_take(pool, FN_CLASS_RECURRENT, &blocks[i], NULL), FN_OK);
    }
}

static bool is_all(const fn_block *block, uint8_t value) {
    size_t i = EDGE;
    while (i < BLOCK_BYTES - EDGE && block->data[i] == value) {
        i++;
    }
    return i == BLOCK_BYTES - EDGE;
}

static void only_what_is_free_and_not_spared_is_given_back(void **unused) {
    (void)unused;
    fn_state_pool *pool = make_pool();
    fn_block *blocks[BLOCKS];
    fn_block *again[BLOCKS];
    take_all(pool, blocks, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        memset(blocks[i]->data, (int)i + 1, BLOCK_BYTES);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 4 != 1) { /* two stay held */
            fn_block_drop(pool, blocks[i]);
        }
    }
    fn_state_pool_trim(pool, 2);
    fn_state_pool_trim(pool, 2); /* once more changes nothing */
    take_all(pool, again, BLOCKS - 2);
    size_t zeros = 0;
    for (size_t i = 0; i < BLOCKS - 2; i++) {
        bool zero = is_all(again[i], 0);
        assert_true(zero || is_all(again[i], (uint8_t)(again[i]->data[EDGE])));
        zeros += zero;
        if (i < 2) {
            assert_false(zero); /* the spared ones are used first */
        }
    }
    assert_int_equal(zeros, BLOCKS - 4);
    assert_true(is_all(blocks[1], 2) && is_all(blocks[5], 6));
    fn_block_drop(pool, blocks[1]);
    fn_block_drop(pool, blocks[5]);
    for (size_t i = 0; i < BLOCKS - 2; i++) {
        fn_block_drop(pool, again[i]);
    }
    fn_state_pool_trim(pool, 0);
    take_all(pool, blocks, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_true(is_all(blocks[i], 0));
        fn_block_drop(pool, blocks[i]);
    }
    fn_pool_unpromise(pool, FN_CLASS_RECURRENT, BLOCKS);
    fn_state_pool_destroy(pool);
}

/* What was used has memory: before anything fresh is touched, it is used again. */
static void what_was_used_is_used_first(void **unused) {
    (void)unused;
    fn_state_pool *pool = make_pool();
    fn_block *one = NULL;
    fn_block *two = NULL;
    assert_int_equal(fn_block_take(pool, FN_CLASS_RECURRENT, &one, NULL), FN_OK);
    fn_block_drop(pool, one);
    assert_int_equal(fn_pool_promise(pool, FN_CLASS_RECURRENT, 2 * BLOCKS, NULL), FN_OK);
    assert_int_equal(fn_block_take(pool, FN_CLASS_RECURRENT, &two, NULL), FN_OK);
    assert_ptr_equal(one, two);
    fn_block_drop(pool, two);
    fn_pool_unpromise(pool, FN_CLASS_RECURRENT, 3 * BLOCKS);
    fn_state_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_free_and_not_spared_is_given_back),
        cmocka_unit_test(what_was_used_is_used_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
