#include "engine/cache_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/state_file.h"

#define QUEUE 16
#define SUFFIX ".state"
#define PARTIAL ".partial-"
#define KEY_DIGITS ((size_t)16)
#define NAME_LENGTH (3 * KEY_DIGITS + sizeof SUFFIX - 1)
#define NAME_ROOM (NAME_LENGTH + 1)

typedef struct job {
    fn_state *state; /* a clone; NULL once it is written or has failed */
    int32_t *ids;
    size_t n;
    uint64_t bytes; /* of the file; 0: failed */
} job;

typedef struct fetch {
    struct fetch *next;
    size_t n;
    fn_state *state; /* when it is done; NULL: failed */
    int32_t ids[];
} fetch;

struct fn_cache_files {
    fn_engine *engine;
    char *dir;
    uint64_t max_bytes;
    uint64_t key;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t writer, reader;
    bool writes, reads; /* the threads run */
    void (*on_fetched)(void *ud);
    void *on_fetched_ud;
    /* under the mutex: fetches, oldest first; jobs [0, written) are done, [written, n_jobs) wait; the writer copies one out. */
    fetch *asked, *fetched;
    job jobs[QUEUE];
    size_t written, n_jobs;
    bool stop;
};

/* ---- names ---- */

/* Fingerprint and ids, so that files of several models can share a folder. */
static void name_of(const fn_cache_files *f, const int32_t *ids, size_t n, char out[NAME_ROOM]) {
    uint64_t one = fn_hash_bytes(f->key, ids, n * sizeof *ids);
    uint64_t two = fn_hash_bytes(~f->key, ids, n * sizeof *ids);
    (void)snprintf(out, NAME_ROOM, "%016llx%016llx%016llx" SUFFIX, (unsigned long long)f->key,
                   (unsigned long long)one, (unsigned long long)two);
}

static char *path_of(const fn_cache_files *f, const int32_t *ids, size_t n) {
    char name[NAME_ROOM];
    name_of(f, ids, n, name);
    return fn_path_join(f->dir, name);
}

/* Does the name start like one of this engine's files? */
static bool is_ours(const fn_cache_files *f, const char *name) {
    char key[KEY_DIGITS + 1];
    (void)snprintf(key, sizeof key, "%016llx", (unsigned long long)f->key);
    return strncmp(name, key, KEY_DIGITS) == 0 && strlen(name) >= NAME_LENGTH &&
           strncmp(name + 3 * KEY_DIGITS, SUFFIX, strlen(SUFFIX)) == 0;
}

/* What follows the name of a file that a process was still writing: ".partial-PID-N". */
static bool is_left_behind(const char *name) {
    const char *tail = name + NAME_LENGTH;
    if (strncmp(tail, PARTIAL, strlen(PARTIAL)) != 0) {
        return false;
    }
    long pid = strtol(tail + strlen(PARTIAL), NULL, 10);
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* ---- the writer ---- */

static uint64_t write_one(const fn_cache_files *f, const job *j) {
    struct stat info;
    uint64_t bytes = 0;
    char *path = path_of(f, j->ids, j->n);
    if (path != NULL && fn_state_file_write(f->engine, path, j->ids, j->state, NULL) == FN_OK &&
        stat(path, &info) == 0) {
        bytes = (uint64_t)info.st_size;
    }
    fn_free(path);
    return bytes;
}

static void *write_all(void *arg) {
    fn_cache_files *f = arg;
    pthread_mutex_lock(&f->mutex);
    for (;;) {
        while (f->written == f->n_jobs && !f->stop) {
            pthread_cond_wait(&f->wake, &f->mutex);
        }
        if (f->written == f->n_jobs) {
            break;
        }
        job j = f->jobs[f->written];
        pthread_mutex_unlock(&f->mutex);
        uint64_t bytes = write_one(f, &j);
        fn_state_destroy(j.state);
        pthread_mutex_lock(&f->mutex);
        f->jobs[f->written].state = NULL;
        f->jobs[f->written].bytes = bytes;
        f->written++;
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

/* ---- the reader ---- */

static fn_state *read_one(const fn_cache_files *f, const int32_t *ids, size_t n) {
    fn_state *state = NULL;
    fn_state *copy = NULL;
    int32_t *found = fn_alloc(f->engine->context, sizeof *found);
    char *path = path_of(f, ids, n);
    fn_status status = found != NULL && path != NULL ? FN_OK : FN_E_NOMEM;
    status = status == FN_OK ? fn_state_create(f->engine->states, n, &state, NULL) : status;
    status = status == FN_OK ? fn_state_file_read(f->engine, path, found, state, NULL) : status;
    if (status == FN_OK &&
        (fn_state_length(state) != n || memcmp(found, ids, n * sizeof *ids) != 0)) {
        status = FN_E_MODEL; /* another text with the same name */
    }
    if (status == FN_OK && fn_state_clone(state, &copy, NULL) == FN_OK) { /* without promises */
        (void)utimensat(AT_FDCWD, path, NULL, 0);
    } else if (path != NULL) {
        (void)unlink(path);
    }
    fn_state_destroy(state);
    fn_free(found);
    fn_free(path);
    return copy;
}

static void append(fetch **list, fetch *item) {
    while (*list != NULL) {
        list = &(*list)->next;
    }
    *list = item;
}

static void *read_all(void *arg) {
    fn_cache_files *f = arg;
    pthread_mutex_lock(&f->mutex);
    while (!f->stop) {
        fetch *item = f->asked;
        if (item == NULL) {
            pthread_cond_wait(&f->wake, &f->mutex);
            continue;
        }
        f->asked = item->next;
        item->next = NULL;
        pthread_mutex_unlock(&f->mutex);
        item->state = read_one(f, item->ids, item->n);
        pthread_mutex_lock(&f->mutex);
        append(&f->fetched, item);
        pthread_mutex_unlock(&f->mutex);
        if (f->on_fetched != NULL) {
            f->on_fetched(f->on_fetched_ud);
        }
        pthread_mutex_lock(&f->mutex);
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

static void free_fetches(fetch *list) {
    while (list != NULL) {
        fetch *next = list->next;
        fn_state_destroy(list->state);
        fn_free(list);
        list = next;
    }
}

/* ---- life ---- */

static fn_status start(fn_cache_files *f, fn_error *err) {
    int failure = pthread_create(&f->writer, NULL, write_all, f);
    f->writes = failure == 0;
    if (f->writes) {
        failure = pthread_create(&f->reader, NULL, read_all, f);
        f->reads = failure == 0;
    }
    return failure == 0 ? FN_OK
                        : fn_fail(err, FN_E_FAILED, "cannot start the cache's threads: %s",
                                  strerror(failure));
}

static fn_status make_folder(const char *dir, fn_error *err) {
    struct stat info;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return fn_fail(err, FN_E_IO, "%s: cannot make the folder: %s", dir, strerror(errno));
    }
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return fn_fail(err, FN_E_IO, "%s: not a folder", dir);
    }
    return access(dir, R_OK | W_OK | X_OK) == 0
               ? FN_OK
               : fn_fail(err, FN_E_IO, "%s: may not be written: %s", dir, strerror(errno));
}

fn_status fn_cache_files_open(fn_engine *engine, const char *dir, uint64_t max_bytes,
                              fn_cache_files **out, fn_error *err) {
    *out = NULL;
    fn_status status = make_folder(dir, err);
    if (status != FN_OK) {
        return status;
    }
    fn_cache_files *f = fn_alloc_zero(1, sizeof *f);
    char *copy = fn_strndup(dir, strlen(dir));
    if (f == NULL || copy == NULL) {
        fn_free(f);
        fn_free(copy);
        return fn_fail_nomem(err, "the prefix cache's folder", sizeof *f);
    }
    f->engine = engine;
    f->dir = copy;
    f->max_bytes = max_bytes;
    f->key = fn_state_file_key(engine);
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->wake, NULL);
    status = start(f, err);
    if (status != FN_OK) {
        fn_cache_files_close(f);
        return status;
    }
    *out = f;
    return FN_OK;
}

void fn_cache_files_close(fn_cache_files *f) {
    if (f == NULL) {
        return;
    }
    pthread_mutex_lock(&f->mutex);
    f->stop = true;
    pthread_cond_broadcast(&f->wake);
    pthread_mutex_unlock(&f->mutex);
    if (f->writes) {
        pthread_join(f->writer, NULL);
    }
    if (f->reads) {
        pthread_join(f->reader, NULL);
    }
    free_fetches(f->asked);
    free_fetches(f->fetched);
    for (size_t i = 0; i < f->n_jobs; i++) {
        fn_free(f->jobs[i].ids);
    }
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->mutex);
    fn_free(f->dir);
    fn_free(f);
}

uint64_t fn_cache_files_limit(const fn_cache_files *f) {
    return f->max_bytes;
}

/* ---- what is there ---- */

static int64_t nanoseconds(const struct stat *info) {
    return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

/* A file that cannot be read by this engine has our name but not our content: it goes. */
static fn_status see(const fn_cache_files *f, const char *path, fn_cache_file_seen seen, void *ud,
                     fn_error *err) {
    struct stat info;
    fn_ids ids = {0};
    if (stat(path, &info) != 0) {
        return FN_OK;
    }
    fn_status status = fn_state_file_ids(f->engine, path, &ids, NULL);
    if (status == FN_E_NOMEM) {
        return fn_fail_nomem(err, path, 0);
    }
    if (status != FN_OK || ids.count == 0) {
        (void)unlink(path);
        status = FN_OK;
    } else {
        status = seen(ud, ids.items, ids.count, (uint64_t)info.st_size, nanoseconds(&info), err);
    }
    fn_ids_free(&ids);
    return status;
}

fn_status fn_cache_files_scan(fn_cache_files *f, fn_cache_file_seen seen, void *ud, fn_error *err) {
    fn_status status = FN_OK;
    const struct dirent *entry = NULL;
    DIR *dir = opendir(f->dir);
    if (dir == NULL) {
        return fn_fail(err, FN_E_IO, "%s: cannot list: %s", f->dir, strerror(errno));
    }
    while (status == FN_OK && (entry = readdir(dir)) != NULL) {
        if (!is_ours(f, entry->d_name)) {
            continue;
        }
        char *path = fn_path_join(f->dir, entry->d_name);
        if (path == NULL) {
            status = fn_fail_nomem(err, f->dir, 0);
        } else if (entry->d_name[NAME_LENGTH] == '\0') {
            status = see(f, path, seen, ud, err);
        } else if (is_left_behind(entry->d_name)) {
            (void)unlink(path);
        }
        fn_free(path);
    }
    (void)closedir(dir);
    return status;
}

/* ---- use ---- */

fn_status fn_cache_files_write(fn_cache_files *f, const int32_t *ids, const fn_state *state,
                               fn_error *err) {
    job j = {.n = fn_state_length(state)};
    j.ids = fn_alloc(j.n, sizeof *j.ids);
    if (j.ids == NULL) {
        return fn_fail_nomem(err, "a state to write", j.n * sizeof *j.ids);
    }
    memcpy(j.ids, ids, j.n * sizeof *j.ids);
    fn_status status = fn_state_clone(state, &j.state, err);
    if (status != FN_OK) {
        fn_free(j.ids);
        return status;
    }
    pthread_mutex_lock(&f->mutex);
    bool room = f->n_jobs < QUEUE;
    if (room) {
        f->jobs[f->n_jobs++] = j;
        pthread_cond_broadcast(&f->wake);
    }
    pthread_mutex_unlock(&f->mutex);
    if (!room) { /* the disk is slower than the conversations: this one is not written */
        fn_state_destroy(j.state);
        fn_free(j.ids);
    }
    return FN_OK;
}

bool fn_cache_files_fetch(fn_cache_files *f, const int32_t *ids, size_t n) {
    fetch *item = fn_alloc(1, sizeof *item + n * sizeof *ids);
    if (item == NULL) {
        return false;
    }
    *item = (fetch){.n = n};
    memcpy(item->ids, ids, n * sizeof *ids);
    pthread_mutex_lock(&f->mutex);
    append(&f->asked, item);
    pthread_cond_broadcast(&f->wake);
    pthread_mutex_unlock(&f->mutex);
    return true;
}

void fn_cache_files_on_fetched(fn_cache_files *f, void (*tell)(void *ud), void *ud) {
    f->on_fetched = tell;
    f->on_fetched_ud = ud;
}

/* Takes out what the writer is done with. */
static size_t take_written(fn_cache_files *f, job out[QUEUE]) {
    size_t n = f->written;
    memcpy(out, f->jobs, n * sizeof *out);
    memmove(f->jobs, f->jobs + n, (f->n_jobs - n) * sizeof *out);
    f->n_jobs -= n;
    f->written = 0;
    return n;
}

void fn_cache_files_collect(fn_cache_files *f, fn_cache_file_seen seen,
                            fn_cache_file_fetched fetched, void *ud) {
    job done[QUEUE];
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&f->mutex);
    size_t n = take_written(f, done);
    fetch *fetches = f->fetched;
    f->fetched = NULL;
    pthread_mutex_unlock(&f->mutex);
    fn_status status = FN_OK;
    for (size_t i = 0; i < n; i++) {
        if (done[i].bytes > 0 && status == FN_OK) {
            status = seen(ud, done[i].ids, done[i].n, done[i].bytes,
                          (int64_t)now.tv_sec * 1000000000 + now.tv_nsec, NULL);
        }
        fn_free(done[i].ids);
    }
    for (fetch *item = fetches; item != NULL; item = item->next) {
        fetched(ud, item->ids, item->n, item->state);
        item->state = NULL;
    }
    free_fetches(fetches);
}

void fn_cache_files_remove(fn_cache_files *f, const int32_t *ids, size_t n) {
    char *path = path_of(f, ids, n);
    if (path != NULL) {
        (void)unlink(path);
    }
    fn_free(path);
}
