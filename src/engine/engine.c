#include "engine/engine.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/mem.h"
#include "engine/text_load.h"
#include "weights/packed.h"
#include "weights/plan.h"

/* Rows of the n-gram table that are read at once: a token has 16, and a disk gives its full rate to many reads. */
#define READERS 32

const char *fn_version(void) {
    return "0.1.0";
}

fn_engine_options fn_engine_options_default(void) {
    return (fn_engine_options){.sessions = 1, .draft_least = -1.0F};
}

fn_precision fn_precision_resolve(fn_precision asked) {
    return asked == FN_PRECISION_EXACT ? FN_PRECISION_EXACT : FN_PRECISION_FAST;
}

const char *fn_precision_name(fn_precision precision) {
    return precision == FN_PRECISION_EXACT ? "exact" : "fast";
}

static fn_status pick_kernels(fn_engine *e, const char *word, fn_error *err) {
    fn_isa isa;
    if (word == NULL) {
        e->kernels = fn_kernels_best();
        return FN_OK;
    }
    if (!fn_isa_parse(word, &isa)) {
        return fn_fail(err, FN_E_USAGE, "isa: found %s, expected ref, avx2 or avx512", word);
    }
    e->kernels = fn_kernels_for(isa);
    return e->kernels != NULL
               ? FN_OK
               : fn_fail(err, FN_E_UNSUPPORTED, "isa %s: this CPU does not have it", word);
}

/* Ids that text can give, or that end an answer, must be ids the model knows. */
static fn_status check_text(const fn_engine *e, const fn_engine_options *options, fn_error *err) {
    size_t size = e->text->tokenizer != NULL ? fn_tokenizer_size(e->text->tokenizer) : 0;
    if (size > e->shape.vocab) {
        return fn_fail(
            err, FN_E_MODEL, "%s%s: found ids up to %zu, expected below %zu (vocab_size)",
            options->tokenizer_path != NULL ? options->tokenizer_path : options->model_dir,
            options->tokenizer_path != NULL ? "" : "/tokenizer.json", size - 1, e->shape.vocab);
    }
    for (size_t i = 0; i < e->text->n_end_ids; i++) {
        if ((size_t)e->text->end_ids[i] >= e->shape.vocab) {
            return fn_fail(err, FN_E_MODEL,
                           "%s: eos_token_id: found %d, expected below %zu (vocab_size)",
                           options->model_dir, (int)e->text->end_ids[i], e->shape.vocab);
        }
    }
    return FN_OK;
}

static fn_status open_files(fn_engine *e, const fn_engine_options *options, fn_error *err) {
    fn_model_files *files = &e->files;
    fn_status status = fn_model_files_open(options->model_dir, options->no_mtp, files, err);
    if (status != FN_OK) {
        return status;
    }
    e->shape = files->shape;
    e->checkpoint = files->checkpoint;
    e->bound = files->bound;
    e->made_with = files->prepared != NULL ? files->prepared->settings : e->settings;
    status = fn_model_files_settle(files->prepared, &e->settings, err);
    status = status == FN_OK ? fn_model_files_digest(files, &e->fingerprint_model, err) : status;
    if (status == FN_OK && files->prepared != NULL && options->map_prepared) {
        status = fn_checkpoint_map(e->checkpoint, FN_PACKED_MARK, err);
    }
    return status;
}

uint64_t fn_session_bytes(const fn_shape *shape, const fn_state_layout *layout, size_t context,
                          size_t drafts) {
    return fn_draft_bytes(shape, layout, drafts) + fn_state_recurrent_bytes(layout) +
           FN_SESSION_MARKS * layout->recurrent_bytes + fn_state_paged_bytes(layout, context) +
           context * sizeof(int32_t) + shape->vocab * sizeof(float);
}

/* A chunk of a prompt, or a token and its drafts. */
static size_t forward_rows(const fn_engine *e) {
    return e->chunk > e->draft.most + 1 ? e->chunk : e->draft.most + 1;
}

size_t fn_guess_rows(size_t answers, size_t drafts) {
    return answers * drafts < FN_GUESS_ROWS ? answers * drafts : FN_GUESS_ROWS;
}

size_t fn_answer_rows(size_t answers, size_t drafts) {
    return answers + fn_guess_rows(answers, drafts) + FN_RIDING_ROWS;
}

uint64_t fn_answers_bytes(const fn_engine *e, size_t answers) {
    size_t logits = 3 * answers + fn_guess_rows(answers, e->draft.most);
    return answers == 0 ? 0
                        : fn_forward_bytes(&e->shape, fn_answer_rows(answers, e->draft.most),
                                           e->context, fn_pool_threads(e->pool)) +
                              logits * e->shape.vocab * sizeof(float);
}

static fn_plan_settings plan_settings(const fn_engine *e, size_t sessions) {
    return (fn_plan_settings){
        .weights = e->settings,
        .ngram_in_ram = e->ngram_in_ram,
        .sequences = sessions,
        .state_bytes = fn_session_bytes(&e->shape, &e->layout, e->context, e->draft.most),
        .scratch_bytes =
            fn_forward_bytes(&e->shape, forward_rows(e), e->context, fn_pool_threads(e->pool)) +
            fn_answers_bytes(e, e->answers) + e->reserve_bytes,
    };
}

/* With the context that was asked for, or the model's: what the table takes, a longer context cannot have. */
static fn_status place_ngram(fn_engine *e, const fn_engine_options *options, size_t sessions,
                             fn_error *err) {
    uint64_t limit =
        options->mem_limit > 0 ? options->mem_limit : fn_machine_memory_now().available;
    fn_plan_settings settings = plan_settings(e, sessions);
    fn_plan_source source = {.shape = &e->shape, .bound = e->bound};
    return fn_plan_place_ngram(&source, &settings, options->ngram, limit, &e->ngram_in_ram, err);
}

/* Makes smaller what nobody asked for: the chunk, the drafts in a pass, the context, and at last whether there are
 * drafts. False when nothing is left. */
static bool shrink(fn_engine *e, const fn_engine_options *options) {
    if (options->chunk == 0 && e->chunk > FN_CHUNK_LEAST) {
        e->chunk = e->chunk / 2 > FN_CHUNK_LEAST ? e->chunk / 2 : FN_CHUNK_LEAST;
        return true;
    }
    if (e->draft.most > 1) {
        e->draft.most--;
        return true;
    }
    if (options->context == 0 && e->context > 4096) {
        e->context = e->context / 2 > 4096 ? e->context / 2 : 4096;
        return true;
    }
    bool own_choice = options->draft == FN_DRAFT_AUTO && options->draft_model_dir == NULL;
    if (e->draft.most == 1 && own_choice) {
        e->draft.most = 0;
        return true;
    }
    return false;
}

/* What the plan leaves of a limit. */
static fn_status find_spare(fn_engine *e, const fn_plan_settings *settings, uint64_t limit,
                            fn_error *err) {
    fn_memory_plan plan;
    fn_plan_source source = {.shape = &e->shape, .bound = e->bound};
    fn_status status = fn_memory_plan_make(&source, settings, &plan, err);
    e->spare_bytes = status == FN_OK && limit > plan.resident ? limit - plan.resident : 0;
    return status;
}

/* Refuses what cannot fit. */
static fn_status fit(fn_engine *e, const fn_engine_options *options, fn_error *err) {
    size_t sessions = options->sessions > 0 ? options->sessions : 1;
    e->sessions = sessions;
    e->mem_limit = options->mem_limit;
    e->answers = options->answers;
    e->reserve_bytes = options->reserve_bytes;
    e->context = options->context > 0 ? options->context : e->shape.max_positions;
    e->chunk = options->chunk > 0 ? options->chunk : fn_chunk_default(e->context);
    if (e->context > e->shape.max_positions) {
        return fn_fail(err, FN_E_RANGE,
                       "context: found %zu, expected at most %zu (the model's maximum)", e->context,
                       e->shape.max_positions);
    }
    uint64_t limit = fn_draft_limit(&e->draft, options->mem_limit, sessions, e->context);
    fn_status placed = place_ngram(e, options, sessions, err);
    if (placed != FN_OK) {
        return placed;
    }
    for (;;) {
        fn_error refusal = {0};
        fn_plan_settings settings = plan_settings(e, sessions);
        fn_status status = fn_plan_check(&e->shape, e->bound, &settings, limit, &refusal);
        if (status == FN_OK) {
            return find_spare(e, &settings, limit, err);
        }
        if (status != FN_E_FIT || !shrink(e, options)) {
            return fn_fail(err, status, "%s", refusal.text);
        }
    }
}

typedef struct loading {
    const fn_engine_options *options;
    const char *stage;
} loading;

static bool tell_loading(void *ud, uint64_t done, uint64_t total) {
    const loading *l = ud;
    const fn_engine_options *options = l->options;
    return options->progress == NULL ||
           options->progress(options->progress_ud, l->stage, done, total);
}

static fn_status open_tables(fn_engine *e, const fn_engine_options *options, fn_error *err) {
    if (e->shape.n_ple == 0) {
        return FN_OK;
    }
    fn_load_watch watch = {tell_loading, &(loading){options, "n-gram table"}};
    fn_status status = fn_read_pool_create(READERS, &e->readers, err);
    e->tables = fn_alloc_zero(e->shape.n_ple, sizeof *e->tables);
    if (e->tables == NULL) {
        return fn_fail_nomem(err, "n-gram tables", e->shape.n_ple * sizeof *e->tables);
    }
    for (size_t p = 0; p < e->shape.n_ple && status == FN_OK; p++) {
        const fn_bound_ple *b = e->bound->layers[e->shape.ple_layer[p]].ple;
        fn_ngram_table_options table = {.pieces = (const fn_tensor *const *)b->pieces,
                                        .n_pieces = b->n_pieces,
                                        .width = fn_shape_ngram_row(&e->shape),
                                        .scale = b->table_scale,
                                        .in_ram = e->ngram_in_ram,
                                        .pool = e->readers,
                                        .watch = &watch};
        status = fn_ngram_table_open(e->checkpoint, &table, &e->tables[p], err);
    }
    return status;
}

fn_model fn_engine_model(const fn_engine *e, fn_pool *pool) {
    return (fn_model){.weights = e->weights,
                      .tables = e->tables,
                      .kernels = e->kernels,
                      .layout = &e->layout,
                      .pool = pool};
}

static fn_status load(fn_engine *e, const fn_engine_options *options, fn_error *err) {
    bool quantises = fn_weights_quantises(e->bound, &e->shape, &e->settings);
    fn_load_watch watch = {tell_loading, &(loading){options, quantises ? "quantising" : "loading"}};
    fn_status status = fn_weights_load(e->checkpoint, e->bound, &e->shape, &e->settings, e->pool,
                                       &watch, &e->weights, err);
    status = status == FN_OK ? open_tables(e, options, err) : status;
    status = status == FN_OK ? fn_state_pool_create(&e->layout, &e->states, err) : status;
    if (status == FN_OK) {
        fn_model model = fn_engine_model(e, e->pool);
        status = fn_forward_create(&model, forward_rows(e), e->context, &e->forward, err);
    }
    return status;
}

static fn_weight_settings settings_of(const fn_engine_options *options) {
    return (fn_weight_settings){.expert_bits = options->expert_bits,
                                .dense_bits = options->dense_bits,
                                .group = options->group_size};
}

static fn_status check_options(const fn_engine_options *options, fn_error *err) {
    fn_weight_settings settings = settings_of(options);
    if (options->model_dir == NULL) {
        return fn_fail(err, FN_E_USAGE, "model_dir: none given");
    }
    if (options->precision < FN_PRECISION_DEFAULT || options->precision > FN_PRECISION_FAST) {
        return fn_fail(err, FN_E_USAGE, "precision: found %d", (int)options->precision);
    }
    return fn_weight_settings_check(&settings, err);
}

static fn_status take_text(fn_engine *e, const fn_engine_options *options, fn_text_load *text,
                           fn_error *err) {
    fn_status status = fn_text_load_take(text, &e->text, err);
    status = status == FN_OK ? check_text(e, options, err) : status;
    return status == FN_OK ? fn_draft_setup_read_text(&e->draft, options, &e->shape, e->text, err)
                           : status;
}

/* Everything but the files' headers and the text. */
static fn_status open_rest(fn_engine *e, const fn_engine_options *options, fn_error *err) {
    fn_status status = fn_draft_setup_settle(&e->draft, options, &e->shape, err);
    status = status == FN_OK ? fn_pool_create(options->threads, &e->pool, err) : status;
    if (status == FN_OK) {
        fn_state_layout_init(&e->shape, e->shape.n_mtp > 0, e->precision, &e->layout);
        status = fit(e, options, err);
    }
    return status == FN_OK ? load(e, options, err) : status;
}

/* Whether the text may be taken when all else is done: where nothing is converted or read whole, which would delay
 * the news of a broken text file, and no draft model waits to be compared with it. */
static bool loads_at_once(const fn_engine *e, const fn_engine_options *options) {
    return e->files.prepared != NULL && options->map_prepared && options->ngram != FN_NGRAM_RAM &&
           e->draft.model == NULL;
}

/* Faults are told in the order of files, text, rest, whichever is noticed first. */
static fn_status open_all(fn_engine *e, const fn_engine_options *options, fn_error *err) {
    fn_text_options files = {.model_dir = options->model_dir,
                             .tokenizer_path = options->tokenizer_path,
                             .template_path = options->template_path};
    fn_text_load text;
    fn_error later = {0};
    fn_text_load_begin(&text, &files);
    fn_status status = open_files(e, options, err);
    if (status != FN_OK) {
        (void)fn_text_load_take(&text, &e->text, NULL);
        return status;
    }
    bool beside = loads_at_once(e, options);
    status = beside ? FN_OK : take_text(e, options, &text, err);
    fn_status rest = status == FN_OK ? open_rest(e, options, &later) : status;
    status = beside ? take_text(e, options, &text, err) : status;
    return status == FN_OK && rest != FN_OK ? fn_fail(err, rest, "%s", later.text) : status;
}

fn_status fn_engine_open(const fn_engine_options *options, fn_engine **out, fn_error *err) {
    *out = NULL;
    double start = fn_clock_seconds();
    fn_status status = check_options(options, err);
    if (status != FN_OK) {
        return status;
    }
    fn_engine *e = fn_alloc_zero(1, sizeof *e);
    if (e == NULL) {
        return fn_fail_nomem(err, "the engine", sizeof *e);
    }
    e->progress = options->progress;
    e->progress_ud = options->progress_ud;
    e->settings = settings_of(options);
    e->precision = fn_precision_resolve(options->precision);
    e->mutex_ready = pthread_mutex_init(&e->mutex, NULL) == 0;
    status = pick_kernels(e, options->isa, err);
    status = status == FN_OK ? fn_draft_setup_open(options, &e->draft, err) : status;
    status = status == FN_OK ? open_all(e, options, err) : status;
    if (status != FN_OK) {
        fn_engine_close(e);
        return status;
    }
    e->load_seconds = fn_clock_seconds() - start;
    *out = e;
    return FN_OK;
}

void fn_engine_trim(fn_engine *e) {
    fn_state_pool_trim(e->states, 2 + e->draft.most);
    if (e->draft.model != NULL) {
        fn_engine_trim(e->draft.model);
    }
}

void fn_engine_close(fn_engine *e) {
    if (e == NULL) {
        return;
    }
    fn_draft_setup_close(&e->draft);
    fn_forward_destroy(e->forward);
    fn_state_pool_destroy(e->states);
    for (size_t p = 0; e->tables != NULL && p < e->shape.n_ple; p++) {
        fn_ngram_table_close(e->tables[p]);
    }
    fn_free(e->tables);
    fn_read_pool_destroy(e->readers);
    fn_weights_free(e->weights);
    fn_pool_destroy(e->pool);
    fn_text_close(e->text);
    fn_model_files_close(&e->files);
    if (e->mutex_ready) {
        pthread_mutex_destroy(&e->mutex);
    }
    fn_free(e);
}

void fn_engine_ngram_info(const fn_engine *e, fn_ngram_info *out) {
    *out = (fn_ngram_info){.in_ram = e->ngram_in_ram && e->shape.n_ple > 0,
                           .cache_known = !e->ngram_in_ram};
    for (size_t p = 0; p < e->shape.n_ple; p++) {
        fn_ngram_info table;
        fn_ngram_table_info(e->tables[p], &table);
        out->bytes += table.bytes;
        out->cached_bytes += table.cached_bytes;
        out->cache_known = out->cache_known && table.cache_known;
    }
}

void fn_engine_ngram_counts(const fn_engine *e, fn_ngram_counts *out) {
    *out = (fn_ngram_counts){0};
    for (size_t p = 0; p < e->shape.n_ple; p++) {
        fn_ngram_table_count(e->tables[p], out);
    }
}

void fn_engine_get_info(const fn_engine *e, fn_engine_info *out) {
    uint64_t tables = 0;
    for (size_t p = 0; e->ngram_in_ram && p < e->shape.n_ple; p++) {
        tables += fn_ngram_table_bytes(e->tables[p]);
    }
    *out = (fn_engine_info){.vocab = e->shape.vocab,
                            .layers = e->shape.n_layers,
                            .context = e->context,
                            .max_context = e->shape.max_positions,
                            .threads = fn_pool_threads(e->pool),
                            .chunk = e->chunk,
                            .isa = e->kernels->name,
                            .precision = fn_precision_name(e->precision),
                            .mtp = e->weights->mtp != NULL,
                            .drafter = fn_draft_name(&e->draft),
                            .draft_tokens = e->draft.most,
                            .weight_bytes = e->weights->arena_bytes + tables,
                            .mapped_bytes = e->weights->mapped_bytes,
                            .state_bytes =
                                fn_session_bytes(&e->shape, &e->layout, e->context, e->draft.most),
                            .load_seconds = e->load_seconds};
}

const fn_text *fn_engine_text(const fn_engine *e) {
    return e->text;
}

const char *fn_engine_mapped_file(const fn_engine *e, const void *address) {
    return fn_checkpoint_mapped_file(e->checkpoint, address);
}
