/* server/metrics.h - counters and histograms in Prometheus' text format.
 *
 * Names follow vLLM's stems with our prefix, units are base units.
 *
 * Path:     job.c, exchange.c, fn_scheduler_counts -> [this] -> GET /metrics
 * Threads:  the I/O thread. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdint.h>

#include "cli/buffer.h"
#include "flashnext.h"

#define SRV_MAX_BUCKETS 20

typedef struct srv_histogram {
    uint64_t counts[SRV_MAX_BUCKETS]; /* of each bucket alone; the last is +Inf */
    uint64_t total;
    double sum;
} srv_histogram;

typedef enum srv_measure {
    SRV_TIME_TO_FIRST_TOKEN,
    SRV_INTER_TOKEN_LATENCY,
    SRV_REQUEST_LATENCY,
    SRV_QUEUE_TIME,
    SRV_N_MEASURES
} srv_measure;

typedef struct srv_metrics {
    srv_histogram histograms[SRV_N_MEASURES];
    uint64_t by_class[6]; /* HTTP answers 1xx .. 5xx */
} srv_metrics;

void srv_metrics_observe(srv_metrics *metrics, srv_measure measure, double seconds);
void srv_metrics_count_request(srv_metrics *metrics, int status);
/* counts and ngram are NULL while the model is loading. */
void srv_metrics_write(const srv_metrics *metrics, const fn_scheduler_counts *counts,
                       const fn_ngram_counts *ngram, const char *model, cli_buffer *out);

#endif
