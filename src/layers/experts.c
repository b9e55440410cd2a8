/* down(silu(gate x) * up x) of the chosen experts; reference: Qwen4ExpTextExperts. */
#include "layers/experts.h"

#include <string.h>

typedef struct experts_job {
    const fn_moe_weights *w;
    const fn_input *in;
} experts_job;

/* Sorts items by expert: expert e's stand at [expert_first[e], expert_first[e + 1]); item i at expert_row[i],
 * where expert_item says i again. */
static void sort_by_expert(const fn_step *s) {
    const fn_shape *m = s->shape;
    size_t n = s->rows * m->n_chosen;
    size_t *first = s->expert_first;
    memset(first, 0, (m->n_experts + 1) * sizeof *first);
    for (size_t i = 0; i < n; i++) {
        first[s->chosen[i] + 1]++;
    }
    for (size_t e = 0; e < m->n_experts; e++) {
        first[e + 1] += first[e];
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = first[s->chosen[i]]++;
        s->expert_row[i] = (int32_t)at;
        s->expert_item[at] = (int32_t)i;
    }
    memmove(first + 1, first, m->n_experts * sizeof *first);
    first[0] = 0;
}

static size_t expert_at(const fn_step *s, size_t at) {
    return (size_t)s->chosen[s->expert_item[at]];
}

/* Places of the buffers that hold expert inputs, each with room for float32. */
static uint8_t *place_in(const fn_step *s, size_t at) {
    return s->expert_in + at * fn_row_bytes(FN_ROW_F32, s->shape->hidden, 1);
}
static float *place_mid(const fn_step *s, size_t at) {
    return s->expert_mid + at * 2 * fn_step_expert_width(s->shape);
}
static float *place_act(const fn_step *s, size_t at) {
    return s->expert_act + at * fn_step_expert_width(s->shape);
}
static uint8_t *place_act_form(const fn_step *s, size_t at) {
    return s->expert_act_form + at * fn_step_act_bytes(s->shape);
}

/* The input of the items sorted to [at, at + rows), all of one expert, gathered in place `to`; a single row is
 * taken where it is. */
static fn_linear gather(const fn_step *s, const experts_job *j, size_t at, size_t rows, size_t to) {
    const fn_matrix *w = &j->w->gate_up[expert_at(s, at)];
    size_t k = s->shape->n_chosen;
    fn_linear u = fn_input_product(s, j->in, w, NULL, s->rows);
    const uint8_t *from = u.x;
    u.rows = rows;
    u.x = from + (size_t)s->expert_item[at] / k * u.ldx;
    if (rows > 1) {
        uint8_t *place = place_in(s, to);
        for (size_t i = 0; i < rows; i++) {
            memcpy(place + i * u.ldx, from + (size_t)s->expert_item[at + i] / k * u.ldx, u.ldx);
        }
        u.x = place;
    }
    return u;
}

/* silu(gate) * up of `rows` rows, in the form that the product with `down` takes. */
static fn_linear activate(const fn_step *s, const fn_matrix *down, const float *mid, float *act,
                          uint8_t *form_rows, size_t rows) {
    size_t width = down->cols;
    fn_row_form form = fn_step_form(s, down);
    size_t stride = fn_row_bytes(form, width, down->group);
    for (size_t i = 0; i < rows; i++) {
        s->k->silu_mul(act + i * width, mid + i * 2 * width, mid + i * 2 * width + width, width);
        if (form != FN_ROW_F32) {
            s->k->write_row[form](form_rows + i * stride, act + i * width, width, down->group);
        }
    }
    bool plain = form == FN_ROW_F32;
    return (fn_linear){.w = down,
                       .x = plain ? (const void *)act : form_rows,
                       .ldx = plain ? width * sizeof(float) : stride,
                       .ldy = down->rows,
                       .rows = rows};
}

/* ---- many rows: a thread takes whole experts, or the first or last rows of one ---- */

static void whole_product(const fn_step *s, const fn_linear *u) {
    fn_step_product(s, u, (const size_t[2]){0, fn_matrix_tiles(u->w->rows)},
                    (const size_t[2]){0, u->rows});
}

/* From the inputs in `up` to y, through the thread's places. next: whose weights follow, or NULL. */
static void run_block(const fn_step *s, fn_linear up, const fn_matrix *down, const fn_matrix *next,
                      float *y, size_t place) {
    up.y = place_mid(s, place);
    up.ldy = up.w->rows;
    up.next = down->tiles;
    up.far = false;
    whole_product(s, &up);
    fn_linear out = activate(s, down, up.y, place_act(s, place), place_act_form(s, place), up.rows);
    out.y = y;
    out.next = next != NULL ? next->tiles : NULL;
    out.far = fn_step_far(s->rows * s->shape->n_chosen * s->shape->hidden);
    whole_product(s, &out);
}

static void run_many(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const experts_job *j = ctx;
    size_t place = thread * FN_EXPERT_BLOCK;
    size_t d = s->shape->hidden;
    for (size_t at = begin; at < end;) {
        size_t e = expert_at(s, at);
        size_t n = s->expert_first[e + 1] < end ? s->expert_first[e + 1] - at : end - at;
        n = n < FN_EXPERT_BLOCK ? n : FN_EXPERT_BLOCK;
        const fn_matrix *next =
            at + n < end ? &j->w->gate_up[expert_at(s, at + n)] : &j->w->shared_gate_up;
        run_block(s, gather(s, j, at, n, place), &j->w->down[e], next, s->expert_out + at * d,
                  place);
        at += n;
    }
    size_t last = end / s->shape->n_chosen;
    for (size_t r = begin / s->shape->n_chosen; r < last;) {
        size_t n = last - r < FN_EXPERT_BLOCK ? last - r : FN_EXPERT_BLOCK;
        fn_linear up = fn_input_product(s, j->in, &j->w->shared_gate_up, NULL, n);
        up.x = (const uint8_t *)up.x + r * up.ldx;
        run_block(s, up, &j->w->shared_down, NULL, s->shared_out + r * d, place);
        r += n;
    }
}

/* ---- few rows: all threads share each expert's outputs ---- */

/* One product for each expert that has rows, and the shared expert's. */
static size_t list_up(const fn_step *s, const experts_job *j) {
    size_t n = 0;
    size_t items = s->rows * s->shape->n_chosen;
    for (size_t at = 0; at < items;) {
        size_t rows = s->expert_first[expert_at(s, at) + 1] - at;
        fn_linear *u = &s->expert_units[n++];
        *u = gather(s, j, at, rows, at);
        u->y = place_mid(s, at);
        u->ldy = u->w->rows;
        at += rows;
    }
    s->expert_units[n++] =
        fn_input_product(s, j->in, &j->w->shared_gate_up, place_mid(s, items), s->rows);
    return n;
}

/* A unit's rows on their way from gate and up to down; the units' rows lie one behind the other. */
static void activate_units(const fn_step *s, void *ctx, size_t begin, size_t end, size_t thread) {
    const experts_job *j = ctx;
    size_t items = s->rows * s->shape->n_chosen;
    (void)thread;
    for (size_t at = begin; at < end; at++) {
        bool shared = at >= items;
        size_t e = shared ? 0 : expert_at(s, at);
        const fn_matrix *down = shared ? &j->w->shared_down : &j->w->down[e];
        size_t first = shared ? items : s->expert_first[e];
        size_t stride = fn_row_bytes(fn_step_form(s, down), down->cols, down->group);
        size_t row = at - first;
        (void)activate(s, down, place_mid(s, first) + row * 2 * down->cols,
                       place_act(s, first) + row * down->cols,
                       place_act_form(s, first) + row * stride, 1);
    }
}

static size_t list_down(const fn_step *s, const experts_job *j) {
    size_t n = 0;
    size_t items = s->rows * s->shape->n_chosen;
    for (size_t at = 0; at <= items;) {
        bool shared = at == items;
        size_t e = shared ? 0 : expert_at(s, at);
        const fn_matrix *down = shared ? &j->w->shared_down : &j->w->down[e];
        size_t rows = shared ? s->rows : s->expert_first[e + 1] - at;
        fn_row_form form = fn_step_form(s, down);
        bool plain = form == FN_ROW_F32;
        s->expert_units[n++] =
            (fn_linear){.w = down,
                        .x = plain ? (const void *)place_act(s, at) : place_act_form(s, at),
                        .ldx = fn_row_bytes(form, down->cols, down->group),
                        .y = shared ? s->shared_out : s->expert_out + at * s->shape->hidden,
                        .ldy = down->rows,
                        .rows = rows};
        s->expert_units[n - 1].ldx =
            plain ? down->cols * sizeof(float) : s->expert_units[n - 1].ldx;
        at += shared ? 1 : rows;
    }
    return n;
}

void fn_layer_experts(const fn_step *s, const fn_moe_weights *w, const fn_input *in) {
    experts_job j = {w, in};
    size_t items = s->rows * s->shape->n_chosen;
    sort_by_expert(s);
    if (s->rows > FN_EXPERT_FEW) {
        fn_step_each(s, items, run_many, &j);
        return;
    }
    fn_step_linear(s, s->expert_units, list_up(s, &j));
    fn_step_each(s, items + s->rows, activate_units, &j);
    fn_step_linear(s, s->expert_units, list_down(s, &j));
}
