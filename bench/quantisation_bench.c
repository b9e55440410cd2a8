/* What each class of weights loses by quantising, as a table in Markdown.
 *
 *   quantisation_bench MODEL_DIR TEXT [TOKENS]
 *
 * The model is loaded in float32. One class after the other is replaced by what its codes and scales say, at 8 and 4
 * bits and each group size, and TEXT (its first TOKENS tokens, default 8,000) is read by document.
 *   error       root of the squared error over the squared weights
 *   of absmax   that squared error over the one of plain absmax rounding (scale = largest / largest code, FP16)
 *   KL          mean divergence from the model as it was, in nats; same: share of equal likeliest tokens */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "flashnext_tools.h"
#include "weights/quantize_row.h"

enum { MAX_COLS = 1 << 16, CLASSES = 7 };

static const char *const class_names[CLASSES] = {
    "routed experts",     "shared experts", "attention", "delta net",
    "n-gram projections", "stream mixers",  "LM head"};

typedef struct class_list {
    const fn_matrix **items;
    size_t n, capacity;
} class_list;

typedef struct errors {
    double weights, ours, absmax; /* sums of squares */
} errors;

static void need(fn_status status, const fn_error *err) {
    if (status != FN_OK) {
        fprintf(stderr, "quantisation_bench: %s\n", err->text);
        exit(1);
    }
}

static void add(class_list *list, const fn_matrix *m) {
    if (m->tiles != NULL) {
        if (!fn_grow((void **)&list->items, &list->capacity, list->n + 1, sizeof *list->items)) {
            abort();
        }
        list->items[list->n++] = m;
    }
}

static void add_mixer(class_list *list, const fn_mixer_weights *w) {
    add(list, &w->down);
    add(list, &w->up);
}

static void list_classes(const fn_weights *w, class_list *c) {
    for (size_t i = 0; i < w->shape.n_layers; i++) {
        const fn_layer_weights *l = &w->layers[i];
        for (size_t e = 0; e < w->shape.n_experts; e++) {
            add(&c[0], &l->moe.gate_up[e]);
            add(&c[0], &l->moe.down[e]);
        }
        add(&c[1], &l->moe.shared_gate_up);
        add(&c[1], &l->moe.shared_down);
        const fn_matrix *attention[] = {&l->attention.q, &l->attention.k, &l->attention.v,
                                        &l->attention.o};
        const fn_matrix *delta[] = {&l->delta.in_qkv, &l->delta.in_z, &l->delta.out};
        for (size_t k = 0; k < 4; k++) {
            add(&c[2], attention[k]);
        }
        for (size_t k = 0; k < 3; k++) {
            add(&c[3], delta[k]);
        }
        if (l->ple != NULL) {
            add(&c[4], &l->ple->key);
            add(&c[4], &l->ple->value);
        }
        add_mixer(&c[5], &l->attn_mixer);
        add_mixer(&c[5], &l->mlp_mixer);
    }
    add_mixer(&c[5], &w->mixer);
    add(&c[6], &w->head);
}

static double absmax_error(const float *x, size_t n, int bits) {
    double high = bits == 8 ? 127.0 : 7.0;
    double largest = 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)x[i]));
    }
    double scale = (double)fn_f16_to_float(fn_float_to_f16((float)(largest / high)));
    for (size_t i = 0; i < n; i++) {
        double code = scale > 0.0 ? nearbyint((double)x[i] / scale) : 0.0;
        double rest = (double)x[i] - fmax(-high - (bits == 4), fmin(high, code)) * scale;
        sum += rest * rest;
    }
    return sum;
}

/* Every row of the matrix becomes what its codes say. */
static void replace(const fn_matrix *m, size_t group, int bits, errors *sum) {
    static float row[MAX_COLS];
    static int8_t codes[MAX_COLS];
    static uint16_t scales[MAX_COLS / 32];
    uint8_t *tiles = (uint8_t *)(uintptr_t)m->tiles;
    for (size_t n = 0; n < m->rows; n++) {
        fn_matrix_row(m, n, row);
        for (size_t at = 0; at < m->cols; at += group) {
            size_t left = m->cols - at;
            sum->absmax += absmax_error(row + at, left < group ? left : group, bits);
        }
        fn_quantize_row(row, m->cols, group, bits, codes, scales);
        for (size_t k = 0; k < m->cols; k++) {
            float value = (float)codes[k] * fn_f16_to_float(scales[k / group]);
            double rest = (double)row[k] - (double)value;
            sum->weights += (double)row[k] * (double)row[k];
            sum->ours += rest * rest;
            row[k] = value;
        }
        fn_matrix_pack_row(m, tiles, n, row);
    }
}

static fn_ids read_text(const fn_engine *engine, const char *path, size_t most) {
    fn_error err = {0};
    fn_ids ids = {0};
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 24);
    if (f == NULL || text == NULL) {
        fprintf(stderr, "quantisation_bench: cannot read %s\n", path);
        exit(1);
    }
    size_t n = fread(text, 1, 1 << 24, f);
    (void)fclose(f);
    need(fn_text_encode(fn_engine_text(engine), text, n, true, &ids, &err), &err);
    free(text);
    ids.count = ids.count < most ? ids.count : most;
    return ids;
}

static void measure_class(fn_engine *engine, const class_list *c, const char *name,
                          const fn_perplexity_options *options) {
    static const size_t groups[] = {128, 64, 32};
    fn_weights *w = engine->weights;
    uint8_t *kept = malloc(w->arena_bytes);
    if (kept == NULL) {
        abort();
    }
    memcpy(kept, w->arena, w->arena_bytes);
    for (int bits = 8; bits >= 4; bits -= 4) {
        for (size_t g = 0; g < 3; g++) {
            fn_error err = {0};
            fn_perplexity result;
            errors sum = {0};
            for (size_t i = 0; i < c->n; i++) {
                replace(c->items[i], groups[g], bits, &sum);
            }
            need(fn_perplexity_run(engine, options, &result, &err), &err);
            printf("| %s | %d | %zu | %.2f %% | %.3f | %.6f | %.2f %% |\n", name, bits, groups[g],
                   100.0 * sqrt(sum.ours / sum.weights), sum.ours / sum.absmax, result.kl,
                   100.0 * result.same_top);
            (void)fflush(stdout);
            memcpy(w->arena, kept, w->arena_bytes);
        }
    }
    free(kept);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: quantisation_bench MODEL_DIR TEXT [TOKENS]\n");
        return 2;
    }
    fn_error err = {0};
    fn_engine *engine = NULL;
    fn_perplexity result;
    class_list classes[CLASSES] = {0};
    char reference[] = "/tmp/quantisation-XXXXXX";
    int fd = mkstemp(reference);
    fn_engine_options options = fn_engine_options_default();
    options.model_dir = argv[1];
    options.precision = FN_PRECISION_EXACT;
    options.expert_bits = 32;
    options.dense_bits = 32;
    options.no_mtp = true;
    need(fn_engine_open(&options, &engine, &err), &err);
    fn_ids ids = read_text(engine, argv[2], argc > 3 ? strtoul(argv[3], NULL, 10) : 8000);
    fn_perplexity_options run = {
        .ids = ids.items, .n = ids.count, .by_document = true, .save_path = reference};
    need(fn_perplexity_run(engine, &run, &result, &err), &err);
    run.save_path = NULL;
    run.reference_path = reference;
    list_classes(engine->weights, classes);
    printf(
        "%zu positions, mean NLL %.4f\n\n| class | bits | group | error | of absmax | KL | same |\n"
        "|---|---|---|---|---|---|---|\n",
        result.positions, result.nll);
    for (size_t i = 0; i < CLASSES; i++) {
        measure_class(engine, &classes[i], class_names[i], &run);
        fn_free(classes[i].items);
    }
    (void)close(fd);
    (void)unlink(reference);
    fn_ids_free(&ids);
    fn_engine_close(engine);
    return 0;
}
