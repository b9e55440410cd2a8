/* scheduler_bench MODEL_DIR [EXPERT_BITS DENSE_BITS [PROMPT_TOKENS [ROUNDS]]] - what several users feel: gaps between the
 * tokens of a running answer while a long prompt enters, that prompt's time to its first token, tokens per second
 * of 1, 2, 4, 8 answers together, and the first token of each turn of a conversation. Times by the wall clock;
 * compare within one run only. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flashnext.h"

#define MAX_IDS 8192
#define TURNS 10
#define TURN_IDS 400

typedef struct stream {
    fn_request *request;
    double submitted;
    double at[MAX_IDS]; /* when each id came */
    size_t n;
    bool done;
    int32_t ids[MAX_IDS];
} stream;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check(fn_status status, const fn_error *err) {
    if (status != FN_OK) {
        (void)fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

static bool on_event(void *ud, const fn_event *event) {
    stream *s = ud;
    if (event->kind == FN_EVENT_TOKEN) {
        pthread_mutex_lock(&mutex);
        s->ids[s->n] = event->id;
        s->at[s->n++] = seconds();
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return true;
}

static void on_done(void *ud, const fn_request_result *result) {
    stream *s = ud;
    if (result->status != FN_OK && result->status != FN_E_CANCELLED) {
        (void)fprintf(stderr, "%s\n", result->error);
    }
    pthread_mutex_lock(&mutex);
    s->done = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void start(fn_scheduler *scheduler, stream *s, const int32_t *ids, size_t n, size_t limit,
                  bool no_cache) {
    fn_error err = {0};
    memset(s, 0, sizeof *s);
    fn_request_options o = {.ids = ids, .n_ids = n, .no_cache = no_cache};
    o.generation = (fn_generation){.sampling = {.top_p = 1, .repetition_penalty = 1},
                                   .max_tokens = limit,
                                   .ignore_end = true,
                                   .thinking_budget = FN_UNLIMITED,
                                   .on_event = on_event,
                                   .ud = s};
    o.on_done = on_done;
    o.ud = s;
    s->submitted = seconds();
    check(fn_scheduler_submit(scheduler, &o, &s->request, &err), &err);
}

static void wait_ids(stream *s, size_t n) {
    pthread_mutex_lock(&mutex);
    while (!s->done && s->n < n) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

static void end(stream *s) {
    wait_ids(s, MAX_IDS + 1);
    fn_request_free(s->request);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The share-quantile of the gaps between ids that came in (from, to]. */
static double gap(const stream *s, double from, double to, double share) {
    static double gaps[MAX_IDS];
    size_t n = 0;
    for (size_t i = 1; i < s->n; i++) {
        if (s->at[i] > from && s->at[i] <= to) {
            gaps[n++] = s->at[i] - s->at[i - 1];
        }
    }
    qsort(gaps, n, sizeof *gaps, by_size);
    return n > 0 ? gaps[(size_t)(share * (double)(n - 1) + 0.5)] : 0;
}

static void fill(int32_t *ids, size_t n, uint64_t seed, size_t vocab) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        ids[i] = (int32_t)((seed >> 33) % vocab);
    }
}

static void measure_gaps(fn_scheduler *scheduler, size_t vocab, size_t prompt, int rounds) {
    static stream running;
    static stream entering;
    static int32_t ids[MAX_IDS];
    printf("%6s %9s %9s %9s %9s %9s %9s %8s %8s %7s\n", "round", "gap ms", "beside ms", "p99 ms",
           "max ms", "alone s", "beside s", "mid/gap", "p99/gap", "TTFT x");
    for (int round = 0; round < rounds; round++) {
        fill(ids, prompt, 100 + (uint64_t)round, vocab);
        start(scheduler, &entering, ids, prompt, 1, true);
        end(&entering);
        double alone = entering.at[0] - entering.submitted;
        fill(ids, 32, 7, vocab);
        start(scheduler, &running, ids, 32, 2000, true);
        wait_ids(&running, 30);
        double before = gap(&running, running.at[5], running.at[29], 0.5);
        fill(ids, prompt, 200 + (uint64_t)round, vocab);
        start(scheduler, &entering, ids, prompt, 1, true);
        end(&entering);
        double beside = entering.at[0] - entering.submitted;
        size_t n = running.n;
        wait_ids(&running, n + 30);
        double after = gap(&running, running.at[n + 5], running.at[n + 29], 0.5);
        double median = 0.5 * (before + after);
        fn_request_cancel(running.request);
        end(&running);
        double p99 = gap(&running, entering.submitted, entering.at[0], 0.99);
        double middle = gap(&running, entering.submitted, entering.at[0], 0.5);
        double drift = before > after ? before / after : after / before;
        printf("%6d %9.2f %9.2f %9.2f %9.2f %9.3f %9.3f %8.2f %8.2f %7.2f %s\n", round,
               1e3 * median, 1e3 * middle, 1e3 * p99,
               1e3 * gap(&running, entering.submitted, entering.at[0], 1), alone, beside,
               middle / median, p99 / median, beside / alone,
               drift > 1.1 ? "the machine's speed changed meanwhile" : "");
    }
}

static void measure_throughput(fn_scheduler *scheduler, size_t vocab) {
    static stream streams[8];
    static int32_t ids[64];
    double one = 0;
    printf("%8s %12s %8s\n", "answers", "tokens/s", "times");
    for (size_t n = 1; n <= 8; n *= 2) {
        for (size_t i = 0; i < n; i++) {
            fill(ids, 16, 50 + i, vocab);
            start(scheduler, &streams[i], ids, 16, 48, true);
        }
        double from = 0;
        double to = 0;
        size_t total = 0;
        for (size_t i = 0; i < n; i++) {
            end(&streams[i]);
            from = streams[i].at[0] > from ? streams[i].at[0] : from;
            to = streams[i].at[47] > to ? streams[i].at[47] : to;
        }
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < 48; k++) {
                total += streams[i].at[k] > from;
            }
        }
        double rate = (double)total / (to - from);
        one = n == 1 ? rate : one;
        printf("%8zu %12.2f %8.2f\n", n, rate, rate / one);
    }
}

static void measure_turns(fn_scheduler *scheduler, size_t vocab) {
    static stream s;
    static int32_t ids[MAX_IDS];
    size_t n = 0;
    printf("%8s %10s %10s\n", "turn", "prompt", "TTFT s");
    for (size_t turn = 1; turn <= TURNS; turn++) {
        fill(ids + n, TURN_IDS / 2, turn, vocab);
        n += TURN_IDS / 2;
        start(scheduler, &s, ids, n, TURN_IDS / 2 > 40 ? 40 : TURN_IDS / 2, false);
        end(&s);
        printf("%8zu %10zu %10.3f\n", turn, n, s.at[0] - s.submitted);
        memcpy(ids + n, s.ids, s.n * sizeof *ids); /* the answer, then the next question */
        n += s.n;
        fill(ids + n, TURN_IDS / 2 - s.n, 99 + turn, vocab);
        n += TURN_IDS / 2 - s.n;
    }
}

int main(int argc, char **argv) {
    fn_error err = {0};
    fn_engine *engine = NULL;
    fn_scheduler *scheduler = NULL;
    fn_engine_options o = fn_engine_options_default();
    if (argc < 2) {
        (void)fprintf(
            stderr,
            "usage: scheduler_bench MODEL_DIR [EXPERT_BITS DENSE_BITS [TOKENS [ROUNDS]]]\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    o.model_dir = argv[1];
    o.expert_bits = argc > 3 ? atoi(argv[2]) : 0;
    o.dense_bits = argc > 3 ? atoi(argv[3]) : 0;
    size_t prompt = argc > 4 ? (size_t)atoi(argv[4]) : 4000;
    prompt = prompt < MAX_IDS ? prompt : MAX_IDS;
    o.sessions = 8;
    o.context = (prompt > TURNS * TURN_IDS ? prompt : TURNS * TURN_IDS) + 96;
    check(fn_engine_open(&o, &engine, &err), &err);
    fn_scheduler_options so = {.max_running = 8, .cache_bytes = (uint64_t)1 << 30};
    check(fn_scheduler_create(engine, &so, &scheduler, &err), &err);
    fn_engine_info info;
    fn_engine_get_info(engine, &info);
    measure_gaps(scheduler, info.vocab, prompt, argc > 5 ? atoi(argv[5]) : 3);
    measure_throughput(scheduler, info.vocab);
    measure_turns(scheduler, info.vocab);
    fn_scheduler_destroy(scheduler);
    fn_engine_close(engine);
    return 0;
}
