/* engine/tools_plan.c - fn_plan: the plan as JSON. Its fields are listed in weights/plan.h. */
#include <jansson.h>
#include <stdlib.h>

#include "base/bandwidth.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/saturate.h"
#include "engine/engine.h"
#include "engine/json_text.h"
#include "engine/tools_plan_drafts.h"
#include "flashnext_tools.h"
#include "weights/plan.h"
#include "weights/textbook.h"

typedef struct planner {
    fn_plan_options options; /* zeros filled in, but for bits and mem_limit */
    size_t threads;
    const char *path;     /* what was read */
    fn_model_files files; /* or its config alone */
    fn_shape shape;
    fn_state_layout layout;
    const fn_checkpoint *checkpoint; /* of files; NULL: from the config alone */
    const fn_bound *bound;
    fn_plan_settings settings;
    fn_memory_plan plan;
    fn_textbook book;
    fn_machine_memory machine;
    double bandwidth; /* 0: not measured */
    uint64_t limit;
} planner;

fn_plan_options fn_plan_options_default(void) {
    return (fn_plan_options){0};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What the engine would do with bits that are asked for. */
static fn_status read_dir(planner *p, fn_error *err) {
    fn_plan_options *o = &p->options;
    fn_weight_settings settings = {
        .expert_bits = o->expert_bits, .dense_bits = o->dense_bits, .group = o->group_size};
    p->path = o->model_dir;
    fn_status status = fn_model_files_open(o->model_dir, o->no_mtp, &p->files, err);
    if (status == FN_OK) {
        p->shape = p->files.shape;
        p->checkpoint = p->files.checkpoint;
        p->bound = p->files.bound;
        status = fn_model_files_settle(p->files.prepared, &settings, err);
    }
    o->expert_bits = settings.expert_bits;
    o->dense_bits = settings.dense_bits;
    o->group_size = settings.group;
    return status;
}

static fn_status read_source(planner *p, fn_error *err) {
    if (p->options.model_dir != NULL) {
        return read_dir(p, err);
    }
    p->path = p->options.config_path;
    fn_status status = fn_config_read(p->path, &p->files.config, err);
    status = status == FN_OK ? fn_shape_from_config(&p->files.config, &p->shape, err) : status;
    p->shape.n_mtp = p->options.no_mtp ? 0 : p->shape.n_mtp;
    return status;
}

static fn_status fill_options(planner *p, fn_error *err) {
    fn_plan_options *o = &p->options;
    if (o->kv_bits != 0 && o->kv_bits != 16 && o->kv_bits != 32) {
        return fn_fail(err, FN_E_USAGE, "kv bits: %d, expected 16, 32 or 0 (as the engine keeps)",
                       o->kv_bits);
    }
    o->context = o->context > 0 ? o->context : p->shape.max_positions;
    o->sequences = o->sequences > 0 ? o->sequences : 1;
    o->chunk = o->chunk > 0 ? o->chunk : fn_chunk_default(o->context);
    if (o->context > p->shape.max_positions) {
        return fn_fail(err, FN_E_RANGE,
                       "context: found %zu, expected at most %zu (the model's maximum)", o->context,
                       p->shape.max_positions);
    }
    if (o->sequences > 1 << 20 || o->chunk > p->shape.max_positions) {
        return fn_fail(err, FN_E_USAGE,
                       "found %zu sequences and a chunk of %zu, expected at most %d and %zu",
                       o->sequences, o->chunk, 1 << 20, p->shape.max_positions);
    }
    p->threads = fn_pool_default_threads();
    p->machine = fn_machine_memory_now();
    p->limit = o->mem_limit > 0 ? o->mem_limit : p->machine.available;
    return FN_OK;
}

/* ---- states --------------------------------------------------------------------------------- */

static uint64_t state_bytes(const planner *p, size_t context) {
    return fn_session_bytes(&p->shape, &p->layout, context, p->options.draft_tokens);
}

static uint64_t scratch_bytes(const planner *p, size_t context) {
    return fn_forward_bytes(&p->shape, p->options.chunk, context, p->threads);
}

static uint64_t part_bytes(const planner *p, const fn_part_layout *part) {
    if (part->storage == FN_STORE_RECURRENT) {
        return part->layers * part->stride;
    }
    size_t rows = p->options.context;
    if (part->storage == FN_STORE_BLOCKS) {
        rows /= p->layout.index_ratio;
    }
    rows = (rows + FN_PAGE_ROWS - 1) / FN_PAGE_ROWS * FN_PAGE_ROWS;
    return part->layers * rows * part->row_bytes;
}

/* A decode step at full context reads the selected keys and values, scores every pooled key, and
 * walks the recurrent block. */
static uint64_t state_read(const planner *p) {
    const fn_shape *s = &p->shape;
    const fn_part_layout *parts = p->layout.part;
    size_t rows = p->options.context;
    uint64_t bytes = 0;
    if (s->has_indexer) {
        const fn_part_layout *pooled = &parts[FN_PART_POOLED];
        size_t selected = s->index_budget + s->index_ratio - 1;
        bytes = pooled->layers * (rows / s->index_ratio) * pooled->row_bytes;
        rows = rows < selected ? rows : selected;
    }
    bytes += parts[FN_PART_KEYS].layers * rows * parts[FN_PART_KEYS].row_bytes;
    bytes += parts[FN_PART_VALUES].layers * rows * parts[FN_PART_VALUES].row_bytes;
    return bytes + p->layout.recurrent_bytes;
}

static size_t largest_context(const planner *p) {
    const fn_memory_plan *plan = &p->plan;
    uint64_t weights = fn_saturate_add(plan->total.weights, plan->total.scales);
    size_t low = 0; /* fits, or is 0 */
    size_t high = p->shape.max_positions;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        uint64_t need = fn_saturate_mul(state_bytes(p, middle), p->options.sequences);
        need = fn_saturate_add(need, scratch_bytes(p, middle));
        if (fn_saturate_add(need, weights) <= p->limit) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *textbook_params(const fn_textbook *b) {
    return fn_json_numbers(
        (const fn_json_number[]){{"routed_experts", b->routed},
                                 {"shared", b->shared},
                                 {"delta_net", b->delta_net},
                                 {"attention", b->attention},
                                 {"streams", b->streams},
                                 {"embedding", b->embedding},
                                 {"dense", b->dense},
                                 {"ngram", b->ngram},
                                 {"active", b->active},
                                 {"active_experts", b->active_experts},
                                 {"active_dense_with_head", b->active_dense_with_head}},
        11);
}

static json_t *textbook_kv(const planner *p) {
    const size_t tokens[] = {32768, 262144, p->options.context};
    json_t *list = json_array();
    for (size_t i = 0; i < 3; i++) {
        if (i == 2 && (tokens[i] == tokens[0] || tokens[i] == tokens[1])) {
            continue;
        }
        fn_json_append(&list, fn_json_numbers(
                                  (const fn_json_number[]){
                                      {"tokens", tokens[i]},
                                      {"bytes", fn_textbook_kv_bytes(&p->shape, tokens[i])}},
                                  2));
    }
    return list;
}

static json_t *textbook(const planner *p) {
    const fn_textbook *b = &p->book;
    json_t *bytes =
        fn_json_numbers((const fn_json_number[]){{"experts_16bit", fn_saturate_mul(b->routed, 2)},
                                                 {"experts_8bit", b->routed},
                                                 {"experts_4bit", b->routed / 2},
                                                 {"dense_16bit", fn_saturate_mul(b->dense, 2)},
                                                 {"ngram_16bit", fn_saturate_mul(b->ngram, 2)},
                                                 {"recurrent", b->recurrent_bytes}},
                        6);
    json_t *read = fn_json_numbers(
        (const fn_json_number[]){{"bf16_trunk_int4_experts", fn_textbook_read_bytes(b, 16, 4)},
                                 {"int8_trunk_int4_experts", fn_textbook_read_bytes(b, 8, 4)}},
        2);
    return json_pack("{s:o, s:o, s:o, s:o}", "params", textbook_params(b), "bytes", bytes,
                     "kv_16bit", textbook_kv(p), "read_per_token", read);
}

static json_t *line_json(const char *name, const fn_plan_line *line) {
    json_t *object = fn_json_numbers((const fn_json_number[]){{"params", line->params},
                                                              {"stored", line->stored},
                                                              {"weights", line->weights},
                                                              {"scales", line->scales},
                                                              {"mapped", line->mapped},
                                                              {"active", line->active},
                                                              {"read", line->read}},
                                     7);
    if (name != NULL) {
        fn_json_set(&object, "name", json_string(name));
    }
    return object;
}

static json_t *classes(const planner *p) {
    json_t *list = json_array();
    for (size_t i = 0; i < FN_PLAN_CLASSES; i++) {
        const fn_plan_line *line = &p->plan.lines[i];
        if (line->params > 0 || line->weights > 0) {
            fn_json_append(&list, line_json(fn_plan_class_name((fn_plan_class)i), line));
        }
    }
    return list;
}

static void add_part(json_t **list, const char *name, uint64_t bytes) {
    if (bytes > 0) {
        fn_json_append(list, json_pack("{s:s, s:o}", "name", name, "bytes", fn_json_u64(bytes)));
    }
}

static json_t *state(const planner *p) {
    json_t *list = json_array();
    uint64_t rest = state_bytes(p, p->options.context);
    for (size_t i = 0; i < FN_PARTS; i++) {
        uint64_t bytes = part_bytes(p, &p->layout.part[i]);
        rest = rest > bytes ? rest - bytes : 0;
        add_part(&list, p->layout.part[i].text, bytes);
    }
    uint64_t drafts = fn_draft_bytes(&p->shape, &p->layout, p->options.draft_tokens);
    rest -= drafts < rest ? drafts : rest;
    add_part(&list, "kept after each drafted row, and their logits", drafts);
    add_part(&list, "recurrent parts in flight and kept to come back to, ids, logits", rest);
    return list;
}

static json_t *read_per_token(const planner *p) {
    const fn_memory_plan *plan = &p->plan;
    uint64_t read = state_read(p);
    return fn_json_numbers(
        (const fn_json_number[]){{"weights", plan->total.read - plan->scales_read},
                                 {"scales", plan->scales_read},
                                 {"state", read},
                                 {"total", fn_saturate_add(plan->total.read, read)}},
        4);
}

/* Every decode step reads the active weights and the state once. */
static double decode_ceiling(const planner *p) {
    uint64_t read = fn_saturate_add(p->plan.total.read, state_read(p));
    return read > 0 ? p->bandwidth / (double)read : 0.0;
}

static json_t *exact(const planner *p) {
    const fn_memory_plan *plan = &p->plan;
    uint64_t with_head = plan->total.active;
    uint64_t without_head = with_head - plan->lines[FN_PLAN_HEAD].active;
    json_t *object =
        fn_json_numbers((const fn_json_number[]){{"state_per_sequence", p->settings.state_bytes},
                                                 {"scratch", plan->scratch},
                                                 {"resident", plan->resident}},
                        3);
    fn_json_set(&object, "classes", classes(p));
    fn_json_set(&object, "total", line_json(NULL, &plan->total));
    fn_json_set(&object, "dense",
                fn_json_numbers((const fn_json_number[]){{"params", plan->dense.params},
                                                         {"stored", plan->dense.stored}},
                                2));
    fn_json_set(
        &object, "active",
        fn_json_numbers((const fn_json_number[]){{"params", without_head},
                                                 {"experts", plan->lines[FN_PLAN_ROUTED].active},
                                                 {"dense_with_head",
                                                  with_head - plan->lines[FN_PLAN_ROUTED].active}},
                        3));
    fn_json_set(&object, "state", state(p));
    fn_json_set(&object, "read_per_token", read_per_token(p));
    fn_json_set(&object, "ngram_in_ram", json_boolean(p->settings.ngram_in_ram));
    return object;
}

static json_t *settings(const planner *p) {
    const fn_plan_options *o = &p->options;
    return fn_json_numbers((const fn_json_number[]){{"expert_bits", (uint64_t)o->expert_bits},
                                                    {"dense_bits", (uint64_t)o->dense_bits},
                                                    {"ngram_bits", (uint64_t)o->ngram_bits},
                                                    {"kv_bits", (uint64_t)o->kv_bits},
                                                    {"group_size", o->group_size},
                                                    {"context", o->context},
                                                    {"sequences", o->sequences},
                                                    {"chunk", o->chunk},
                                                    {"draft_tokens", o->draft_tokens},
                                                    {"threads", p->threads}},
                           10);
}

static json_t *whole(const planner *p) {
    json_t *object = json_pack("{s:{s:s, s:s}}", "source", "kind",
                               p->checkpoint != NULL ? "headers" : "config", "path", p->path);
    fn_json_set(&object, "settings", settings(p));
    fn_json_set(&object, "textbook", textbook(p));
    fn_json_set(&object, "exact", exact(p));
    fn_json_set(
        &object, "machine",
        fn_json_numbers((const fn_json_number[]){{"total", p->machine.total},
                                                 {"available", p->machine.available},
                                                 {"read_bandwidth", (uint64_t)p->bandwidth}},
                        3));
    fn_json_set(&object, "decode_ceiling", json_real(decode_ceiling(p)));
    if (p->shape.n_mtp > 0) {
        fn_json_set(&object, "drafts", fn_plan_drafts(&p->shape, &p->plan, state_read(p)));
    }
    fn_json_set(&object, "limit", fn_json_u64(p->limit));
    fn_json_set(&object, "fits", json_boolean(p->plan.resident <= p->limit));
    fn_json_set(&object, "largest_context", fn_json_u64(largest_context(p)));
    fn_json_set(&object, "max_context", fn_json_u64(p->shape.max_positions));
    return object;
}

/* ---- bandwidth ------------------------------------------------------------------------------ */

static fn_status measure(planner *p, fn_error *err) {
    fn_pool *pool = NULL;
    fn_status status = fn_pool_create(p->threads, &pool, err);
    if (status == FN_OK) {
        p->bandwidth = fn_read_bandwidth(pool);
        fn_pool_destroy(pool);
    }
    return status;
}

/* ---- fn_plan -------------------------------------------------------------------------------- */

static fn_plan_settings settings_of(const planner *p) {
    const fn_plan_options *o = &p->options;
    return (fn_plan_settings){.weights = {.expert_bits = o->expert_bits,
                                          .dense_bits = o->dense_bits,
                                          .group = o->group_size},
                              .ngram_bits = o->ngram_bits,
                              .sequences = o->sequences,
                              .state_bytes = state_bytes(p, o->context),
                              .scratch_bytes = scratch_bytes(p, o->context)};
}

static fn_status make(planner *p, fn_error *err) {
    const fn_plan_options *o = &p->options;
    fn_plan_source source = {.shape = &p->shape,
                             .bound = p->bound,
                             .checkpoint = p->checkpoint,
                             .config = &p->files.config};
    fn_state_layout_init(&p->shape, p->shape.n_mtp > 0,
                         o->kv_bits == 32 ? FN_PRECISION_EXACT : FN_PRECISION_FAST, &p->layout);
    bool asked = o->draft_tokens > 0;
    p->options.draft_tokens = asked || p->shape.n_mtp == 0 ? o->draft_tokens : FN_DRAFTS_DEFAULT;
    p->book = fn_textbook_of(&p->shape);
    p->settings = settings_of(p);
    fn_status status = fn_plan_place_ngram(&source, &p->settings, o->ngram, p->limit,
                                           &p->settings.ngram_in_ram, err);
    while (status == FN_OK) { /* fewer drafts, before it does not fit */
        p->settings.state_bytes = state_bytes(p, o->context);
        status = fn_memory_plan_make(&source, &p->settings, &p->plan, err);
        if (status != FN_OK || p->plan.resident <= p->limit || asked ||
            p->options.draft_tokens == 0) {
            break;
        }
        p->options.draft_tokens--;
    }
    return status;
}

fn_status fn_plan(const fn_plan_options *options, char **json, fn_error *err) {
    *json = NULL;
    if ((options->model_dir == NULL) == (options->config_path == NULL)) {
        return fn_fail(err, FN_E_USAGE, "plan: expected either a model directory or a config file");
    }
    planner *p = fn_alloc_zero(1, sizeof *p);
    if (p == NULL) {
        return fn_fail_nomem(err, "a plan", sizeof *p);
    }
    p->options = *options;
    fn_status status = read_source(p, err);
    if (status == FN_OK) {
        status = fill_options(p, err);
    }
    if (status == FN_OK) {
        status = make(p, err);
    }
    if (status == FN_OK && p->options.measure) {
        status = measure(p, err);
    }
    if (status == FN_OK) {
        status = fn_json_take_text(whole(p), json, err);
    }
    fn_model_files_close(&p->files);
    fn_free(p);
    return status;
}
