/* weights/prepare_run.c - the directory of a prepared checkpoint: what is there, what is missing, one file after
 * the other, the manifest last.
 *
 * While it is not finished the directory holds FN_PREPARED_UNFINISHED, which says what it will become. The writing
 * process keeps the directory locked from before it looks until the end. */
#define _XOPEN_SOURCE 700 /* realpath; NOLINT(bugprone-reserved-identifier) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "weights/prepare.h"

#define PARTIAL_MARK ".partial-" /* in the names of base/new_file.h */
#define MAX_TEXT_BYTES ((size_t)1 << 30)

/* Files that go along as they are, where the source has them. */
static const char *const companions[] = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "LICENSE",
};

#define N_COMPANIONS (sizeof companions / sizeof companions[0])

typedef struct run {
    fn_prepare_plan *plan;
    const char *dir;
    char *identity; /* what FN_PREPARED_UNFINISHED holds */
    json_t *manifest_files;
    int lock;
    const fn_prepare_watch *watch; /* NULL while nothing is written */
    uint64_t done;                 /* bytes of files and of the file now written */
    fn_error *err;
} run;

/* ---- manifest -------------------------------------------------------------------------------- */

static json_t *hex(uint64_t digest) {
    return json_sprintf("%016" PRIx64, digest);
}

/* The keys that settings and source decide. */
static json_t *identity_object(const fn_prepare_plan *p) {
    return json_pack("{s:s, s:i, s:o, s:{s:i, s:i, s:i, s:s}}", "format", FN_PREPARED_FORMAT,
                     "version", FN_PREPARED_VERSION, "source", hex(p->digest), "settings",
                     "expert_bits", p->settings.expert_bits, "dense_bits", p->settings.dense_bits,
                     "group_size", (int)p->settings.group, "ngram",
                     fn_prepared_ngram_word(p->ngram));
}

static fn_status make_identity(run *r) {
    json_t *object = identity_object(r->plan);
    size_t n = object != NULL ? json_dumpb(object, NULL, 0, JSON_COMPACT) : 0;
    r->identity = n > 0 ? fn_alloc_zero(n + 2, 1) : NULL;
    if (r->identity != NULL) {
        (void)json_dumpb(object, r->identity, n, JSON_COMPACT);
        r->identity[n] = '\n';
    }
    json_decref(object);
    return r->identity != NULL ? FN_OK : fn_fail_nomem(r->err, r->dir, n);
}

/* Files that hold a table's pieces, each once a table. */
static json_t *links(const run *r, fn_status *status) {
    const fn_model_files *source = r->plan->source;
    const fn_checkpoint *c = source->checkpoint;
    json_t *list = json_array();
    for (size_t p = 0; p < source->shape.n_ple && r->plan->ngram == FN_PREPARED_NGRAM_LINK; p++) {
        const fn_bound_ple *ple = source->bound->layers[source->shape.ple_layer[p]].ple;
        const char *name = ple->pieces[0]->name;
        const char *end = strstr(name, ".ngram_embedding.");
        size_t n = end != NULL ? (size_t)(end - name) + strlen(".ngram_embedding.") : strlen(name);
        for (size_t f = 0; f < fn_checkpoint_files(c); f++) {
            bool holds = false;
            for (size_t i = 0; i < ple->n_pieces; i++) {
                holds = holds || ple->pieces[i]->file == f;
            }
            holds = holds || (ple->table_scale != NULL && ple->table_scale->file == f);
            char *path = holds ? realpath(fn_checkpoint_file_path(c, f), NULL) : NULL;
            if (holds && path == NULL) {
                *status = fn_fail(r->err, FN_E_IO, "%s: cannot resolve: %s",
                                  fn_checkpoint_file_path(c, f), strerror(errno));
            }
            if (path != NULL) {
                (void)json_array_append_new(
                    list, json_pack("{s:s, s:s%, s:I, s:o}", "path", path, "prefix", name, n,
                                    "bytes", (json_int_t)fn_checkpoint_file_bytes(c, f), "header",
                                    hex(fn_checkpoint_header_digest(c, f))));
            }
            free(path);
        }
    }
    return list;
}

static fn_status write_bytes(const run *r, const char *name, const void *bytes, size_t n) {
    fn_new_file file = {0};
    char *path = fn_path_join(r->dir, name);
    if (path == NULL) {
        return fn_fail_nomem(r->err, name, strlen(r->dir));
    }
    fn_status status = fn_new_file_open(path, &file, r->err);
    if (status == FN_OK) {
        status = fn_new_file_write(&file, bytes, n, r->err);
        if (status == FN_OK) {
            status = fn_new_file_finish(&file, r->err);
        } else {
            fn_new_file_abandon(&file);
        }
    }
    fn_free(path);
    return status;
}

/* The text of the manifest: an object in one line, its digest last. */
static fn_status write_manifest(run *r) {
    enum { DIGEST_ROOM = 40 };
    static const char key[] = ",\"digest\":\"";
    fn_status status = FN_OK;
    json_t *object = identity_object(r->plan);
    bool good = json_object_set(object, "files", r->manifest_files) == 0;
    good = json_object_set_new(object, "links", links(r, &status)) == 0 && good;
    size_t n = good ? json_dumpb(object, NULL, 0, JSON_COMPACT) : 0;
    char *text = n > 0 ? fn_alloc(n + DIGEST_ROOM, 1) : NULL;
    if (text == NULL && status == FN_OK) {
        status = fn_fail_nomem(r->err, FN_PREPARED_MANIFEST, n);
    }
    if (status == FN_OK) {
        (void)json_dumpb(object, text, n, JSON_COMPACT);
        memcpy(text + n - 1, key, sizeof key - 1); /* over the closing brace */
        n += sizeof key - 2;
        uint64_t digest = fn_hash_bytes(FN_HASH_START, text, n);
        n += (size_t)snprintf(text + n, DIGEST_ROOM - sizeof key, "%016" PRIx64 "\"}\n", digest);
        status = write_bytes(r, FN_PREPARED_MANIFEST, text, n);
    }
    fn_free(text);
    json_decref(object);
    return status;
}

/* header is NULL for a file that holds no tensors. */
static fn_status list_file(run *r, const char *name, uint64_t bytes, const uint64_t *header,
                           uint64_t data) {
    json_t *entry = json_pack("{s:s, s:I}", "name", name, "bytes", (json_int_t)bytes);
    bool good = header == NULL || json_object_set_new(entry, "header", hex(*header)) == 0;
    good = json_object_set_new(entry, "data", hex(data)) == 0 && good;
    good = json_array_append_new(r->manifest_files, entry) == 0 && good;
    return good ? FN_OK : fn_fail_nomem(r->err, name, sizeof data);
}

/* ---- the directory --------------------------------------------------------------------------- */

static fn_status in_use(const run *r, const char *why) {
    return fn_fail(r->err, FN_E_USAGE, "%.400s: %s", r->dir, why);
}

/* Calls with each name but those of the directory itself; stops when told to. */
static fn_status each_name(const run *r, bool (*on_name)(const run *r, const char *name)) {
    DIR *dir = opendir(r->dir);
    if (dir == NULL) {
        return fn_fail(r->err, FN_E_IO, "%s: cannot read: %s", r->dir, strerror(errno));
    }
    bool more = true;
    for (const struct dirent *at = readdir(dir); at != NULL && more; at = readdir(dir)) {
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0) {
            more = on_name(r, at->d_name);
        }
    }
    (void)closedir(dir);
    return more ? FN_OK : FN_E_USAGE;
}

static bool is_partial(const run *r, const char *name) {
    (void)r;
    return strstr(name, PARTIAL_MARK) != NULL;
}

/* Left by a process that was killed; nobody else writes here while the lock is ours. */
static bool remove_partial(const run *r, const char *name) {
    if (is_partial(r, name)) {
        char *path = fn_path_join(r->dir, name);
        if (path != NULL) {
            (void)unlink(path);
        }
        fn_free(path);
    }
    return true;
}

/* Whether the text in the file begins with what we would write, but for its last `spare` bytes. */
static fn_status same_identity(const run *r, const char *name, size_t spare, bool *same) {
    char *path = fn_path_join(r->dir, name);
    char *text = NULL;
    size_t n = 0;
    size_t identity = strlen(r->identity) - spare;
    fn_status status = path != NULL ? fn_file_read_all(path, MAX_TEXT_BYTES, &text, &n, r->err)
                                    : fn_fail_nomem(r->err, name, strlen(r->dir));
    *same = status == FN_OK && n >= identity && memcmp(text, r->identity, identity) == 0;
    fn_free(text);
    fn_free(path);
    return status;
}

static bool has(const run *r, const char *name) {
    char *path = fn_path_join(r->dir, name);
    bool found = path != NULL && fn_file_exists(path);
    fn_free(path);
    return found;
}

typedef enum dir_state { DIR_NEW, DIR_PART, DIR_WHOLE } dir_state;

/* What the directory is to us, by which of the two files it has. */
static fn_status look_at(const run *r, bool whole, bool unfinished, dir_state *state) {
    bool same = false;
    *state = DIR_NEW;
    if (!fn_file_exists(r->dir)) {
        return FN_OK;
    }
    if (whole || unfinished) {
        /* The manifest goes on where the identity ends: with a comma for "}\n". */
        fn_status status = same_identity(r, whole ? FN_PREPARED_MANIFEST : FN_PREPARED_UNFINISHED,
                                         whole ? 2 : 0, &same);
        *state = whole ? DIR_WHOLE : DIR_PART;
        return status != FN_OK || same
                   ? status
                   : in_use(r, "holds a checkpoint prepared from another source or with other "
                               "options; remove it or give another directory");
    }
    fn_status status = each_name(r, is_partial);
    return status == FN_E_USAGE ? in_use(r, "is not empty; give a new directory") : status;
}

/* What the directory is to us; FN_E_USAGE when it is something else. Who looks without the lock may see another
 * process begin or finish between two steps: a refusal counts only if both files are as they were. */
static fn_status look(run *r, dir_state *state) {
    fn_error *err = r->err;
    fn_error refusal;
    fn_status status;
    bool whole;
    bool unfinished;
    do {
        refusal = (fn_error){0};
        r->err = &refusal;
        unfinished = has(r, FN_PREPARED_UNFINISHED);
        whole = has(r, FN_PREPARED_MANIFEST);
        status = look_at(r, whole, unfinished, state);
    } while (status != FN_OK && (has(r, FN_PREPARED_UNFINISHED) != unfinished ||
                                 has(r, FN_PREPARED_MANIFEST) != whole));
    r->err = err;
    return status == FN_OK ? FN_OK : fn_fail(err, status, "%s", refusal.text);
}

/* Makes the directory where there is none. */
static fn_status take_lock(run *r) {
    if (mkdir(r->dir, 0777) != 0 && errno != EEXIST) {
        return fn_fail(r->err, FN_E_IO, "%s: cannot create: %s", r->dir, strerror(errno));
    }
    r->lock = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->lock < 0) {
        return fn_fail(r->err, FN_E_IO, "%s: cannot open: %s", r->dir, strerror(errno));
    }
    if (flock(r->lock, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? in_use(r, "another process is writing there")
                   : fn_fail(r->err, FN_E_IO, "%s: cannot lock: %s", r->dir, strerror(errno));
    }
    return FN_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Whether the file is there, whole, with the header that we would write; *digest is what it says of its data. */
static fn_status is_written(const run *r, const fn_prepare_file *file, const char *header,
                            bool *written, char *digest) {
    size_t place = fn_prepare_digest_place();
    int fd = -1;
    uint64_t bytes = 0;
    char *path = fn_path_join(r->dir, file->name);
    char *found = fn_alloc((size_t)file->header_bytes, 1);
    fn_status status = FN_OK;
    *written = false;
    if (path == NULL || found == NULL) {
        status = fn_fail_nomem(r->err, file->name, (size_t)file->header_bytes);
    } else if (fn_file_exists(path)) {
        status = fn_file_open(path, &fd, &bytes, r->err);
        if (status == FN_OK && bytes == file->header_bytes + file->data_bytes) {
            status = fn_file_read_at(fd, path, 0, found, (size_t)file->header_bytes, r->err);
            memcpy(digest, found + place, 16);
            memset(found + place, '0', 16);
            *written = status == FN_OK && memcmp(found, header, (size_t)file->header_bytes) == 0;
        }
    }
    fn_file_close(fd);
    fn_free(found);
    fn_free(path);
    return status;
}

typedef struct sink {
    run *r;
    fn_new_file file;
    fn_hash_stream stream;
} sink;

static bool tell(void *ud, uint64_t done, uint64_t total) {
    const run *r = ((const sink *)ud)->r;
    (void)done;
    (void)total;
    return r->watch == NULL || r->watch->progress(r->watch->ud, r->done, r->plan->bytes);
}

static fn_status put(void *ud, const void *bytes, size_t n, fn_error *err) {
    sink *s = ud;
    fn_hash_stream_add(&s->stream, bytes, n);
    s->r->done += n;
    return fn_new_file_write(&s->file, bytes, n, err);
}

/* The header goes in last, over its place, when the digest of the data is known. */
static fn_status finish_header(sink *s, const fn_prepare_file *file, char *header) {
    char digest[24];
    (void)snprintf(digest, sizeof digest, "%016" PRIx64, fn_hash_stream_end(&s->stream));
    memcpy(header + fn_prepare_digest_place(), digest, 16);
    if (fseeko(s->file.file, 0, SEEK_SET) != 0) {
        return fn_fail(s->r->err, FN_E_IO, "%s: cannot seek: %s", s->file.path, strerror(errno));
    }
    return fn_new_file_write(&s->file, header, (size_t)file->header_bytes, s->r->err);
}

static fn_status write_file(run *r, const fn_prepare_file *file, char *header, fn_pool *pool) {
    sink s = {.r = r};
    fn_prepare_sink to = {.write = put, .progress = tell, .ud = &s};
    char *path = fn_path_join(r->dir, file->name);
    if (path == NULL) {
        return fn_fail_nomem(r->err, file->name, strlen(r->dir));
    }
    fn_hash_stream_init(&s.stream);
    fn_status status = fn_new_file_open(path, &s.file, r->err);
    fn_free(path);
    if (status != FN_OK) {
        return status;
    }
    status = fn_new_file_write(&s.file, header, (size_t)file->header_bytes, r->err);
    status = status == FN_OK ? fn_prepare_data(r->plan, file, pool, &to, r->err) : status;
    status = status == FN_OK ? finish_header(&s, file, header) : status;
    if (status == FN_OK) {
        return fn_new_file_finish(&s.file, r->err);
    }
    fn_new_file_abandon(&s.file);
    return status;
}

/* One file: kept or written, then listed. Without a pool only what is missing is summed in *missing. */
static fn_status do_file(run *r, fn_prepare_file *file, fn_pool *pool, uint64_t *missing) {
    char *header = NULL;
    size_t n = 0;
    bool written = false;
    char digest[24] = "";
    fn_status status = fn_prepare_header(r->plan, file, &header, &n, r->err);
    status = status == FN_OK ? is_written(r, file, header, &written, digest) : status;
    uint64_t whole = file->header_bytes + file->data_bytes;
    if (status == FN_OK && !written) {
        *missing += whole;
    }
    if (status == FN_OK && pool != NULL) {
        uint64_t before = r->done;
        if (written) {
            memcpy(header + fn_prepare_digest_place(), digest, 16);
        } else {
            status = write_file(r, file, header, pool);
        }
        r->done = before + whole;
        memcpy(digest, header + fn_prepare_digest_place(), 16);
        file->data_digest = strtoull(digest, NULL, 16);
        file->header_digest =
            fn_hash_bytes(FN_HASH_START, header + sizeof(uint64_t), n - sizeof(uint64_t));
        status = status == FN_OK
                     ? list_file(r, file->name, whole, &file->header_digest, file->data_digest)
                     : status;
    }
    fn_free(header);
    return status;
}

static fn_status copy_companion(run *r, const char *name) {
    char *from = fn_path_join(fn_checkpoint_dir(r->plan->source->checkpoint), name);
    char *text = NULL;
    size_t n = 0;
    fn_hash_stream stream;
    fn_status status = from != NULL ? FN_OK : fn_fail_nomem(r->err, name, strlen(name));
    if (status == FN_OK && fn_file_exists(from)) {
        status = fn_file_read_all(from, MAX_TEXT_BYTES, &text, &n, r->err);
        status = status == FN_OK ? write_bytes(r, name, text, n) : status;
        if (status == FN_OK) {
            fn_hash_stream_init(&stream);
            fn_hash_stream_add(&stream, text, n);
            status = list_file(r, name, n, NULL, fn_hash_stream_end(&stream));
        }
    }
    fn_free(text);
    fn_free(from);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static fn_status sum_missing(run *r, uint64_t *bytes) {
    fn_status status = FN_OK;
    *bytes = 0;
    for (size_t i = 0; i < r->plan->n_files && status == FN_OK; i++) {
        status = do_file(r, &r->plan->files[i], NULL, bytes);
    }
    return status;
}

static fn_status check_room(const run *r, uint64_t missing) {
    struct statvfs fs;
    if (statvfs(r->dir, &fs) != 0) {
        return FN_OK; /* the file system does not tell */
    }
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    return missing <= room ? FN_OK
                           : fn_fail(r->err, FN_E_IO,
                                     "%.400s: needs %.2f GB more, its file system has %.2f GB free",
                                     r->dir, (double)missing * 1e-9, (double)room * 1e-9);
}

/* Whether all that goes along is there, too. */
static fn_status has_companions(const run *r, bool *all) {
    fn_status status = FN_OK;
    *all = true;
    for (size_t i = 0; i < N_COMPANIONS && status == FN_OK; i++) {
        struct stat source;
        struct stat copy;
        char *from = fn_path_join(fn_checkpoint_dir(r->plan->source->checkpoint), companions[i]);
        char *to = fn_path_join(r->dir, companions[i]);
        if (from == NULL || to == NULL) {
            status = fn_fail_nomem(r->err, companions[i], strlen(r->dir));
        } else if (stat(from, &source) == 0) {
            *all = *all && stat(to, &copy) == 0 && copy.st_size == source.st_size;
        }
        fn_free(to);
        fn_free(from);
    }
    return status;
}

/* Whether a directory with a manifest lacks a file, or has one that was damaged where that shows without reading its
 * data. */
static fn_status lacks_something(run *r, bool *lacks) {
    uint64_t missing = 0;
    bool companions_there = false;
    fn_status status = sum_missing(r, &missing);
    status = status == FN_OK ? has_companions(r, &companions_there) : status;
    *lacks = missing > 0 || !companions_there;
    return status;
}

static fn_status begin(run *r, dir_state state) {
    fn_status status = FN_OK;
    uint64_t missing = 0;
    if (state == DIR_NEW) {
        status = write_bytes(r, FN_PREPARED_UNFINISHED, r->identity, strlen(r->identity));
    }
    status = status == FN_OK ? each_name(r, remove_partial) : status;
    status = status == FN_OK ? sum_missing(r, &missing) : status;
    return status == FN_OK ? check_room(r, missing) : status;
}

static void remove_unfinished(const run *r) {
    char *path = fn_path_join(r->dir, FN_PREPARED_UNFINISHED);
    if (path != NULL) {
        (void)unlink(path);
    }
    fn_free(path);
}

static fn_status write_all(run *r, fn_pool *pool) {
    fn_status status = FN_OK;
    uint64_t missing = 0;
    r->manifest_files = json_array();
    for (size_t i = 0; i < r->plan->n_files && status == FN_OK; i++) {
        status = do_file(r, &r->plan->files[i], pool, &missing);
    }
    for (size_t i = 0; i < N_COMPANIONS && status == FN_OK; i++) {
        status = copy_companion(r, companions[i]);
    }
    status = status == FN_OK ? write_manifest(r) : status;
    if (status == FN_OK) {
        remove_unfinished(r);
    }
    return status;
}

static void run_deinit(run *r) {
    json_decref(r->manifest_files);
    fn_free(r->identity);
    fn_file_close(r->lock);
}

fn_status fn_prepare_missing(const fn_prepare_plan *plan, const char *dir, uint64_t *bytes,
                             bool *resumes, fn_error *err) {
    fn_prepare_plan copy = *plan;
    run r = {.plan = &copy, .dir = dir, .lock = -1, .err = err};
    dir_state state = DIR_NEW;
    *bytes = plan->bytes;
    fn_status status = make_identity(&r);
    status = status == FN_OK ? look(&r, &state) : status;
    *resumes = state != DIR_NEW;
    if (status == FN_OK && state != DIR_NEW) {
        status = sum_missing(&r, bytes);
    }
    run_deinit(&r);
    return status;
}

fn_status fn_prepare_run(fn_prepare_plan *plan, const char *dir, fn_pool *pool,
                         const fn_prepare_watch *watch, fn_error *err) {
    run r = {.plan = plan, .dir = dir, .lock = -1, .watch = watch, .err = err};
    dir_state state = DIR_NEW;
    fn_status status = make_identity(&r);
    status = status == FN_OK ? take_lock(&r) : status;
    status = status == FN_OK ? look(&r, &state) : status;
    bool lacks = state != DIR_WHOLE;
    if (status == FN_OK && state == DIR_WHOLE) {
        status = lacks_something(&r, &lacks);
    }
    if (status == FN_OK && !lacks) {
        remove_unfinished(&r); /* killed between the two */
    } else if (status == FN_OK) {
        status = begin(&r, state);
        status = status == FN_OK ? write_all(&r, pool) : status;
    }
    run_deinit(&r);
    return status;
}
