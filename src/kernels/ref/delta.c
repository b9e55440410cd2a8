#include "kernels/ref/ref.h"

#define BLOCK 16 /* value columns handled together: the rows of a state are read in order */
#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* Columns j0 .. j0 + n of one head. */
static void delta_block(const fn_delta_args *a, size_t j0, size_t n) {
    float recalled[BLOCK] = {0.0f}, change[BLOCK], out[BLOCK] = {0.0f};
    for (size_t i = 0; i < a->dk; i++) {
        const float *row = a->state_in + i * a->ld_state + j0;
        for (size_t j = 0; j < n; j++)
            recalled[j] = fn_ref_fma(a->decay * row[j], a->k[i], recalled[j]);
    }
    for (size_t j = 0; j < n; j++)
        change[j] = a->beta * (a->v[j0 + j] - recalled[j]);
    for (size_t i = 0; i < a->dk; i++) {
        const float *row = a->state_in + i * a->ld_state + j0;
        float *row_out = a->state_out + i * a->ld_state + j0;
        for (size_t j = 0; j < n; j++) {
            float s = fn_ref_fma(a->k[i], change[j], a->decay * row[j]);
            row_out[j] = s;
            out[j] = fn_ref_fma(s, a->q[i], out[j]);
        }
    }
    memcpy(a->out + j0, out, n * sizeof(float));
}

void fn_ref_delta_step(const fn_delta_args *a) {
    for (size_t j0 = 0; j0 < a->dv; j0 += BLOCK)
        delta_block(a, j0, MIN(a->dv - j0, (size_t)BLOCK));
}
