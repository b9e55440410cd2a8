#include "server/reading.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "cli/buffer.h"
#include "cli/report.h"
#include "server/fields.h"
#include "server/job.h"

#define SMALL_BODY (256u << 10) /* bytes: read within milliseconds */

struct srv_reading {
    srv_reading *next;
    srv_readers *readers;
    srv_exchange *x; /* the I/O thread's; NULL: the client left */
    srv_body_reader read;
    struct evbuffer *body;
    srv_outcome outcome;
    char *text; /* the reply's JSON */
};

/* ---- on the threads --------------------------------------------------------------------- */

static void read_body(srv_reading *reading) {
    json_t *root = NULL;
    srv_outcome *out = &reading->outcome;
    size_t n = evbuffer_get_length(reading->body);
    const char *bytes = n > 0 ? (const char *)evbuffer_pullup(reading->body, -1) : NULL;
    if (srv_parse_object(bytes, bytes != NULL ? n : 0, &root, &out->problem) &&
        reading->read(reading->readers->limits, root, out) && out->reply != NULL) {
        reading->text = srv_json_text(out->reply);
        out->reply = NULL;
    }
    json_decref(root);
    (void)evbuffer_drain(reading->body, n);
}

/* The oldest that this thread may read; under the lock. */
static srv_reading *next_of(srv_readers *readers, bool small_only) {
    srv_reading **at = &readers->waiting;
    while (*at != NULL && small_only && evbuffer_get_length((*at)->body) > SMALL_BODY) {
        at = &(*at)->next;
    }
    srv_reading *found = *at;
    if (found != NULL) {
        *at = found->next;
        found->next = NULL;
    }
    return found;
}

static void append(srv_reading **list, srv_reading *reading) {
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = reading;
}

static void work(srv_readers *readers, bool small_only) {
    (void)pthread_mutex_lock(&readers->lock);
    while (!readers->stop) {
        srv_reading *reading = next_of(readers, small_only);
        if (reading == NULL) {
            (void)pthread_cond_wait(&readers->wake, &readers->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&readers->lock);
        read_body(reading);
        (void)pthread_mutex_lock(&readers->lock);
        append(&readers->done, reading);
        srv_mailbox_wake(readers->mailbox);
    }
    (void)pthread_mutex_unlock(&readers->lock);
}

static void *read_any(void *ud) {
    work(ud, false);
    return NULL;
}

static void *read_small(void *ud) {
    work(ud, true);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------- */

fn_status srv_readers_start(srv_readers *readers, const srv_limits *limits, srv_mailbox *mailbox,
                            fn_error *err) {
    static void *(*const kinds[SRV_READER_THREADS])(void *) = {read_any, read_small};
    readers->limits = limits;
    readers->mailbox = mailbox;
    (void)pthread_mutex_init(&readers->lock, NULL);
    (void)pthread_cond_init(&readers->wake, NULL);
    readers->ready = true;
    while (readers->n_threads < SRV_READER_THREADS) {
        if (pthread_create(&readers->threads[readers->n_threads], NULL, kinds[readers->n_threads],
                           readers) != 0) {
            return cli_fail(err, FN_E_FAILED, "a thread could not be started");
        }
        readers->n_threads++;
    }
    return FN_OK;
}

void srv_readers_stop(srv_readers *readers) {
    if (!readers->ready) {
        return;
    }
    (void)pthread_mutex_lock(&readers->lock);
    readers->stop = true;
    (void)pthread_cond_broadcast(&readers->wake);
    (void)pthread_mutex_unlock(&readers->lock);
    while (readers->n_threads > 0) {
        (void)pthread_join(readers->threads[--readers->n_threads], NULL);
    }
}

static void free_reading(srv_reading *reading) {
    evbuffer_free(reading->body);
    json_decref(reading->outcome.reply);
    srv_request_free(&reading->outcome.request);
    free(reading->text);
    free(reading);
}

void srv_readers_deinit(srv_readers *readers) {
    if (!readers->ready) {
        return;
    }
    srv_reading **lists[] = {&readers->waiting, &readers->done};
    for (size_t i = 0; i < 2; i++) {
        while (*lists[i] != NULL) {
            srv_reading *reading = *lists[i];
            *lists[i] = reading->next;
            free_reading(reading);
        }
    }
    (void)pthread_cond_destroy(&readers->wake);
    (void)pthread_mutex_destroy(&readers->lock);
}

/* ---- one body --------------------------------------------------------------------------- */

/* Out of the list, if it is in it; under the lock. */
static bool take_out(srv_reading **list, const srv_reading *reading) {
    while (*list != NULL && *list != reading) {
        list = &(*list)->next;
    }
    bool found = *list != NULL;
    if (found) {
        *list = reading->next;
    }
    return found;
}

/* The client left: what waits is forgotten, what is being read is thrown away when it comes back. */
static void on_gone(void *ud) {
    srv_reading *reading = ud;
    srv_readers *readers = reading->readers;
    srv_exchange *x = reading->x;
    reading->x = NULL;
    (void)pthread_mutex_lock(&readers->lock);
    bool ours = take_out(&readers->waiting, reading) || take_out(&readers->done, reading);
    (void)pthread_mutex_unlock(&readers->lock);
    if (ours) {
        free_reading(reading);
    }
    x->log.finish = "gone";
    srv_exchange_drop(x);
}

void srv_reading_begin(srv_readers *readers, srv_exchange *x, srv_body_reader read) {
    srv_reading *reading = cli_alloc(sizeof *reading);
    *reading =
        (srv_reading){.readers = readers, .x = x, .read = read, .body = srv_exchange_take_body(x)};
    srv_exchange_wait(x, on_gone, reading);
    (void)pthread_mutex_lock(&readers->lock);
    append(&readers->waiting, reading);
    (void)pthread_cond_broadcast(&readers->wake);
    (void)pthread_mutex_unlock(&readers->lock);
}

static void go_on(srv_exchange *x, srv_reading *reading) {
    srv_outcome *out = &reading->outcome;
    if (out->problem.status != 0) {
        srv_reply_problem(x, &out->problem);
    } else if (reading->text != NULL) {
        srv_reply_json_text(x, 200, reading->text);
    } else {
        srv_job_start(x->server, x, &out->request);
        out->request = (srv_request){0};
    }
}

void srv_readers_take(srv_readers *readers) {
    while (readers->ready) {
        (void)pthread_mutex_lock(&readers->lock);
        srv_reading *reading = readers->done;
        if (reading != NULL) {
            readers->done = reading->next;
        }
        (void)pthread_mutex_unlock(&readers->lock);
        if (reading == NULL) {
            return;
        }
        if (reading->x != NULL) {
            go_on(reading->x, reading);
        }
        free_reading(reading);
    }
}
