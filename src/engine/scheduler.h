/* engine/scheduler.h - the scheduler's parts: queue, sequences that run, one forward after the other.
 *
 * Path:    fn_scheduler_submit -> queue (scheduler.c) -> sequences (sequence.c: one an answer) -> forwards
 *          of answers (batch.c), beside them of prompts (batch_chunk.c, prompt_lane.h) -> choices
 *          (batch_outcome.c) -> stepper.h -> callbacks.
 * Threads: one thread runs everything behind the queue, but for the lane's forward. The mutex guards what is
 *          marked; a request's mutex is never taken while it is held.
 * Memory:  a sequence's state, ids, sampler and logits are counted before it starts, and not more of them run
 *          than state_limit holds; a forward allocates nothing. */
#ifndef FN_ENGINE_SCHEDULER_H
#define FN_ENGINE_SCHEDULER_H

#include "engine/pace.h"
#include "engine/prefix_cache.h"
#include "engine/prompt_lane.h"
#include "engine/request.h"
#include "engine/stepper.h"
#include "forward/forward.h"

typedef enum fn_sequence_phase {
    FN_SEQUENCE_FETCH,  /* a kept beginning of its prompt is being read from disk */
    FN_SEQUENCE_PROMPT, /* reads the prompt; all of it may be there already */
    FN_SEQUENCE_ANSWER, /* reads the id chosen last, then chooses the next */
    FN_SEQUENCE_CLOSING /* has been answered; reads its last id, so that its state can be kept */
} fn_sequence_phase;

/* One answer of a request, while it runs. */
typedef struct fn_sequence {
    fn_request *request; /* NULL: the place is free */
    size_t answer;
    fn_sequence_phase phase;
    fn_cache_wait wait;
    fn_state *state;
    fn_stepper *stepper;
    int32_t *ids; /* [n_prompt + limit]: the prompt, then what was chosen, then guesses */
    size_t n_ids;
    size_t kept;      /* length of its last state in the cache */
    size_t next_mark; /* of the request's */
    uint64_t bytes;   /* reserved */
    double first;     /* seconds until its first id; 0: none yet */
    bool told;        /* its end was told and is in the request's result */

    fn_drafter *drafter; /* or NULL */
    size_t most_drafts;  /* in a pass: what its memory is reserved for */
    fn_draft_odds odds;  /* of this answer's guesses */
    fn_drafting drafting;

    bool in_chunk; /* the lane reads of its prompt: its state and its ids are lent */

    /* the forward at hand, or the chunk */
    size_t rows;    /* 0: not in it */
    size_t wanted;  /* guesses that were asked for */
    size_t drafted; /* guesses that were made: its last rows */
    double reach,
        chance; /* that the next guess is made, that it holds: while it is decided how many */
    bool wants; /* logits of its last row, and of those before that are followed by a guess */
    const float *logits; /* [1 + drafted, V] */
    int32_t next;        /* chosen from the first of them */
    fn_status status;    /* of choosing */
    fn_error error;
} fn_sequence;

struct fn_scheduler {
    fn_engine *engine;
    size_t max_running, max_waiting, cache_spacing;
    uint64_t state_limit;
    pthread_t thread;
    bool started;

    pthread_mutex_t mutex;
    pthread_cond_t work;
    fn_request *first_waiting, *last_waiting; /* under the mutex, like all up to counts */
    size_t n_waiting;
    uint64_t news; /* counts what may give the thread something to do */
    atomic_bool stop;
    fn_scheduler_counts counts;

    /* the scheduler's thread */
    fn_prefix_cache *cache;  /* or NULL */
    fn_sequence *sequences;  /* [max_running] */
    size_t n_running;        /* places taken */
    fn_request *active;      /* requests that have a sequence, or answers to start */
    uint64_t reserved_bytes; /* of the sequences */
    fn_pace pace;
    uint64_t
        ended[FN_FINISH_CANCELLED + 1]; /* answers by fn_finish, and others: told with the counts */
    uint64_t failed, generated_ids, prompt_ids, cached_ids;
    uint64_t forwards, rows;
    fn_drafting drafting;
    double busy_seconds, answer_seconds, plain_seconds;
    size_t answers;                        /* of the last forward */
    double forward_seconds, guess_seconds; /* of the last forward, and of the guesses in it */
    fn_row_times guess_times;              /* one guess for each of so many sequences */
    bool guess_tried;
    fn_draft_patience patience;
    fn_draft_odds odds;         /* of all answers: what a new one begins with */
    fn_draft_request *requests; /* [max_running] */
    fn_pool *pool;              /* of the answers' forward; the lane has the engine's */
    size_t threads_beside;      /* of it, while the lane reads */
    fn_forward *forward;        /* of answers, guesses and riding prompts */
    fn_segment *segments;       /* [max_running] */
    fn_sequence **in_batch;     /* [max_running], as the segments */
    size_t n_batch;
    uint8_t *wants;   /* as the rows of that forward */
    float *logits;    /* of answers and guesses */
    bool reads;       /* when fn_batch_run was left, the lane read, ... */
    double left;      /* ... and that was then */
    bool waits;       /* answers wait for ... */
    double next_step; /* ... when their next forward begins, while the lane reads */
    fn_prompt_lane *lane;
    fn_sequence **chunk; /* [max_running]: whose prompts it reads; as the segments */
    fn_segment *chunk_segments;
    size_t n_chunk, chunk_rows;
    uint8_t *chunk_wants;      /* [the engine's chunk] */
    float *chunk_logits;       /* [max_running, V] */
    float *score_logits;       /* [max_running, V]: of prompts' ids */
    size_t turn;               /* which prompt comes first in the next chunk */
    uint64_t seen;             /* the news that the thread knows of */
    fn_token_logprob *top;     /* [max_running, MAX_LOGPROBS]: of prompt ids */
    float *logprob;            /* [max_running] */
    fn_status *logprob_status; /* [max_running] */
};

/* ---- sequence.c ---- */

/* Bytes that one answer of the request needs with so many drafts in a pass. */
uint64_t fn_sequence_bytes(const fn_engine *e, const fn_request *r, size_t drafts);
/* How many drafts in a pass so many bytes have room for: at most as many as the engine makes. */
size_t fn_sequence_drafts(const fn_engine *e, const fn_request *r, uint64_t bytes);
/* Starts the request's next answer in a free place. On failure nothing has changed. */
FN_NODISCARD fn_status fn_sequence_start(fn_scheduler *s, fn_request *r, fn_error *err);
/* Goes on with one that waits for the disk, if what it waits for is there. */
void fn_sequence_try_begin(fn_scheduler *s, fn_sequence *q);
/* How many more ids of its prompt may be read before its state should be kept. */
size_t fn_sequence_until_cut(const fn_scheduler *s, const fn_sequence *q);
/* The forward has read `rows` ids of its prompt. */
void fn_sequence_prompt_read(fn_scheduler *s, fn_sequence *q);
/* Takes the id that was chosen, tells it, and says what comes next. */
void fn_sequence_accept(fn_scheduler *s, fn_sequence *q);
/* Frees its place; the request learns of a failure. */
void fn_sequence_end(fn_scheduler *s, fn_sequence *q, const fn_error *failure);

/* ---- batch_guesses.c ---- */

/* Before a forward: guesses for the answers that run, as many as pay by what forwards of more rows and the guesses
 * themselves were measured to take, also beside a prompt. */
void fn_batch_guess(fn_scheduler *s, size_t answers, bool prompts);
/* Its first half: sets `wanted` of every sequence, at most `room` in all. */
void fn_batch_choose(fn_scheduler *s, size_t answers, bool prompts, size_t room);

/* ---- batch_chunk.c ---- */

/* Reads its prompt, which somebody waits for, and is neither in the chunk that the lane reads nor in the forward at
 * hand. */
bool fn_batch_reads_prompt(const fn_sequence *q);
/* The next n ids of a sequence, and its guesses, as a segment whose rows want what wants [n + guesses] is set to. */
void fn_batch_add(fn_sequence *q, size_t n, uint8_t *wants, fn_segment *out);
/* The lane begins to read a chunk beside so many answers, if it is free, and there are prompts, and the pace allows. */
void fn_batch_chunk_begin(fn_scheduler *s, size_t answers);
/* If the lane is done: what comes of it; then true. */
bool fn_batch_chunk_end(fn_scheduler *s);
/* Ends it, if there is one, when all who are in it are cancelled, or the scheduler stops: what it has read is lost. */
void fn_batch_chunk_drop(fn_scheduler *s);

/* ---- batch_outcome.c ---- */

/* Chooses an id for each sequence of the batch that wants one. */
void fn_batch_choose_ids(fn_scheduler *s);
/* The forward has read the batch: chooses from the logits, which follow each other as the sequences do, and tells the
 * log-probabilities of prompts. */
void fn_batch_read_out(fn_scheduler *s, fn_forward *forward, const float *logits);
/* Each sequence of the batch goes on, or ends with the error; after FN_E_CANCELLED who cancelled leaves next. */
void fn_batch_take_outcomes(fn_scheduler *s, fn_status status, const fn_error *error);

/* ---- batch.c ---- */

/* Takes what the lane has read, and runs one forward of answers, if it is time. False: neither; then there is nothing to do
 * before there is news, or before next_step where the answers wait for it. */
bool fn_batch_run(fn_scheduler *s);

#endif
