#include "tokens/jinja_sort.h"

#include <string.h>

#include "tokens/jinja_run.h"

/* Merges the sorted halves of order[begin, end) by way of spare. */
static bool merge(fn_jrun *run, const fn_jval *keys, size_t *order, size_t *spare, size_t begin,
                  size_t middle, size_t end) {
    size_t left = begin;
    size_t right = middle;
    for (size_t at = begin; at < end; at++) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
            int compared = 0;
            if (!fn_jrun_step(run, 1) ||
                !fn_j_order(run, "<", keys[order[right]], keys[order[left]], &compared)) {
                return false;
            }
            take_right = compared == -1;
        }
        spare[at] = take_right ? order[right++] : order[left++];
    }
    memcpy(order + begin, spare + begin, (end - begin) * sizeof *order);
    return true;
}

static void turn_round(size_t *order, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        size_t other = order[n - 1 - i];
        order[n - 1 - i] = order[i];
        order[i] = other;
    }
}

const size_t *fn_jsort_order(fn_jrun *run, const fn_jval *keys, size_t n, bool reverse) {
    size_t *order = fn_jrun_array(run, n, sizeof *order);
    size_t *spare = fn_jrun_array(run, n, sizeof *spare);
    if (order == NULL || spare == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    /* A reversed sort keeps equal items in their order too: turn, sort, turn back. */
    if (reverse) {
        turn_round(order, n);
    }
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t begin = 0; begin + width < n; begin += 2 * width) {
            size_t end = n - begin < 2 * width ? n : begin + 2 * width;
            if (!merge(run, keys, order, spare, begin, begin + width, end)) {
                return NULL;
            }
        }
    }
    if (reverse) {
        turn_round(order, n);
    }
    return order;
}

const fn_jentry *fn_jsort_entries(fn_jrun *run, const fn_jdict *dict) {
    fn_jval *keys = fn_jrun_array(run, dict->n, sizeof *keys);
    fn_jentry *sorted = fn_jrun_array(run, dict->n, sizeof *sorted);
    if (keys == NULL || sorted == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < dict->n; i++) {
        keys[i] = dict->entries[i].key;
    }
    const size_t *order = fn_jsort_order(run, keys, dict->n, false);
    if (order == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < dict->n; i++) {
        sorted[i] = dict->entries[order[i]];
    }
    return sorted;
}
