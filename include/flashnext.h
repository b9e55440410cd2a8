/* flashnext.h - run Qwen3.8-Flash-Next (qwen4_exp) checkpoints on CPUs.
 *
 *     fn_error err = {0};
 *     fn_engine_options options = fn_engine_options_default();
 *     options.model_dir = "models/demo";
 *     fn_engine *engine;
 *     if (fn_engine_open(&options, &engine, &err) != FN_OK) { puts(err.text); return 1; }
 *     fn_session *session;  fn_session_create(engine, &session, &err);
 *     fn_session_sync(session, ids, n, NULL, &err);              (ids of the whole prompt)
 *     fn_session_generate(session, &generation, &result, &err);  (calls you back with each piece)
 *
 * Several users at once: a scheduler (below) takes requests and computes them together.
 *
 * An engine is a loaded model; a session is one sequence with its state. Every function that can fail
 * returns fn_status and fills err (NULL allowed; initialise with {0}; the first failure stays). Nothing
 * here exits, prints, reads the environment or keeps global state.
 *
 * Threads: an engine may be used from any thread, by one call at a time for those that compute; texts
 * (fn_text_*) are immutable and free for all. A session belongs to one thread at a time.
 * Bits: for one checkpoint, precision and instruction set, the logits at a position do not depend on
 * chunking, threads, forks, snapshots or what else runs. */
#ifndef FLASHNEXT_H
#define FLASHNEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_API __attribute__((visibility("default")))

/* ---- status --------------------------------------------------------------------------------- */

/* name, value, text. Programs map MODEL (and IO on a model's file) to exit code 3, FIT to 4, USAGE to 2. */
#define FN_STATUS_MAP(X)                                                                           \
    X(OK, 0, "ok")                                                                                 \
    X(E_FAILED, 1, "failed")                                                                       \
    X(E_USAGE, 2, "wrong argument")                                                                \
    X(E_MODEL, 3, "bad or missing model file")                                                     \
    X(E_FIT, 4, "does not fit in memory")                                                          \
    X(E_IO, 5, "input/output error")                                                               \
    X(E_NOMEM, 6, "out of memory")                                                                 \
    X(E_RANGE, 7, "out of range")                                                                  \
    X(E_UNSUPPORTED, 8, "not supported")                                                           \
    X(E_CANCELLED, 9, "cancelled")                                                                 \
    X(E_NUMERIC, 10, "not a finite number")                                                        \
    X(E_BUSY, 11, "busy")

typedef enum fn_status {
#define FN_STATUS_ENUM(name, code, text) FN_##name = (code),
    FN_STATUS_MAP(FN_STATUS_ENUM)
#undef FN_STATUS_ENUM
} fn_status;

/* A message for people. */
typedef struct fn_error {
    fn_status code;
    char text[1020];
} fn_error;

FN_API const char *fn_status_name(fn_status status);
/* "0.1.0" */
FN_API const char *fn_version(void);

/* ---- text: tokenizer, chat template, generation defaults ---------------------------------------- */

typedef struct fn_text fn_text;

typedef struct fn_text_options {
    const char *model_dir; /* has tokenizer.json, chat_template.jinja, generation_config.json */
    const char *tokenizer_path; /* instead of model_dir's, or NULL */
    const char *template_path;  /* instead of model_dir's, or NULL */
    bool need_tokenizer;        /* a missing tokenizer is an error */
} fn_text_options;

/* Ids in memory of the library: fn_ids_free. */
typedef struct fn_ids {
    int32_t *items;
    size_t count, capacity;
} fn_ids;
FN_API void fn_ids_free(fn_ids *ids);

/* A missing template or generation_config is no error here, but where it is needed. */
FN_API fn_status fn_text_open(const fn_text_options *options, fn_text **out, fn_error *err);
FN_API void fn_text_close(fn_text *text);
FN_API bool fn_text_has_tokenizer(const fn_text *text);
FN_API bool fn_text_has_template(const fn_text *text);

/* Appends the ids of n bytes of text. allow_added: added tokens ("<|im_end|>") match anywhere in it. */
FN_API fn_status fn_text_encode(const fn_text *text, const char *bytes, size_t n, bool allow_added,
                                fn_ids *out, fn_error *err);
/* The text of ids, whole; special tokens left out if asked. *out is freed with fn_string_free. */
FN_API fn_status fn_text_decode(const fn_text *text, const int32_t *ids, size_t n,
                                bool skip_special, char **out, size_t *out_n, fn_error *err);
FN_API void fn_string_free(char *string);
/* The bytes one id stands for (lent), NULL if the vocabulary has no such id. */
FN_API const char *fn_text_token(const fn_text *text, int32_t id, size_t *n);
FN_API int32_t fn_text_token_id(const fn_text *text, const char *token, size_t n); /* -1: none */
FN_API bool fn_text_is_special(const fn_text *text, int32_t id);

/* Renders a conversation with the chat template: request is one JSON object {messages, tools?, kwargs?,
 * add_generation_prompt? (true)}. prompt is freed with fn_string_free; ids (NULL allowed) are its encoding.
 * safe_content: what users wrote is encoded without added tokens. An error raised by the template is
 * FN_E_FAILED with exactly its message. */
FN_API fn_status fn_text_render(const fn_text *text, const char *request, size_t n,
                                bool safe_content, char **prompt, size_t *prompt_n, fn_ids *ids,
                                fn_error *err);

/* ---- sampling ----------------------------------------------------------------------------------- */

typedef struct fn_logit_bias {
    int32_t id;
    float bias;
} fn_logit_bias;

/* Order: bias, penalties, temperature, top-k, top-p, min-p, choice. Position t of seed s draws its noise
 * from a counter hash of (s, t, token id): one seed, one text, whatever batch, threads or drafter. */
typedef struct fn_sampling {
    float temperature;        /* 0: greedy */
    int32_t top_k;            /* 0: off */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float repetition_penalty; /* 1: off; counts prompt and answer, once per token */
    float presence_penalty;   /* 0: off; answer only */
    float frequency_penalty;  /* 0: off; answer only */
    uint64_t seed;
    const fn_logit_bias *bias; /* [n_bias] */
    size_t n_bias;
} fn_sampling;

/* From generation_config.json; greedy where there is none or do_sample is false. seed is 0. */
FN_API fn_sampling fn_text_default_sampling(const fn_text *text);
/* End-of-turn ids of generation_config.json, else the config's eos_token_id. */
FN_API const int32_t *fn_text_end_ids(const fn_text *text, size_t *n);

/* ---- engine ------------------------------------------------------------------------------------- */

typedef struct fn_engine fn_engine;

typedef enum fn_precision {
    FN_PRECISION_DEFAULT, /* fast */
    FN_PRECISION_EXACT,   /* float32 activations and keys, weights widened */
    FN_PRECISION_FAST     /* dot products of INT8 or BF16 activations; BF16 keys and values */
} fn_precision;

/* stage: "loading", "quantising" (loading that narrows weights) or "n-gram table", in bytes, or "prompt", in tokens. Return false to cancel
 * (FN_E_CANCELLED). */
typedef bool (*fn_progress)(void *ud, const char *stage, uint64_t done, uint64_t total);

/* Where the n-gram table is kept: left on disk and read by row, or read into RAM at start. AUTO: in RAM when it
 * fits beside the rest and is small enough (at most 256 MiB) not to delay the start, else on disk. */
typedef enum fn_ngram_place { FN_NGRAM_AUTO, FN_NGRAM_DISK, FN_NGRAM_RAM } fn_ngram_place;

typedef enum fn_drafter_choice {
    FN_DRAFT_AUTO, /* the draft model if one is given, else the MTP head if there is one, else none */
    FN_DRAFT_OFF,
    FN_DRAFT_MTP,
    FN_DRAFT_MODEL,
    FN_DRAFT_LOOKUP /* what followed the same ids earlier in prompt and answer */
} fn_drafter_choice;

typedef struct fn_engine_options {
    const char *model_dir;
    const char *tokenizer_path, *template_path; /* overrides, or NULL */
    fn_precision precision;
    const char *isa; /* "ref", "avx2", "avx512"; NULL: the best this CPU has */
    size_t threads;  /* 0: every CPU of the process's affinity mask */
    size_t context;  /* tokens a session can hold; 0: the model's maximum */
    size_t sessions; /* sessions reserved for, at least 1; more may be made while memory lasts */
    size_t
        answers; /* that a scheduler will run at once, whose forward is planned for; 0: no scheduler */
    size_t chunk; /* prompt tokens in one forward; 0: 2048, fewer where memory is short */
    /* Quantise while loading: bits of routed experts, and of the other large matrices (attention and
     * delta-net projections, shared experts, n-gram projections, stream mixers, LM head). 4 or 8: groups of
     * group_size inputs (32, 64, 128; 0: 128) with a scale each; 16: BF16; 0: as stored. */
    int expert_bits, dense_bits;
    size_t group_size;
    /* A prepared checkpoint's packed matrices stay in their files, mapped: opening reads none of them. When such a
     * file shrinks or its disk fails, touching it raises SIGBUS: see fn_engine_mapped_file. false: they are read
     * into memory. */
    bool map_prepared;
    fn_ngram_place ngram;
    /* Guessing ids ahead and verifying them in one forward: the same text and the same bits, sooner. What is
     * asked for but cannot be is an error. */
    fn_drafter_choice draft;
    const char *draft_model_dir; /* a smaller model of the same vocabulary */
    size_t draft_tokens; /* guesses in a pass at most; 0: 4, or fewer where memory is short */
    bool draft_fixed;    /* always so many; else as many as pay */
    float draft_least;   /* guessing ends where probabilities multiply to less; < 0: 0.3 */
    size_t
        draft_vocab; /* ids the MTP head may guess, the first ones and all special ones; 0: 32,768 */
    bool no_mtp;     /* leave the MTP head out, as if the checkpoint had none */
    uint64_t mem_limit;     /* bytes; 0: what the machine has */
    uint64_t reserve_bytes; /* left by the plan for a scheduler and its cache */
    fn_progress progress;   /* or NULL */
    void *progress_ud;
} fn_engine_options;

FN_API fn_engine_options fn_engine_options_default(void);
/* Plans, then loads. Fails with FN_E_MODEL, FN_E_IO, FN_E_FIT (before anything is allocated), ... */
FN_API fn_status fn_engine_open(const fn_engine_options *options, fn_engine **out, fn_error *err);
FN_API void fn_engine_close(fn_engine *engine); /* after its sessions and snapshots */
/* Gives memory that ended sequences leave back to the system, except what one needs at once. For a time
 * without work; from any thread. */
FN_API void fn_engine_trim(fn_engine *engine);

typedef struct fn_engine_info {
    size_t vocab, layers, context, max_context, threads, chunk;
    const char *isa, *precision;
    bool mtp;                           /* the multi-token-prediction head is loaded */
    const char *drafter;                /* "none", "mtp", "model", "lookup" */
    size_t draft_tokens;                /* guesses in a pass at most */
    uint64_t weight_bytes, state_bytes; /* resident weights; one session's state at full context */
    uint64_t mapped_bytes;              /* of weights that stay in their mapped files */
    double load_seconds;
} fn_engine_info;
FN_API void fn_engine_get_info(const fn_engine *engine, fn_engine_info *out);

/* The n-gram tables of all layers together. */
typedef struct fn_ngram_info {
    uint64_t bytes; /* as stored */
    bool in_ram;
    bool cache_known;      /* whether the system tells; only asked on disk */
    uint64_t cached_bytes; /* of those on disk, what the page cache holds now */
} fn_ngram_info;
FN_API void fn_engine_ngram_info(const fn_engine *engine, fn_ngram_info *out);

/* What was read of them since they were opened; from any thread. */
typedef struct fn_ngram_counts {
    uint64_t rows; /* looked up, repeats among them */
    uint64_t
        cached_rows; /* of those: found in the page cache, which is asked for a few tokens at a time */
    uint64_t read_rows;  /* read from a file otherwise: the page cache may have had them */
    uint64_t read_bytes; /* of these */
} fn_ngram_counts;
FN_API void fn_engine_ngram_counts(const fn_engine *engine, fn_ngram_counts *out);

/* The mapped file an address lies in, NULL if none; may be called from a handler of SIGBUS. */
FN_API const char *fn_engine_mapped_file(const fn_engine *engine, const void *address);
FN_API const fn_text *fn_engine_text(const fn_engine *engine);

/* ---- sessions ----------------------------------------------------------------------------------- */

typedef struct fn_session fn_session;
typedef struct fn_snapshot fn_snapshot;

FN_API fn_status fn_session_create(fn_engine *engine, fn_session **out, fn_error *err);
/* A second session that continues from here on its own; costs no copy. */
FN_API fn_status fn_session_fork(fn_session *session, fn_session **out, fn_error *err);
FN_API void fn_session_destroy(fn_session *session);

FN_API size_t fn_session_length(const fn_session *session);
FN_API const int32_t *fn_session_ids(const fn_session *session, size_t *n);

/* Reads ids [n] after what is there. Fails with FN_E_RANGE (id or context limit; nothing was read),
 * FN_E_CANCELLED (what was read stays: fn_session_length tells). */
FN_API fn_status fn_session_append(fn_session *session, const int32_t *ids, size_t n,
                                   fn_error *err);

/* Makes the session hold exactly ids [n], n >= 1: keeps what agrees up to the longest state it has kept,
 * reads the rest. *reused (NULL allowed): ids that were not read again. */
FN_API fn_status fn_session_sync(fn_session *session, const int32_t *ids, size_t n, size_t *reused,
                                 fn_error *err);

/* Logits [vocab] after the last id, lent until the session's next call. */
FN_API fn_status fn_session_logits(fn_session *session, const float **logits, fn_error *err);

/* The state here, to come back to; costs no copy. A recurrence cannot be truncated: */
FN_API fn_status fn_session_snapshot(fn_session *session, fn_snapshot **out, fn_error *err);
FN_API fn_status fn_session_restore(fn_session *session, const fn_snapshot *snapshot,
                                    fn_error *err);
FN_API void fn_snapshot_free(fn_snapshot *snapshot);
/* fails with FN_E_UNSUPPORTED and says so, unless n is the length. */
FN_API fn_status fn_session_truncate(fn_session *session, size_t n, fn_error *err);

/* The whole session in a file with version and fingerprint; load refuses what differs (FN_E_MODEL). */
FN_API fn_status fn_session_save(const fn_session *session, const char *path, fn_error *err);
FN_API fn_status fn_session_load(fn_engine *engine, const char *path, fn_session **out,
                                 fn_error *err);

/* ---- generation --------------------------------------------------------------------------------- */

typedef struct fn_token_logprob {
    int32_t id;
    float logprob; /* natural log, of the model's distribution before any filter */
} fn_token_logprob;

typedef enum fn_event_kind {
    FN_EVENT_TOKEN,    /* one id was chosen: id, logprob, top */
    FN_EVENT_THINKING, /* text of the thought: whole UTF-8 characters */
    FN_EVENT_ANSWER,   /* text of the answer */
    FN_EVENT_PROMPT    /* one id of the prompt: id, logprob, top (the very first has neither) */
} fn_event_kind;

typedef struct fn_event {
    fn_event_kind kind;
    const char *text; /* [n], lent for the call */
    size_t n;
    int32_t id;
    float logprob;
    const fn_token_logprob *top; /* [n_top], best first */
    size_t n_top;
    size_t answer; /* of a request with several answers: which, from 0 */
} fn_event;

#define FN_UNLIMITED SIZE_MAX

typedef struct fn_generation {
    fn_sampling sampling;
    size_t max_tokens;      /* FN_UNLIMITED: until the context is full; 0: none */
    size_t min_tokens;      /* end tokens are not eligible before */
    bool ignore_end;        /* end tokens stay eligible and do not stop */
    bool starts_in_thought; /* the prompt ended inside <think> */
    size_t thinking_budget; /* ids of a thought before it is closed for the model; FN_UNLIMITED */
    const char *const
        *stop; /* [n_stop] strings; the text ends before the first that appears in the answer */
    size_t n_stop;
    size_t n_logprobs; /* alternatives per token in FN_EVENT_TOKEN; 0: none are computed */
    bool (*on_event)(void *ud, const fn_event *event); /* false: stop here (finish is CANCELLED) */
    void *ud;
} fn_generation;

#define FN_MAX_DRAFTS 8

/* What drafting did for an answer. */
typedef struct fn_drafting {
    const char *drafter;               /* "none", "mtp", "model", "lookup" */
    size_t passes;                     /* forwards of the model */
    size_t drafted, accepted;          /* ids */
    size_t drafted_at[FN_MAX_DRAFTS];  /* passes with a draft at that place, ... */
    size_t accepted_at[FN_MAX_DRAFTS]; /* ... and those in which it became part of the answer */
    double plain_seconds; /* a forward without drafts, as far as one was run; 0: unknown */
    double guess_seconds, forward_seconds; /* of all passes: making the drafts, running the rows */
} fn_drafting;

typedef enum fn_finish { FN_FINISH_STOP, FN_FINISH_LENGTH, FN_FINISH_CANCELLED } fn_finish;

typedef struct fn_generated {
    fn_finish finish;
    int32_t end_id; /* the end token that stopped it, or -1 */
    size_t n_ids;   /* chosen ids, the end token among them; the last n_ids of fn_session_ids */
    size_t n_thinking_ids;
    double first_seconds, seconds; /* until the first id; all */
    fn_drafting drafting;
} fn_generated;

/* The text's own sampling, no limit of tokens, no thinking budget. */
FN_API fn_generation fn_generation_default(const fn_text *text);
/* Chooses ids and reads each into the session (an end token too), until something stops it. */
FN_API fn_status fn_session_generate(fn_session *session, const fn_generation *generation,
                                     fn_generated *out, fn_error *err);

/* ---- scheduler: many requests at once --------------------------------------------------------- */

/* Requests wait in a queue, join those that run, and are computed together by one thread of the scheduler:
 * prompts are read in chunks beside the tokens of running answers; how both share the threads follows from measured times.
 * Finished and half-read prompts stay in a prefix cache (whole states, by token ids), so a conversation
 * reads only what is new. An answer is the same ids, and the same bits of log-probability, as alone.
 *
 * Threads: every function may be called from any thread, except where it says so. Callbacks come from the
 * scheduler's thread, one at a time: hand things over and return, the other requests wait meanwhile. Calling
 * what computes (a session, say) from one is not possible. */
typedef struct fn_scheduler fn_scheduler;
typedef struct fn_request fn_request;

typedef struct fn_scheduler_options {
    size_t max_running;    /* answers computed together; 0: 16, at most half the engine's chunk */
    size_t max_waiting;    /* requests that may wait; one more is FN_E_BUSY; 0: 64 */
    uint64_t state_bytes;  /* memory of running requests; 0: what the plan has for sessions */
    uint64_t cache_bytes;  /* prefix cache in memory; 0: none is kept */
    size_t cache_spacing;  /* tokens between kept states inside a long prompt; 0: 1024 */
    const char *cache_dir; /* kept states go there too and outlive the process; or NULL */
    uint64_t cache_dir_bytes; /* 0: 8 x cache_bytes */
} fn_scheduler_options;

FN_API fn_scheduler_options fn_scheduler_options_default(void);
/* One at a time for an engine, beside any number of sessions. Fails with FN_E_USAGE, FN_E_FIT, FN_E_IO (cache_dir),
 * FN_E_NOMEM. The engine must outlive it. */
FN_API fn_status fn_scheduler_create(fn_engine *engine, const fn_scheduler_options *options,
                                     fn_scheduler **out, fn_error *err);
/* Cancels what is there (their on_done is called) and ends the thread. Requests are freed before or after;
 * after it nothing else is called on them. NULL is allowed; not from a callback. */
FN_API void fn_scheduler_destroy(fn_scheduler *scheduler);

typedef struct fn_prompt_progress {
    size_t read, cached, total; /* ids of the prompt: read or cached so far, cached, all */
    double seconds;             /* since it left the queue */
} fn_prompt_progress;

/* Times in seconds from fn_scheduler_submit; 0: never. */
typedef struct fn_request_result {
    fn_status status;   /* FN_OK: every answer has its fn_generated */
    const char *error;  /* message of another status, or "" */
    size_t n_prompt;    /* ids of the prompt */
    size_t n_cached;    /* of them taken from the prefix cache */
    size_t n_generated; /* ids of all answers, n_thinking of them in thoughts */
    size_t n_thinking;
    size_t n_drafted, n_accepted; /* ids that were drafted, and that were right */
    double started, prompt;       /* left the queue, the prompt is read */
    double first, end;            /* first id of any answer, end */
} fn_request_result;

typedef struct fn_request_options {
    const int32_t *ids; /* [n_ids], n_ids >= 1: the prompt */
    size_t n_ids;
    /* Lengths of beginnings of the prompt that others may share, ascending: ends of messages, the place
     * before the generation prompt. What ends with an end id of the text counts by itself. */
    const size_t *marks; /* [n_marks] */
    size_t n_marks;
    fn_generation
        generation;       /* on_event is called by the scheduler's thread; false: end the answer */
    size_t n_answers;     /* to one prompt; 0: 1. Answer i draws with seed + i */
    bool prompt_logprobs; /* FN_EVENT_PROMPT for each prompt id; the cache is not asked then */
    bool no_cache;        /* neither look into the prefix cache nor add to it */
    /* All may be NULL. Progress comes after each chunk; on_answer when an answer ends (unless cancelled
     * with its request); on_done last, once for every request that submit accepted, unless it was freed
     * before. */
    void (*on_progress)(void *ud, const fn_prompt_progress *progress);
    void (*on_answer)(void *ud, size_t answer, const fn_generated *generated);
    void (*on_done)(void *ud, const fn_request_result *result);
    void *ud; /* of these three; generation.ud is for on_event */
} fn_request_options;

FN_API fn_request_options fn_request_options_default(const fn_text *text);
/* Checks, copies everything and queues. Fails at once with FN_E_RANGE (an id; prompt and limit do not leave
 * room for one token, both numbers in the message), FN_E_USAGE (a setting), FN_E_FIT (its memory is more than
 * all there is for requests), FN_E_BUSY (the queue is full). *out is freed with fn_request_free. */
FN_API fn_status fn_scheduler_submit(fn_scheduler *scheduler, const fn_request_options *options,
                                     fn_request **out, fn_error *err);

/* Stops it wherever it is, at once or after the running chunk; on_done follows (status FN_E_CANCELLED). What
 * was read stays in the prefix cache. Also from callbacks; harmless when it is done. */
FN_API void fn_request_cancel(fn_request *request);
/* Cancels if it is not done. No callback runs or comes after this returns. NULL is allowed; not from its
 * callbacks. */
FN_API void fn_request_free(fn_request *request);

typedef enum fn_request_phase {
    FN_REQUEST_WAITING,
    FN_REQUEST_PROMPT,
    FN_REQUEST_ANSWER,
    FN_REQUEST_DONE
} fn_request_phase;

typedef struct fn_request_state {
    fn_request_phase phase;
    size_t ahead; /* requests before it in the queue */
    fn_prompt_progress prompt;
    size_t n_generated;
} fn_request_state;
FN_API void fn_request_get_state(fn_request *request, fn_request_state *out);

/* Since creation, except what is marked (now). */
typedef struct fn_scheduler_counts {
    size_t waiting, running; /* (now) requests */
    uint64_t submitted, refused_busy;
    uint64_t stopped, reached_limit, cancelled; /* answers */
    uint64_t failed;                            /* requests */
    uint64_t prompt_ids, cached_ids, generated_ids;
    fn_drafting drafting; /* of all answers together */
    uint64_t forwards, rows;
    double busy_seconds; /* in forwards */
    /* In forwards without a prompt, guessing included, and what they would have taken without drafts: the same
     * where nothing was drafted, else as measured. */
    double answer_seconds, plain_seconds;
    uint64_t state_bytes, state_limit; /* (now) reserved by running requests, and what there is */
    uint64_t cache_lookups, cache_hits, cache_evictions;
    uint64_t cache_states, cache_bytes, cache_limit; /* (now) */
    uint64_t disk_states, disk_bytes, disk_hits;     /* (now, now, since creation) */
} fn_scheduler_counts;
FN_API void fn_scheduler_get_counts(fn_scheduler *scheduler, fn_scheduler_counts *out);

#ifdef __cplusplus
}
#endif

#endif
