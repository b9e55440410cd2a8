#include "kernels/ref/ref.h"

#define BLOCK 16 /* value columns handled together: the rows of a state are read in order */
#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* One token: columns j0 .. j0 + n; the state is read twice. */
static void run_block(const fn_delta_run_args *a, const float *state, size_t t, size_t j0,
                      size_t n) {
    const float *q = a->q + t * a->ldx, *k = a->k + t * a->ldx, *v = a->v + t * a->ldx + j0;
    float decay = a->decay[t * a->ld_gate], beta = a->beta[t * a->ld_gate];
    float qk = fn_ref_dot(q, k, a->dk);
    float recalled[BLOCK] = {0.0f}, read[BLOCK] = {0.0f}, change[BLOCK];
    for (size_t i = 0; i < a->dk; i++) {
        const float *row = state + i * a->ld_state + j0;
        for (size_t j = 0; j < n; j++) {
            recalled[j] = fn_ref_fma(row[j], k[i], recalled[j]);
            read[j] = fn_ref_fma(row[j], q[i], read[j]);
        }
    }
    for (size_t j = 0; j < n; j++) {
        change[j] = beta * (v[j] - decay * recalled[j]);
        a->out[t * a->ldo + j0 + j] = fn_ref_fma(qk, change[j], decay * read[j]);
    }
    for (size_t i = 0; i < a->dk; i++) {
        const float *row = state + i * a->ld_state + j0;
        float *row_out = a->state_out + i * a->ld_state + j0;
        for (size_t j = 0; j < n; j++)
            row_out[j] = fn_ref_fma(k[i], change[j], decay * row[j]);
    }
}

void fn_ref_delta_run(const fn_delta_run_args *a) {
    for (size_t t = 0; t < a->tokens; t++)
        for (size_t j0 = 0; j0 < a->dv; j0 += BLOCK)
            run_block(a, t == 0 ? a->state_in : a->state_out, t, j0,
                      MIN(a->dv - j0, (size_t)BLOCK));
}
