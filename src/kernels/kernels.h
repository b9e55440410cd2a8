/* kernels/kernels.h - one table of compute kernels per instruction set, picked when a model is
 * loaded.
 *
 * Path:    layers/ call these through fn_kernels; ref/ avx2/ avx512/ implement them.
 * Shapes:  at each entry; row-major, the last index is fastest; n, K, ... are counts of floats.
 * Order:   results depend on the arguments of one row alone, never on how many rows, threads or
 *          calls the work was split into. Reductions ("dot order"): 16 partial sums, element i goes
 *          to lane i % 16 by fused multiply-add (plain sums: by addition) in ascending order from
 *          zero, then lanes are added as a tree (8 + 8, 4 + 4, 2 + 2, 1 + 1: lane j += lane j +
 *          half). exp and friends are one polynomial. So the three tables give the same bits.
 * NaN:     never becomes a number: one NaN among the inputs of a sum, a maximum or a softmax makes
 *          what depends on it NaN. Which NaN (sign, payload) is not specified.
 * Threads: stateless.
 * Memory:  no allocation; no read or write beyond the stated ranges. */
#ifndef FN_KERNELS_KERNELS_H
#define FN_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/matrix.h"
#include "kernels/row.h"

typedef struct fn_matmul_args {
    float *y; /* [rows, ldy], columns [32*tile_begin, min(32*tile_end, N)) are written */
    size_t ldy;
    const void *x; /* [rows, ldx bytes]; matmul: float32 rows; matmul_fast: the form of w->kind */
    size_t ldx;    /* bytes from one row to the next */
    size_t rows;
    const fn_matrix *w;
    size_t tile_begin, tile_end;
    const uint8_t *next; /* the weights that this thread multiplies by next, or NULL: a hint, too */
    bool far; /* y is read when it has left the caches anyway: a hint, the bits are the same */
} fn_matmul_args;

typedef struct fn_mix_args {
    float *y;          /* [n] */
    const float *gate; /* [hc, ld_gate], n used */
    size_t ld_gate;
    const float *x; /* [hc, ldx], n used: the streams */
    const float *w; /* [hc, ldx], n used: the weights of their norms */
    size_t ldx;
    const float *scale; /* [hc]: what rms_norm returned for each whole stream */
    size_t hc, n;
} fn_mix_args;

typedef struct fn_attention_args {
    float *out;     /* [heads, Dh]: out_h = sum_i softmax(scale * q_h . k_i) v_i */
    const float *q; /* [heads, ldq], Dh used */
    size_t ldq;
    size_t heads;          /* query heads that share this key head */
    size_t head_dim;       /* Dh = Dv */
    size_t n_keys;         /* >= 1 */
    const float *const *k; /* [n_keys] rows of Dh, ascending position */
    const float *const *v; /* [n_keys] rows of Dh */
    float scale;
    float *scores; /* scratch [heads, n_keys] */
} fn_attention_args;

/* The same with keys and values kept in BF16. */
typedef struct fn_attention_bf16_args {
    float *out;        /* [heads, Dh] */
    const uint16_t *q; /* [heads, ldq], Dh used */
    size_t ldq;
    size_t heads;
    size_t head_dim;
    size_t n_keys;            /* >= 1 */
    const uint16_t *const *k; /* [n_keys] rows of Dh, ascending position */
    const uint16_t *const *v; /* [n_keys] rows of Dh */
    float scale;
    float *scores; /* scratch [heads, n_keys] */
} fn_attention_bf16_args;

/* Some tokens of one head. Rows of token t: q + t * ldx, and likewise k and v. */
typedef struct fn_delta_run_args {
    float *state_out;      /* [dk, ld_state]: the state after the last token (may equal state_in) */
    const float *state_in; /* [dk, ld_state] */
    size_t ld_state;
    size_t dk;
    size_t dv;      /* value columns handled here; columns are independent */
    size_t tokens;  /* >= 1 */
    const float *q; /* [tokens, ldx], dk used; normalised and scaled */
    const float *k; /* [tokens, ldx], dk used; normalised */
    const float *v; /* [tokens, ldx], dv used */
    size_t ldx;
    const float *decay; /* [tokens, ld_gate], one used: exp(g) */
    const float *beta;  /* [tokens, ld_gate], one used */
    size_t ld_gate;
    float *out; /* [tokens, ldo], dv written */
    size_t ldo;
    bool
        far; /* state_out is read when it has left the caches anyway: a hint, the bits are the same */
} fn_delta_run_args;

typedef struct fn_kernels {
    const char *name; /* "ref", "avx2", "avx512" */

    /* y = x W^T, by kind; order in kernels/matrix.h. */
    void (*matmul[FN_MATRIX_KINDS])(const fn_matmul_args *a);

    /* y = x W^T in the fast precision: rows of x in the form fn_row_form_of(w->kind), written by
     * write_row with w's K and group. Subnormals count as zero in BF16 products.
     *
     *   INT8, INT4  i = the exact integer sum of one group's code products; groups ascending from
     *               y = 0: y = fma((float)i, weight_scale * row_scale, y)
     *   BF16        pairs of k ascending from y = 0: y = fma(w1, x1, y), then y = fma(w0, x0, y);
     *               w0, x0 the even k: what the BF16 dot product instruction computes
     *   others      the bits of matmul
     *
     * Error against a double sum of the same rounded inputs: INT8, INT4 at most G + 2 roundings
     * (2^-24) of the sum of the groups' magnitudes; BF16 at most K of the products'. */
    void (*matmul_fast[FN_MATRIX_KINDS])(const fn_matmul_args *a);

    /* One row x [cols] in a form of kernels/row.h; `row` has fn_row_bytes(form, cols, group) bytes
     * and does not overlap x.
     *
     * FN_ROW_INT8: per group, scale = max|x| / 127, code = x * (127 / max|x|) rounded to nearest,
     * ties to even. A group below 2^-100 throughout is all zeros with scale 0; one that holds a NaN
     * or an infinity has the scale NaN, so that what depends on it is NaN. */
    void (*write_row[FN_ROW_FORMS])(void *row, const float *x, size_t cols, size_t group);

    float (*dot)(const float *a, const float *b, size_t n);
    /* y[i] = x[i] * s * (1 + w[i]),  s = 1 / sqrt(dot(x, x) / n + eps); y may be x; returns s */
    float (*rms_norm)(float *y, const float *x, const float *w, size_t n, float eps);
    /* y[i] = (x[i] * s * w[i]) * gate[i], s as above: the delta net's gated norm */
    void (*rms_norm_gated)(float *y, const float *x, const float *w, const float *gate, size_t n,
                           float eps);
    /* y[i] = x[i] * (scale / sqrt(dot(x, x) + eps)); y may be x */
    void (*l2_norm)(float *y, const float *x, size_t n, float eps, float scale);

    /* Elementwise; y may be x. exp: max error 1.5 ulp, 0 below -104, +inf above 88.73. */
    void (*exp)(float *y, const float *x, size_t n);
    void (*sigmoid)(float *y, const float *x, size_t n, float scale); /* 1 / (1 + exp(-scale*x)) */
    void (*silu)(float *y, const float *x, size_t n,
                 float scale); /* (scale*x) * sigmoid(scale*x) */
    void (*silu_mul)(float *y, const float *gate, const float *up, size_t n); /* silu(gate) * up */
    void (*mul)(float *y, const float *a, const float *b, size_t n);          /* y = a * b */
    void (*add)(float *y, const float *x, size_t n);                          /* y += x */
    void (*axpy)(float *y, float a, const float *x, size_t n);                /* y = fma(a, x, y) */
    /* y = exp(x - max) / sum of those, the sum in dot order; y may be x */
    void (*softmax)(float *y, const float *x, size_t n);
    /* y = log(1 + exp(x)), y = x above 20; in double inside, correctly rounded but for rare ties */
    void (*softplus)(float *y, const float *x, size_t n);

    /* Some columns of the streams: y[i] = (1/hc) * sum_s sigmoid(gate[s,i]) * xn[s,i], xn as rms_norm
     * computes it: x[s,i] * scale[s] * (1 + w[s,i]); ascending s, fma from zero, then * 1/hc */
    void (*mix_streams)(const fn_mix_args *a);

    /* Depthwise causal convolution of one token: y[c] = silu(sum_j w[j,c] * x_j[c]), taps ascending
     * (oldest first), fma from zero; x: `taps` pointers to rows of c floats; w: [taps, ldw], c used. */
    void (*conv_silu)(float *y, const float *const *x, const float *w, size_t ldw, size_t taps,
                      size_t c);

    /* x[0..rotary) rotated (NEOX halves): cos, sin [rotary/2]; in place; products then sum, no fma:
     * x1*cos - x2*sin, x2*cos + x1*sin */
    void (*rope)(float *x, const float *cos, const float *sin, size_t rotary);

    /* Some tokens of the gated delta rule, per head, in one walk over the state a token. The rule
     *   S = decay * S;  d = beta * (v - S^T k);  S = S + k d^T;  out = S^T q
     * is taken with r = S^T k and o = S^T q of the state before the token (fma ascending over dk from
     * zero, per column) and qk = dot(q, k):
     *   d = beta * (v - decay * r);  out = fma(qk, d, decay * o);  S = fma(k, d^T, decay * S).
     * Several tokens give the same bits as one call for each. */
    void (*delta_run)(const fn_delta_run_args *a);

    /* score_i = scale * dot(q, k_i); p_i = exp(score_i - max); sum of p in dot order over the keys;
     * out_d = (sum over i ascending of p_i * v_i[d], fma from zero) / sum. On return `scores` holds
     * no meaning. */
    void (*attention)(const fn_attention_args *a);

    /* scores[b] = scale * sum over heads h of relu(q_h . key_b), dot order, heads ascending (added
     * from zero); q [heads, d]; keys [n, d] contiguous */
    void (*index_scores)(float *scores, const float *q, size_t heads, const float *keys, size_t n,
                         size_t d, float scale);

    /* BF16 dot order: lane j % 16 takes pair j (elements 2j, 2j + 1), pairs ascending from zero: fma
     * of the odd elements, then of the even ones; then the tree. An odd n is padded by a zero.
     * Subnormals are zero throughout, in index_scores_bf16 in the sum over heads, too. attention_bf16:
     * scores in that order, p and sums as in attention, values widened. q rounded by f32_to_bf16. */
    void (*attention_bf16)(const fn_attention_bf16_args *a);
    void (*index_scores_bf16)(float *scores, const uint16_t *q, size_t heads, const uint16_t *keys,
                              size_t n, size_t d, float scale);

    void (*bf16_to_f32)(float *y, const uint16_t *x, size_t n);
    /* To nearest, ties to even; subnormals become zeros of their sign. */
    void (*f32_to_bf16)(uint16_t *y, const float *x, size_t n);

    /* What a thread can reach at most, to measure the others against: p [bytes] read once, in
     * `streams` (1 or 8) ascending streams; the sum keeps the reads from being left out. */
    uint64_t (*probe_read)(const uint8_t *p, size_t bytes, size_t streams);
    /* `rounds` of multiply-adds that stay in registers, with the instructions of the fast products;
     * returns how many operations that was: a multiplication and an addition each count. */
    double (*probe_int8)(size_t rounds);
    double (*probe_bf16)(size_t rounds);
    double (*probe_f32)(size_t rounds);
} fn_kernels;

/* Instruction sets in ascending order. */
typedef enum fn_isa { FN_ISA_REF, FN_ISA_AVX2, FN_ISA_AVX512, FN_ISA_COUNT } fn_isa;

/* The table for an instruction set, or NULL where this CPU (CPUID and XCR0) cannot run it. */
const fn_kernels *fn_kernels_for(fn_isa isa);

/* The best table this CPU can run. */
const fn_kernels *fn_kernels_best(void);

/* "ref", "avx2", "avx512" -> *isa; false for any other word. */
_Bool fn_isa_parse(const char *word, fn_isa *isa);

#endif
