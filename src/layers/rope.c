/* Rotary positions. Reference: Qwen4ExpTextRotaryEmbedding: pair i turns by position * theta^(-2i/rotary),
 * the product taken in float32; it follows the height position where i % 3 = 1 and i < 3*s1, the width
 * position where i % 3 = 2 and i < 3*s2, else time (mrope_section [s0, s1, s2]). */
#include <math.h>

#include "layers/layers.h"

void fn_rope_angles(const fn_shape *shape, const int32_t position[3], float *cosines,
                    float *sines) {
    size_t pairs = shape->rotary / 2;
    for (size_t i = 0; i < pairs; i++) {
        size_t axis = i % 3;
        if (axis != 0 && i >= 3 * shape->mrope_section[axis]) {
            axis = 0;
        }
        float power = (float)pow(shape->rope_theta, (double)(2 * i) / (double)shape->rotary);
        float frequency = 1.0f / power;
        float angle = (float)position[axis] * frequency;
        cosines[i] = (float)cos((double)angle);
        sines[i] = (float)sin((double)angle);
    }
}

static void rope_rows(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    size_t pairs = s->shape->rotary / 2;
    (void)ctx;
    (void)thread;
    for (size_t r = begin; r < end; r++) {
        fn_rope_angles(s->shape, s->positions + 3 * r, s->rope_cos + r * pairs,
                       s->rope_sin + r * pairs);
    }
}

void fn_layer_rope(const fn_step *s) {
    fn_step_each(s, s->rows, rope_rows, NULL);
}
