#include "kernels/ref/ref.h"
#include "kernels/softplus.h"
#include "kernels/tables.h"

const fn_kernels fn_kernels_ref = {
    .name = "ref",
    .matmul = {[FN_MATRIX_F32] = fn_ref_matmul_f32,
               [FN_MATRIX_BF16] = fn_ref_matmul_bf16,
               [FN_MATRIX_INT8] = fn_ref_matmul_int8,
               [FN_MATRIX_INT4] = fn_ref_matmul_int4,
               [FN_MATRIX_FP8] = fn_ref_matmul_fp8,
               [FN_MATRIX_NVFP4] = fn_ref_matmul_nvfp4},
    .dot = fn_ref_dot,
    .rms_norm = fn_ref_rms_norm,
    .rms_norm_gated = fn_ref_rms_norm_gated,
    .l2_norm = fn_ref_l2_norm,
    .exp = fn_ref_exp,
    .sigmoid = fn_ref_sigmoid,
    .silu = fn_ref_silu,
    .silu_mul = fn_ref_silu_mul,
    .mul = fn_ref_mul,
    .add = fn_ref_add,
    .axpy = fn_ref_axpy,
    .softmax = fn_ref_softmax,
    .softplus = fn_softplus,
    .mix_streams = fn_ref_mix_streams,
    .conv_silu = fn_ref_conv_silu,
    .rope = fn_ref_rope,
    .delta_step = fn_ref_delta_step,
    .attention = fn_ref_attention,
    .index_scores = fn_ref_index_scores,
    .bf16_to_f32 = fn_ref_bf16_to_f32,
};
