#include "server/metrics.h"

#include <stdio.h>
#include <unistd.h>

/* ---- histograms ------------------------------------------------------------------------- */

typedef struct measure_info {
    const char *name, *help;
    double bounds[SRV_MAX_BUCKETS - 1]; /* ends at the first 0 */
} measure_info;

static const measure_info measures[SRV_N_MEASURES] = {
    [SRV_TIME_TO_FIRST_TOKEN] = {"time_to_first_token_seconds",
                                 "From the request to its first token.",
                                 {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160,
                                  320, 640, 1280}},
    [SRV_INTER_TOKEN_LATENCY] = {"inter_token_latency_seconds",
                                 "Between two tokens of one answer.",
                                 {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                  0.75, 1, 2.5, 5, 10}},
    [SRV_REQUEST_LATENCY] = {"e2e_request_latency_seconds",
                             "From the request to the end of its last answer.",
                             {0.05, 0.1, 0.3, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 240, 480, 960,
                              1920, 7680}},
    [SRV_QUEUE_TIME] = {"request_queue_time_seconds",
                        "From the request to the beginning of its computation.",
                        {0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 240, 480,
                         960}},
};

void srv_metrics_observe(srv_metrics *metrics, srv_measure measure, double seconds) {
    srv_histogram *h = &metrics->histograms[measure];
    const double *bounds = measures[measure].bounds;
    size_t i = 0;
    while (i < SRV_MAX_BUCKETS - 1 && bounds[i] > 0.0 && seconds > bounds[i]) {
        i++;
    }
    h->counts[i]++;
    h->total++;
    h->sum += seconds;
}

void srv_metrics_count_request(srv_metrics *metrics, int status) {
    int class = status / 100;
    metrics->by_class[class >= 1 && class <= 5 ? class : 0]++;
}

static void head(cli_buffer *out, const char *name, const char *type, const char *help) {
    cli_buffer_printf(out, "# HELP flashnext_%s %s\n# TYPE flashnext_%s %s\n", name, help, name,
                      type);
}

static void write_histogram(const srv_histogram *h, const measure_info *info, cli_buffer *out) {
    uint64_t sum = 0;
    head(out, info->name, "histogram", info->help);
    size_t i = 0;
    for (; i < SRV_MAX_BUCKETS - 1 && info->bounds[i] > 0.0; i++) {
        sum += h->counts[i];
        cli_buffer_printf(out, "flashnext_%s_bucket{le=\"%g\"} %llu\n", info->name, info->bounds[i],
                          (unsigned long long)sum);
    }
    cli_buffer_printf(out,
                      "flashnext_%s_bucket{le=\"+Inf\"} %llu\nflashnext_%s_sum %.9g\n"
                      "flashnext_%s_count %llu\n",
                      info->name, (unsigned long long)h->total, info->name, h->sum, info->name,
                      (unsigned long long)h->total);
}

/* ---- counters --------------------------------------------------------------------------- */

static void counter(cli_buffer *out, const char *name, const char *help, double value) {
    head(out, name, "counter", help);
    cli_buffer_printf(out, "flashnext_%s %.17g\n", name, value);
}

static void gauge(cli_buffer *out, const char *name, const char *help, double value) {
    head(out, name, "gauge", help);
    cli_buffer_printf(out, "flashnext_%s %.17g\n", name, value);
}

static double share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

static void write_tokens(const fn_scheduler_counts *c, cli_buffer *out) {
    counter(out, "prompt_tokens_total", "Tokens of prompts, cached ones among them.",
            (double)(c->prompt_ids + c->cached_ids));
    counter(out, "prompt_tokens_cached_total", "Tokens of prompts taken from the prefix cache.",
            (double)c->cached_ids);
    counter(out, "generation_tokens_total", "Tokens generated.", (double)c->generated_ids);
    counter(out, "forwards_total", "Forward passes.", (double)c->forwards);
    counter(out, "forward_rows_total", "Rows of all forward passes.", (double)c->rows);
    counter(out, "busy_seconds_total", "Time in forward passes.", c->busy_seconds);
}

/* What drafting does: ids at each place of a pass, and the speed without it. */
static void write_drafting(const fn_scheduler_counts *c, cli_buffer *out) {
    const fn_drafting *d = &c->drafting;
    counter(out, "spec_decode_num_drafts_total", "Passes of answers with drafts.",
            (double)d->drafted_at[0]);
    counter(out, "spec_decode_num_draft_tokens_total", "Tokens drafted.", (double)d->drafted);
    counter(out, "spec_decode_num_accepted_tokens_total", "Drafted tokens that were right.",
            (double)d->accepted);
    head(out, "spec_decode_num_draft_tokens_per_pos_total", "counter",
         "Tokens drafted, by their place in the pass.");
    for (size_t i = 0; i < FN_MAX_DRAFTS; i++) {
        cli_buffer_printf(out,
                          "flashnext_spec_decode_num_draft_tokens_per_pos_total{position=\"%zu\"} "
                          "%zu\n",
                          i, d->drafted_at[i]);
    }
    head(out, "spec_decode_num_accepted_tokens_per_pos_total", "counter",
         "Drafted tokens that were right, by their place in the pass.");
    for (size_t i = 0; i < FN_MAX_DRAFTS; i++) {
        cli_buffer_printf(
            out,
            "flashnext_spec_decode_num_accepted_tokens_per_pos_total{position=\"%zu\"}"
            " %zu\n",
            i, d->accepted_at[i]);
    }
    gauge(out, "spec_decode_tokens_per_pass", "Tokens of answers in a pass.",
          d->passes > 0 ? 1.0 + (double)d->accepted / (double)d->passes : 0.0);
    if (c->answer_seconds > 0.0 || d->drafted == 0) { /* else there is nothing to compare with */
        gauge(out, "spec_decode_speedup", "Speed of answers over the speed without drafts.",
              c->answer_seconds > 0.0 ? c->plain_seconds / c->answer_seconds : 1.0);
    }
}

static void write_requests(const fn_scheduler_counts *c, cli_buffer *out) {
    head(out, "request_success_total", "counter", "Requests that were answered, by their end.");
    cli_buffer_printf(out,
                      "flashnext_request_success_total{finished_reason=\"stop\"} %llu\n"
                      "flashnext_request_success_total{finished_reason=\"length\"} %llu\n",
                      (unsigned long long)c->stopped, (unsigned long long)c->reached_limit);
    counter(out, "request_cancelled_total", "Requests whose client left.", (double)c->cancelled);
    counter(out, "request_failed_total", "Requests that failed.", (double)c->failed);
    counter(out, "request_refused_total", "Requests refused because the queue was full.",
            (double)c->refused_busy);
    gauge(out, "requests_running", "Requests that are computed now.", (double)c->running);
    gauge(out, "requests_waiting", "Requests in the queue.", (double)c->waiting);
}

static void write_memory(const fn_scheduler_counts *c, cli_buffer *out) {
    gauge(out, "kv_cache_usage_ratio", "Share of the memory for states that is reserved.",
          share(c->state_bytes, c->state_limit));
    gauge(out, "state_checkpoints", "States kept in the prefix cache.", (double)c->cache_states);
    gauge(out, "prefix_cache_bytes", "Memory of the prefix cache.", (double)c->cache_bytes);
    counter(out, "prefix_cache_queries_total", "Look-ups in the prefix cache.",
            (double)c->cache_lookups);
    counter(out, "prefix_cache_hits_total", "Look-ups that found a state.", (double)c->cache_hits);
    counter(out, "prefix_cache_evictions_total", "States that were thrown out.",
            (double)c->cache_evictions);
    gauge(out, "prefix_cache_disk_bytes", "Files of the prefix cache.", (double)c->disk_bytes);
    counter(out, "prefix_cache_disk_hits_total", "Look-ups answered from files.",
            (double)c->disk_hits);
}

static void write_ngram(const fn_ngram_counts *c, cli_buffer *out) {
    counter(out, "ngram_rows_total", "Rows of the n-gram tables looked up.", (double)c->rows);
    counter(out, "ngram_cached_rows_total", "Rows that the page cache had when it was asked.",
            (double)c->cached_rows);
    counter(out, "ngram_read_rows_total", "Rows read from files without asking, or not cached.",
            (double)c->read_rows);
    counter(out, "ngram_read_bytes_total", "Bytes of the rows read from files.",
            (double)c->read_bytes);
}

static void write_process(const srv_metrics *metrics, const char *model, cli_buffer *out) {
    unsigned long long pages = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        char line[128];
        if (fgets(line, sizeof line, file) != NULL) {
            (void)sscanf(line, "%llu %llu", &pages, &resident); /* NOLINT(cert-err34-c) */
        }
        (void)fclose(file);
    }
    cli_buffer_printf(out,
                      "# HELP process_resident_memory_bytes Resident memory.\n"
                      "# TYPE process_resident_memory_bytes gauge\n"
                      "process_resident_memory_bytes %llu\n",
                      resident * (unsigned long long)sysconf(_SC_PAGESIZE));
    head(out, "http_responses_total", "counter", "Answers by class of HTTP status.");
    for (int i = 2; i <= 5; i++) {
        cli_buffer_printf(out, "flashnext_http_responses_total{class=\"%dxx\"} %llu\n", i,
                          (unsigned long long)metrics->by_class[i]);
    }
    head(out, "build_info", "gauge", "Always 1: which program and model these are.");
    cli_buffer_printf(out, "flashnext_build_info{version=\"%s\",model=\"", fn_version());
    for (const char *c = model; *c != 0; c++) {
        cli_buffer_puts(out, *c == '"' || *c == '\\' ? "\\" : "");
        cli_buffer_add(out, *c == '\n' ? " " : c, 1);
    }
    cli_buffer_puts(out, "\"} 1\n");
}

void srv_metrics_write(const srv_metrics *metrics, const fn_scheduler_counts *counts,
                       const fn_ngram_counts *ngram, const char *model, cli_buffer *out) {
    if (ngram != NULL) {
        write_ngram(ngram, out);
    }
    if (counts != NULL) {
        write_requests(counts, out);
        write_tokens(counts, out);
        write_drafting(counts, out);
        write_memory(counts, out);
    }
    for (size_t i = 0; i < SRV_N_MEASURES; i++) {
        write_histogram(&metrics->histograms[i], &measures[i], out);
    }
    write_process(metrics, model, out);
}
