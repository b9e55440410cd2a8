#include "engine/tools_plan_drafts.h"

#include <math.h>

#define GUESSES 3
/* Ids that the head may guess, as the engine's default is. */
#define SHORTLIST 32768.0

/* Shares of passes in which a guess at each place holds: vLLM and others on the released weights. */
static const double holds[GUESSES] = {0.86, 0.68, 0.57};

/* Experts that rows choose together, when each chooses K of E as if at random. */
static double distinct(const fn_shape *s, size_t rows) {
    double missed = 1.0 - (double)s->n_chosen / (double)s->n_experts;
    return (double)s->n_experts * (1.0 - pow(missed, (double)rows));
}

/* Bytes of one pass: all rows share the dense weights, their experts add up, and each reads its own state. The
 * accepted rows pass the head again; each guess reads the head once and its part of the LM head. */
static double pass_read(const fn_shape *s, const fn_memory_plan *plan, double state_read) {
    double routed = (double)plan->lines[FN_PLAN_ROUTED].read;
    double head = (double)plan->lines[FN_PLAN_MTP].read;
    double experts = distinct(s, GUESSES + 1) / (double)s->n_chosen;
    double layer = routed / (double)s->n_layers; /* the head's own experts are as large */
    double dense = (double)plan->total.read - routed - head;
    double listed = (double)s->vocab < SHORTLIST ? 1.0 : SHORTLIST / (double)s->vocab;
    double verify = dense + routed * experts + head - layer + layer * experts;
    double guess = head + listed * (double)plan->lines[FN_PLAN_HEAD].read;
    return verify + GUESSES * guess + (GUESSES + 1) * state_read;
}

json_t *fn_plan_drafts(const fn_shape *s, const fn_memory_plan *plan, uint64_t state_read) {
    double tokens = 1.0;
    double plain = (double)plan->total.read + (double)state_read;
    double pass = pass_read(s, plan, (double)state_read);
    for (size_t i = 0; i < GUESSES; i++) {
        tokens += holds[i];
    }
    return json_pack("{s:i, s:f, s:f, s:I, s:f}", "rows", GUESSES + 1, "distinct_experts",
                     distinct(s, GUESSES + 1), "tokens_per_pass", tokens, "pass_read",
                     (json_int_t)pass, "speed", pass > 0 ? tokens * plain / pass : 0.0);
}
