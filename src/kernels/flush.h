/* kernels/flush.h - subnormal floats count as zero, among inputs and results, between begin and end:
 * what the BF16 dot product instruction does always, and other instructions when told to.
 *
 * Threads: of the calling thread only. */
#ifndef FN_KERNELS_FLUSH_H
#define FN_KERNELS_FLUSH_H

#include <xmmintrin.h>

#define FN_FLUSH_BITS 0x8040u /* of MXCSR: results to zero, inputs as zero */

/* Returns what end wants. The empty statements keep loads and stores, and so all that is computed
 * between a load and a store, on their side. */
static inline unsigned fn_flush_begin(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | FN_FLUSH_BITS);
    __asm__ volatile("" : : : "memory");
    return before;
}

static inline void fn_flush_end(unsigned before) {
    __asm__ volatile("" : : : "memory");
    _mm_setcsr(before);
}

#endif
