#include "kernels/avx2/avx2.h"

typedef float key_type;
typedef fn_attention_args attention_args;
typedef v16 dot_in;

#define DOT_STEP ((size_t)16)
#define dot_load v16_load
#define dot_load_n v16_load_n
#define dot_add v16_fma
#define value_load v16_load
#define value_load_n v16_load_n
#define DOTS_BEGIN
#define DOTS_END
#define ATTENTION FN_SIMD(attention)
#define INDEX_SCORES FN_SIMD(index_scores)

#include "kernels/simd/attention.inc"
