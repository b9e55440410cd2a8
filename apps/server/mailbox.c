#include "server/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/buffer.h"
#include "cli/report.h"

static void take_all(evutil_socket_t fd, short what, void *ud) {
    srv_mailbox *box = ud;
    char ignored[64];
    (void)what;
    while (read(fd, ignored, sizeof ignored) > 0) {
    }
    (void)pthread_mutex_lock(&box->lock);
    box->woken = false;
    (void)pthread_mutex_unlock(&box->lock);
    for (;;) {
        /* One at a time: a note's handler may throw away others. */
        (void)pthread_mutex_lock(&box->lock);
        srv_note *note = box->first;
        if (note != NULL) {
            box->first = note->next;
            box->last = box->first != NULL ? box->last : NULL;
        }
        (void)pthread_mutex_unlock(&box->lock);
        if (note == NULL) {
            break;
        }
        box->on_note(box->ud, note);
        free(note);
    }
    box->on_wake(box->ud);
}

fn_status srv_mailbox_init(srv_mailbox *box, struct event_base *base, fn_error *err) {
    (void)pthread_mutex_init(&box->lock, NULL);
    box->pipe[0] = -1;
    box->pipe[1] = -1;
    if (pipe(box->pipe) != 0) {
        return cli_fail(err, FN_E_IO, "a pipe could not be made: %s", strerror(errno));
    }
    for (int i = 0; i < 2; i++) {
        (void)evutil_make_socket_nonblocking(box->pipe[i]);
        (void)evutil_make_socket_closeonexec(box->pipe[i]);
    }
    box->readable = event_new(base, box->pipe[0], EV_READ | EV_PERSIST, take_all, box);
    if (box->readable == NULL || event_add(box->readable, NULL) != 0) {
        return cli_fail(err, FN_E_NOMEM, "no memory for events");
    }
    return FN_OK;
}

void srv_mailbox_deinit(srv_mailbox *box) {
    if (box->readable != NULL) {
        event_free(box->readable);
    }
    while (box->first != NULL) {
        srv_note *next = box->first->next;
        free(box->first);
        box->first = next;
    }
    for (int i = 0; i < 2; i++) {
        if (box->pipe[i] >= 0) {
            (void)close(box->pipe[i]);
        }
    }
    (void)pthread_mutex_destroy(&box->lock);
}

srv_note *srv_note_create(srv_part *part, srv_note_kind kind, size_t n) {
    srv_note *note = cli_alloc(sizeof *note + n);
    *note = (srv_note){.part = part, .kind = kind};
    return note;
}

static void wake_locked(srv_mailbox *box) {
    if (!box->woken) {
        box->woken = true;
        ssize_t ignored = write(box->pipe[1], "", 1);
        (void)ignored;
    }
}

void srv_mailbox_post(srv_mailbox *box, srv_note *note) {
    (void)pthread_mutex_lock(&box->lock);
    if (box->last != NULL) {
        box->last->next = note;
    } else {
        box->first = note;
    }
    box->last = note;
    wake_locked(box);
    (void)pthread_mutex_unlock(&box->lock);
}

void srv_mailbox_wake(srv_mailbox *box) {
    (void)pthread_mutex_lock(&box->lock);
    wake_locked(box);
    (void)pthread_mutex_unlock(&box->lock);
}

void srv_mailbox_forget(srv_mailbox *box, const srv_part *part) {
    (void)pthread_mutex_lock(&box->lock);
    srv_note *last = NULL;
    for (srv_note **at = &box->first; *at != NULL;) {
        srv_note *note = *at;
        if (note->part == part) {
            *at = note->next;
            free(note);
        } else {
            last = note;
            at = &note->next;
        }
    }
    box->last = last;
    (void)pthread_mutex_unlock(&box->lock);
}
