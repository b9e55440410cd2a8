#include "cli/sampling.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli/buffer.h"
#include "cli/drafting.h"
#include "cli/model.h"
#include "cli/report.h"

/* What 0 stands for, the likeliest token alone: a share that it always holds. */
#define LEAST_TOP_P 1e-6F

/* 32 bits are enough, and short enough to type again. */
static uint64_t random_seed(void) {
    uint32_t seed = 0;
    FILE *file = fopen("/dev/urandom", "rb");
    bool got = file != NULL && fread(&seed, sizeof seed, 1, file) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!got) {
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint32_t)now.tv_nsec ^ ((uint32_t)now.tv_sec << 8);
    }
    return seed;
}

/* What "-inf" becomes: the library wants finite numbers, and no logit comes near. */
#define BANNED (-1e30f)

/* "15043=+1.5", or llama.cpp's "15043+1.5" and "15043-1". */
static bool read_bias(const char *text, fn_logit_bias *out) {
    char *end = NULL;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (end == text || errno != 0 || id < 0 || id > INT32_MAX) {
        return false;
    }
    bool equals = *end == '=';
    if (!equals && *end != '+' && *end != '-') {
        return false;
    }
    const char *number = end + (equals ? 1 : 0);
    float bias = strtof(number, &end);
    if (end == number || *end != 0 || isnan(bias) || bias == INFINITY) {
        return false;
    }
    *out = (fn_logit_bias){.id = (int32_t)id, .bias = bias < BANNED ? BANNED : bias};
    return true;
}

static fn_status make_bias(const cli_options *options, size_t vocab, cli_sampling *out,
                           fn_error *err) {
    const cli_value *list = &options->values[CLI_OPT_LOGIT_BIAS];
    if (list->n_list == 0) {
        return FN_OK;
    }
    out->bias = cli_alloc(list->n_list * sizeof *out->bias);
    for (size_t i = 0; i < list->n_list; i++) {
        if (!read_bias(list->list[i], &out->bias[i])) {
            return cli_fail(err, FN_E_USAGE, "--logit-bias: expected ID=+X or ID=-X, found '%s'",
                            list->list[i]);
        }
        if ((size_t)out->bias[i].id >= vocab) {
            return cli_fail(err, FN_E_USAGE, "--logit-bias: expected an id below %zu, found %d",
                            vocab, (int)out->bias[i].id);
        }
    }
    out->sampling.bias = out->bias;
    out->sampling.n_bias = list->n_list;
    return FN_OK;
}

static void take_float(const cli_options *options, cli_option_id id, float *field) {
    *field = (float)cli_number(options, id, (double)*field);
}

fn_status cli_sampling_make(const cli_options *options, const fn_text *text, size_t vocab,
                            cli_sampling *out, fn_error *err) {
    *out = (cli_sampling){.sampling = fn_text_default_sampling(text)};
    fn_sampling *sampling = &out->sampling;
    take_float(options, CLI_OPT_TEMP, &sampling->temperature);
    take_float(options, CLI_OPT_TOP_P, &sampling->top_p);
    if (cli_is_set(options, CLI_OPT_TOP_P) && sampling->top_p < LEAST_TOP_P) {
        sampling->top_p = LEAST_TOP_P;
    }
    take_float(options, CLI_OPT_MIN_P, &sampling->min_p);
    take_float(options, CLI_OPT_REPEAT_PENALTY, &sampling->repetition_penalty);
    take_float(options, CLI_OPT_PRESENCE_PENALTY, &sampling->presence_penalty);
    take_float(options, CLI_OPT_FREQUENCY_PENALTY, &sampling->frequency_penalty);
    sampling->top_k = (int32_t)cli_number(options, CLI_OPT_TOP_K, (double)sampling->top_k);
    const cli_value *seed = &options->values[CLI_OPT_SEED];
    bool seed_given = seed->source != CLI_SOURCE_NONE && seed->number >= 0.0;
    out->random_seed = !seed_given && sampling->temperature > 0.0f;
    sampling->seed = seed_given ? seed->whole : out->random_seed ? random_seed() : 0;
    fn_status status = make_bias(options, vocab, out, err);
    if (status != FN_OK) {
        cli_sampling_free(out);
    }
    return status;
}

void cli_sampling_free(cli_sampling *sampling) {
    free(sampling->bias);
    *sampling = (cli_sampling){0};
}

static double per_second(size_t n, double seconds) {
    return seconds > 0.0 ? (double)n / seconds : 0.0;
}

void cli_timings_show(const cli_timings *t, const uint64_t *seed) {
    fprintf(stderr, "%zu prompt tokens", t->prompt_n);
    if (t->cache_n > 0) {
        fprintf(stderr, " (%zu kept)", t->cache_n);
    }
    fprintf(stderr, ", %.1f/s; %zu new", per_second(t->prompt_n, t->prompt_seconds),
            t->predicted_n);
    if (t->thinking_n > 0) {
        fprintf(stderr, " (%zu thinking)", t->thinking_n);
    }
    fprintf(stderr, ", %.1f/s; first after %.2f s",
            per_second(t->predicted_n, t->predicted_seconds), t->prompt_seconds + t->first_seconds);
    if (seed != NULL) {
        fprintf(stderr, "; seed %llu", (unsigned long long)*seed);
    }
    fputc('\n', stderr);
    cli_drafting_show(t);
}

void cli_memory_show(void) {
    struct rusage usage;
    char peak[32];
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        fprintf(stderr, "peak memory %s\n",
                cli_bytes((uint64_t)usage.ru_maxrss * 1024u, peak, sizeof peak));
    }
}
