/* Loops: going through items, what `loop` knows, recursion (jinja_eval.h). */
#include <string.h>

#include "tokens/jinja_eval.h"

fn_jloop *fn_jloop_new(fn_jrun *run, const fn_jnode *node, fn_jact *act, fn_jval iterable) {
    fn_jloop *loop = fn_jrun_array(run, 1, sizeof *loop);
    if (loop == NULL) {
        return NULL;
    }
    loop->node = node;
    loop->act = act;
    loop->index0 = -1;
    loop->length = -1;
    loop->filtered = node->c != NULL;
    if (!fn_j_items(run, iterable, &loop->items, &loop->n)) {
        return NULL;
    }
    if (!loop->filtered) {
        loop->length = (int64_t)loop->n;
    } else if (!fn_jact_enter(run, act, &node->test_frame)) {
        return NULL;
    }
    return loop;
}

/* The next item that passes the loop's `if`, which is asked only now: the body may have changed
 * what it depends on. MISSING at the end. */
static fn_jval fetch(fn_jrun *run, fn_jloop *loop) {
    while (loop->next < loop->n) {
        fn_jval item = loop->items[loop->next++];
        if (!loop->filtered) {
            return item;
        }
        int line = run->line;
        if (!fn_jact_assign(run, loop->act, loop->node->d, item)) {
            return fn_j_fail();
        }
        fn_jval keep = fn_jeval(run, loop->act, loop->node->c);
        if (fn_j_failed(keep)) {
            return keep;
        }
        run->line = line;
        if (fn_j_truth(keep)) {
            return item;
        }
    }
    return (fn_jval){.type = FN_J_MISSING};
}

bool fn_jloop_next(fn_jrun *run, fn_jloop *loop) {
    fn_jval item = loop->after;
    loop->after = (fn_jval){.type = FN_J_MISSING};
    if (item.type == FN_J_MISSING) {
        item = fetch(run, loop);
    }
    if (item.type == FN_J_MISSING || fn_j_failed(item)) {
        return false;
    }
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    return fn_jrun_step(run, 1);
}

static fn_jval peek(fn_jrun *run, fn_jloop *loop) {
    if (loop->after.type == FN_J_MISSING) {
        loop->after = fetch(run, loop);
    }
    return loop->after;
}

/* Asking for the length fetches all that is left. */
static bool measure(fn_jrun *run, fn_jloop *loop) {
    if (loop->length >= 0) {
        return true;
    }
    fn_jlist rest = {0};
    for (fn_jval v = fetch(run, loop); v.type != FN_J_MISSING; v = fetch(run, loop)) {
        if (!fn_jlist_push(run, &rest, v)) {
            return false;
        }
    }
    loop->items = rest.items;
    loop->n = rest.n;
    loop->next = 0;
    loop->filtered = false;
    loop->length = (int64_t)rest.n + loop->index0 + 1 + (loop->after.type != FN_J_MISSING ? 1 : 0);
    return true;
}

static fn_jval cycle(fn_jrun *run, const fn_jval *in, const fn_jargs *args) {
    const fn_jloop *loop = in[0].as.loop;
    if (args->n < 2) {
        return fn_jrun_error(run, "no items for cycling given");
    }
    return args->positional[1 + (size_t)loop->index0 % (args->n - 1)];
}

static fn_jval changed(fn_jrun *run, const fn_jval *in, const fn_jargs *args) {
    fn_jloop *loop = in[0].as.loop;
    fn_jval now = fn_j_seq(run, FN_JSEQ_TUPLE, args->positional + 1, args->n - 1);
    if (fn_j_failed(now)) {
        return now;
    }
    bool same = loop->changed.type != FN_J_MISSING && fn_j_equal(run, loop->changed, now);
    loop->changed = now;
    return fn_j_bool(!same);
}

static fn_jval loop_method(fn_jrun *run, fn_jloop *loop, const fn_jbuiltin *builtin) {
    fn_jmethod *method = fn_jrun_alloc(run, sizeof *method);
    if (method == NULL) {
        return fn_j_fail();
    }
    *method = (fn_jmethod){.object = {.type = FN_J_LOOP, .as.loop = loop}, .builtin = builtin};
    return (fn_jval){.type = FN_J_METHOD, .as.method = method};
}

static fn_jval measured(fn_jrun *run, fn_jloop *loop, int64_t from_length) {
    return measure(run, loop) ? fn_j_int(loop->length - from_length) : fn_j_fail();
}

fn_jval fn_jloop_attribute(fn_jrun *run, fn_jloop *loop, const fn_jstr *name) {
    static const fn_jbuiltin methods[] = {
        {.name = "cycle", .params = "self,*", .code = cycle},
        {.name = "changed", .params = "self,*", .code = changed},
    };
    static const char *const names[] = {"index0",   "index",  "revindex0", "revindex", "first",
                                        "last",     "length", "depth",     "depth0",   "previtem",
                                        "nextitem", "cycle",  "changed"};
    size_t which = 0;
    size_t n_names = sizeof names / sizeof names[0];
    while (which < n_names && !fn_j_is_text(fn_j_str(name), names[which])) {
        which++;
    }
    fn_jval next;
    switch (which) {
    case 0:
        return fn_j_int(loop->index0);
    case 1:
        return fn_j_int(loop->index0 + 1);
    case 2:
        return measured(run, loop, loop->index0 + 1);
    case 3:
        return measured(run, loop, loop->index0);
    case 4:
        return fn_j_bool(loop->index0 == 0);
    case 5:
        next = peek(run, loop);
        return fn_j_failed(next) ? next : fn_j_bool(next.type == FN_J_MISSING);
    case 6:
        return measured(run, loop, 0);
    case 7:
        return fn_j_int(loop->depth0 + 1);
    case 8:
        return fn_j_int(loop->depth0);
    case 9:
        return loop->index0 == 0 ? fn_j_undefined_hint(run, "there is no previous item")
                                 : loop->before;
    case 10:
        next = peek(run, loop);
        return next.type == FN_J_MISSING ? fn_j_undefined_hint(run, "there is no next item") : next;
    case 11:
    case 12:
        return loop_method(run, loop, &methods[which - 11]);
    default:
        return (fn_jval){.type = FN_J_MISSING};
    }
}

bool fn_jloop_run(fn_jrun *run, const fn_jnode *node, fn_jloop *loop, fn_jflow *flow) {
    fn_jact *act = loop->act;
    /* jinja2 notes at the end of the body that there was an item: `continue` and `break` skip that,
     * so a loop of nothing but those runs its else part. */
    bool none = true;
    *flow = FN_JFLOW_NEXT;
    while (fn_jloop_next(run, loop)) {
        if (!fn_jact_assign(run, act, node->a, loop->current) ||
            !fn_jact_enter(run, act, &node->frame)) {
            return false;
        }
        act->slots[node->loop_slot] = (fn_jval){.type = FN_J_LOOP, .as.loop = loop};
        fn_jflow body = fn_jeval_body(run, act, &node->body);
        if (body == FN_JFLOW_FAIL) {
            return false;
        }
        if (body == FN_JFLOW_BREAK) {
            break;
        }
        none = none && body == FN_JFLOW_CONTINUE;
    }
    if (run->status != FN_OK) {
        return false;
    }
    if (none && node->other.n > 0) {
        if (!fn_jact_enter(run, act, &node->else_frame)) {
            return false;
        }
        *flow = fn_jeval_body(run, act, &node->other);
    }
    return *flow != FN_JFLOW_FAIL;
}

fn_jval fn_jloop_render(fn_jrun *run, const fn_jnode *node, fn_jact *outside, fn_jval iterable,
                        int64_t depth0) {
    if (++run->depth > run->limits.depth) {
        return fn_jrun_limit(run, "recursive loops nested more than %u deep",
                             (unsigned)run->limits.depth);
    }
    fn_jact *act = fn_jact_new(run, outside, node->n_slots);
    fn_jloop *loop = act != NULL ? fn_jloop_new(run, node, act, iterable) : NULL;
    if (loop == NULL) {
        return fn_j_fail();
    }
    loop->outside = outside;
    loop->depth0 = depth0;
    fn_jbuf buf = {0};
    fn_jbuf *outer = run->output;
    run->output = &buf;
    fn_jflow flow = FN_JFLOW_NEXT;
    bool ok = fn_jloop_run(run, node, loop, &flow);
    run->output = outer;
    run->depth--;
    return ok ? fn_jbuf_take(run, &buf) : fn_j_fail();
}
