/* Random conversations against cold runs: forks, edits, thoughts that are left out of the history, repeated prompts,
 * clients that leave, evictions, restarts with a folder, other chunks and threads. Whatever the prefix cache gave,
 * the log-probabilities of the whole vocabulary have the bits of a session that read everything anew.
 *
 *     test.engine.random_hits [SEED [REQUESTS]]       prints the seed and what happened */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "engine/scheduler.h"
#include "support/model_case.h"
#include "support/requests.h"
#include "support/sanitized.h"
#include "support/temp_dir.h"

#define CONTEXT 320
#define MOST_PROMPT 280
#define MOST_ANSWER 24
#define TALKS 7
#define TOGETHER 4
#define ENOUGH 120 /* requests a model, for everything to have happened */

static uint64_t first_seed = 1;
static size_t n_requests = SANITIZED ? 20 : ENOUGH;

typedef struct chance {
    uint64_t seed, n;
} chance;

static size_t below(chance *c, size_t limit) {
    return (size_t)(fn_hash_mix(c->seed ^ fn_hash_mix(++c->n)) % limit);
}

/* What a client has of a conversation: the last prompt and, behind it, the answer. */
typedef struct talk {
    int32_t ids[CONTEXT];
    size_t n_prompt, n;
} talk;

typedef struct world {
    chance chance;
    const char *model;
    char dir[200];
    fn_engine *cold, *engine;
    fn_scheduler *s;
    talk talks[TALKS];
    size_t left[4]; /* hits that left so many ids of the prompt */
    size_t hits, compared, restarts;
    uint64_t evictions, disk_hits;
} world; /* one after the other; what they count goes on */

/* ---- the server's side ---- */

static void start(world *w) {
    fn_error err = {0};
    size_t chunk = 8 + below(&w->chance, 40);
    w->engine = open_model(w->model, 1 + below(&w->chance, 2), chunk, CONTEXT);
    fn_scheduler_options o = {.max_running = 1 + below(&w->chance, TOGETHER),
                              .max_waiting = 100,
                              .state_bytes = 1 << 24,
                              .cache_bytes = below(&w->chance, 3) == 0 ? 3 << 17 : 1 << 20,
                              .cache_spacing = 12 + below(&w->chance, 60),
                              .cache_dir = w->dir,
                              .cache_dir_bytes = 1 << 22};
    if (fn_scheduler_create(w->engine, &o, &w->s, &err) != FN_OK) {
        fail_msg("%s", err.text);
    }
}

static void stop(world *w) {
    fn_scheduler_counts counts;
    fn_scheduler_get_counts(w->s, &counts);
    w->evictions += counts.cache_evictions;
    w->disk_hits += counts.disk_hits;
    assert_int_equal(counts.failed, 0);
    fn_scheduler_destroy(w->s);
    assert_int_equal(fn_state_pool_kept_bytes(w->engine->states), 0);
    fn_engine_close(w->engine);
}

/* ---- the clients' side ---- */

static void add_ids(world *w, talk *t, size_t n) {
    n = t->n + n > MOST_PROMPT ? MOST_PROMPT - t->n : n;
    make_ids(w->cold, w->chance.seed + w->chance.n++, t->ids + t->n, n);
    t->n += n;
}

static void new_talk(world *w, talk *t) {
    t->n = 0;
    t->n_prompt = 0;
    make_ids(w->cold, below(&w->chance, 3), t->ids, 20); /* one of three system messages */
    t->n = 20;
    add_ids(w, t, 1 + below(&w->chance, 90));
}

/* The history without the first part of the last answer. */
static void drop_thought(world *w, talk *t) {
    size_t thought = below(&w->chance, t->n - t->n_prompt + 1);
    memmove(t->ids + t->n_prompt, t->ids + t->n_prompt + thought,
            (t->n - t->n_prompt - thought) * sizeof t->ids[0]);
    t->n -= thought;
}

static void fork_from(world *w, talk *t) {
    const talk *other = &w->talks[below(&w->chance, TALKS)];
    other = other->n > 0 ? other : t;
    size_t keep = 1 + below(&w->chance, other->n < MOST_PROMPT ? other->n : MOST_PROMPT);
    memmove(t->ids, other->ids, keep * sizeof t->ids[0]);
    t->n = keep;
    t->n_prompt = keep;
}

/* The talk's next prompt. */
static void go_on(world *w, talk *t) {
    size_t kind = below(&w->chance, 16);
    if (t->n == 0 || t->n > MOST_PROMPT - 4 || kind == 0) {
        new_talk(w, t);
    } else if (kind < 7) {
        add_ids(w, t, 1 + below(&w->chance, 60));
    } else if (kind < 9) {
        drop_thought(w, t);
        add_ids(w, t, 1 + below(&w->chance, 40));
    } else if (kind < 11) {
        fork_from(w, t);
        add_ids(w, t, below(&w->chance, 30));
    } else if (kind == 11) {
        t->ids[below(&w->chance, t->n)] = (int32_t)below(&w->chance, w->cold->shape.vocab);
    } else {
        t->n = t->n_prompt; /* once more, or with a few ids behind it */
        size_t more = below(&w->chance, 6);
        add_ids(w, t, more < 4 ? more : 0);
    }
    t->n_prompt = t->n;
}

static asked ask_for(world *w, const talk *t) {
    asked a = {.n = t->n_prompt, .generation = fn_generation_default(fn_engine_text(w->cold))};
    memcpy(a.ids, t->ids, t->n_prompt * sizeof a.ids[0]);
    a.generation.sampling = (fn_sampling){.temperature = below(&w->chance, 2) == 0 ? 0.0F : 1.0F,
                                          .top_p = 1,
                                          .repetition_penalty = 1,
                                          .seed = below(&w->chance, 1000)};
    a.generation.max_tokens = 1 + below(&w->chance, MOST_ANSWER);
    a.generation.n_logprobs = w->cold->shape.vocab;
    return a;
}

static void check(world *w, const asked *a, const told *t, talk *of) {
    told alone;
    told_alone(w->cold, a, &alone);
    assert_same_told(t, &alone);
    size_t left = t->result.n_prompt - t->result.n_cached;
    if (t->result.n_cached > 0) {
        w->hits++;
        w->left[left < 4 ? left : 0] += left < 4;
    }
    w->compared++;
    memcpy(of->ids + of->n_prompt, t->answers[0].ids, t->answers[0].n * sizeof of->ids[0]);
    of->n = of->n_prompt + t->answers[0].n;
    told_free(&alone);
}

/* Several at once, of different talks; some leave. */
static void ask_together(world *w) {
    static asked all[TOGETHER];
    static told t[TOGETHER];
    size_t marks[TOGETHER][2];
    size_t n = 1 + below(&w->chance, TOGETHER);
    size_t first = below(&w->chance, TALKS);
    for (size_t i = 0; i < n; i++) {
        talk *each = &w->talks[(first + i) % TALKS];
        go_on(w, each);
        all[i] = ask_for(w, each);
        marks[i][0] = below(&w->chance, each->n_prompt + 1);
        marks[i][1] = each->n_prompt - below(&w->chance, 4 < each->n_prompt ? 4 : 1);
        marks[i][0] = marks[i][0] < marks[i][1] ? marks[i][0] : marks[i][1];
        fn_request_options options = {.marks = marks[i],
                                      .n_marks = below(&w->chance, 3) == 0 ? 2 : 0};
        told_start(w->s, &all[i], &options, &t[i]);
    }
    for (size_t i = 0; i < n; i++) {
        talk *each = &w->talks[(first + i) % TALKS];
        if (below(&w->chance, 8) > 0) {
            told_wait(&t[i]);
            check(w, &all[i], &t[i], each);
        }
        told_free(&t[i]); /* who did not wait has left */
    }
}

static void run_world(world *w, const char *model) {
    size_t enough = w->compared + n_requests;
    w->model = model;
    memset(w->talks, 0, sizeof w->talks);
    temp_dir_make(w->dir, sizeof w->dir);
    w->cold = open_model(model, 1, 64, CONTEXT);
    start(w);
    while (w->compared < enough) {
        ask_together(w);
        if (below(&w->chance, 12) == 0) {
            stop(w);
            start(w);
            w->restarts++;
        }
    }
    stop(w);
    fn_engine_close(w->cold);
    temp_dir_remove(w->dir);
}

static void hits_have_the_bits_of_cold_runs(void **unused) {
    (void)unused;
    static world w;
    w = (world){.chance = {.seed = first_seed}};
    print_message("seed %llu, %zu requests a model\n", (unsigned long long)first_seed, n_requests);
    for (size_t m = 0; m < n_model_dirs; m++) {
        run_world(&w, model_dirs[m]);
    }
    print_message("%zu compared, %zu hits, leaving 0: %zu, 1: %zu, 2: %zu, 3: %zu; %llu from disk, "
                  "%llu evictions, %zu restarts\n",
                  w.compared, w.hits, w.left[0], w.left[1], w.left[2], w.left[3],
                  (unsigned long long)w.disk_hits, (unsigned long long)w.evictions, w.restarts);
    if (n_requests >= ENOUGH) {
        assert_true(w.left[0] + w.left[1] + w.left[2] + w.left[3] > 10);
        assert_true(w.disk_hits > 0 && w.evictions > 0 && w.restarts > 0);
    }
}

int main(int argc, char **argv) {
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : first_seed;
    n_requests = argc > 2 ? strtoull(argv[2], NULL, 10) : n_requests;
    const struct CMUnitTest tests[] = {
        IN_EACH_PRECISION(hits_have_the_bits_of_cold_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
