/* server/mailbox.h - what the scheduler's thread tells the I/O thread, in order.
 *
 * Callbacks of fn_scheduler copy what they are given into a note and return; the I/O thread is woken
 * and takes all notes at once.
 *
 * Path:     callbacks of a request -> [this] -> job.c, on the I/O thread
 * Threads:  post from anywhere; everything else from the I/O thread.
 * Memory:   a note owns what it holds; srv_note_free. */
#ifndef SERVER_MAILBOX_H
#define SERVER_MAILBOX_H

#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>

#include "flashnext.h"

typedef struct srv_part srv_part; /* one prompt of a job: job.h */

typedef enum srv_note_kind {
    SRV_NOTE_EVENT,    /* fn_event */
    SRV_NOTE_PROGRESS, /* fn_prompt_progress */
    SRV_NOTE_ANSWER,   /* fn_generated of answer event.answer */
    SRV_NOTE_DONE      /* fn_request_result */
} srv_note_kind;

typedef struct srv_note {
    struct srv_note *next;
    srv_part *part;
    srv_note_kind kind;
    fn_event event; /* its text and top are the note's */
    fn_prompt_progress progress;
    fn_generated generated;
    fn_request_result result; /* its error is the note's */
    char bytes[];
} srv_note;

typedef struct srv_mailbox {
    pthread_mutex_t lock;
    srv_note *first, *last;
    int pipe[2];
    bool woken; /* a byte is in the pipe */
    struct event *readable;
    void (*on_note)(void *ud, const srv_note *note);
    void (*on_wake)(void *ud); /* after the notes of one waking */
    void *ud;
} srv_mailbox;

/* Fails with FN_E_IO. */
fn_status srv_mailbox_init(srv_mailbox *box, struct event_base *base, fn_error *err);
void srv_mailbox_deinit(srv_mailbox *box);

/* A note with room for n bytes in it. */
srv_note *srv_note_create(srv_part *part, srv_note_kind kind, size_t n);
void srv_mailbox_post(srv_mailbox *box, srv_note *note);
/* Wakes the I/O thread without a note. */
void srv_mailbox_wake(srv_mailbox *box);
/* Throws away the notes of a part that is about to go. */
void srv_mailbox_forget(srv_mailbox *box, const srv_part *part);

#endif
