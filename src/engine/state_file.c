/* A state in a file: header, ids, every valid byte of the state, digest. The header says what the state
 * depends on; whatever differs is named and refused. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "engine/state_file.h"

#define MAGIC "FNSTATE"
#define VERSION 1

typedef struct header {
    char magic[8];
    uint32_t version;
    uint32_t reserved;
    uint64_t model;  /* digest of the checkpoint's tensors */
    uint64_t layout; /* digest of the state's parts */
    char precision[16];
    char kernels[16];
    char weights[48]; /* how they are quantised */
    uint64_t n_ids;
} header;

typedef struct file_stream {
    FILE *file;
    uint64_t digest;
} file_stream;

static header make_header(const fn_engine *e, size_t n_ids) {
    header h = {.magic = MAGIC, .version = VERSION, .model = e->fingerprint_model, .n_ids = n_ids};
    h.layout = FN_HASH_START;
    for (size_t i = 0; i < FN_PARTS; i++) {
        const fn_part_layout *p = &e->layout.part[i];
        uint64_t numbers[5] = {p->storage, p->layers, p->heads, p->values, p->value_bytes};
        h.layout = fn_hash_bytes(h.layout, numbers, p->layers > 0 ? sizeof numbers : 0);
    }
    (void)snprintf(h.precision, sizeof h.precision, "%s", fn_precision_name(e->precision));
    (void)snprintf(h.kernels, sizeof h.kernels, "%s", e->kernels->name);
    (void)snprintf(h.weights, sizeof h.weights, "experts %d, dense %d, group %zu",
                   e->made_with.expert_bits, e->made_with.dense_bits,
                   e->made_with.group > 0 ? e->made_with.group : FN_GROUP_DEFAULT);
    return h;
}

uint64_t fn_state_file_key(const fn_engine *e) {
    header h = make_header(e, 0);
    return fn_hash_bytes(FN_HASH_START, &h, sizeof h);
}

/* ---- writing ---- */

typedef struct sink {
    fn_new_file file;
    uint64_t digest;
} sink;

static fn_status put(void *ud, const void *bytes, size_t n, fn_error *err) {
    sink *f = ud;
    f->digest = fn_hash_bytes(f->digest, bytes, n);
    return fn_new_file_write(&f->file, bytes, n, err);
}

static fn_status put_all(sink *f, const fn_engine *e, const int32_t *ids, const fn_state *state,
                         fn_error *err) {
    size_t n = fn_state_length(state);
    header h = make_header(e, n);
    fn_status status = put(f, &h, sizeof h, err);
    status = status == FN_OK ? put(f, ids, n * sizeof *ids, err) : status;
    status = status == FN_OK ? fn_state_write(state, put, f, err) : status;
    uint64_t digest = f->digest;
    return status == FN_OK ? put(f, &digest, sizeof digest, err) : status;
}

fn_status fn_state_file_write(const fn_engine *e, const char *path, const int32_t *ids,
                              const fn_state *state, fn_error *err) {
    sink f = {.digest = FN_HASH_START};
    fn_status status = fn_new_file_open(path, &f.file, err);
    if (status != FN_OK) {
        return status;
    }
    status = put_all(&f, e, ids, state, err);
    if (status != FN_OK) {
        fn_new_file_abandon(&f.file);
        return status;
    }
    return fn_new_file_finish(&f.file, err);
}

fn_status fn_session_save(const fn_session *session, const char *path, fn_error *err) {
    return fn_state_file_write(session->engine, path, session->ids, session->state, err);
}

/* ---- reading ---- */

static fn_status get(void *ud, void *bytes, size_t n, fn_error *err) {
    file_stream *f = ud;
    if (fread(bytes, 1, n, f->file) != n) {
        return fn_fail(err, FN_E_MODEL, "the saved session ends early");
    }
    f->digest = fn_hash_bytes(f->digest, bytes, n);
    return FN_OK;
}

static fn_status refuse(const char *what, const char *found, const char *expected, fn_error *err) {
    return fn_fail(err, FN_E_MODEL, "saved with %s %s, but this engine has %s", what, found,
                   expected);
}

/* Printable, ended, and zeros behind: what make_header writes. */
static bool is_text(const char *field, size_t size) {
    size_t n = strnlen(field, size);
    for (size_t i = 0; i < size; i++) {
        bool printable = field[i] >= ' ' && field[i] <= '~';
        if (i < n ? !printable : field[i] != 0) {
            return false;
        }
    }
    return n < size;
}

static fn_status check_header(const fn_engine *e, const header *h, fn_error *err) {
    header ours = make_header(e, 0);
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0) {
        return fn_fail(err, FN_E_MODEL, "not a saved session");
    }
    if (h->version != VERSION) {
        return fn_fail(err, FN_E_MODEL, "saved session of version %u, expected %d", h->version,
                       VERSION);
    }
    if (!is_text(h->precision, sizeof h->precision) || !is_text(h->kernels, sizeof h->kernels) ||
        !is_text(h->weights, sizeof h->weights)) {
        return fn_fail(err, FN_E_MODEL, "the saved session is damaged (in its header)");
    }
    if (h->model != ours.model) {
        return fn_fail(err, FN_E_MODEL, "saved with another checkpoint");
    }
    if (memcmp(h->precision, ours.precision, sizeof h->precision) != 0) {
        return refuse("precision", h->precision, ours.precision, err);
    }
    if (memcmp(h->kernels, ours.kernels, sizeof h->kernels) != 0) {
        return refuse("instruction set", h->kernels, ours.kernels, err);
    }
    if (memcmp(h->weights, ours.weights, sizeof h->weights) != 0) {
        return refuse("weights of bits", h->weights, ours.weights, err);
    }
    if (h->layout != ours.layout) {
        return fn_fail(err, FN_E_MODEL, "saved with other parts of state");
    }
    if (h->n_ids > e->context) {
        return fn_fail(err, FN_E_RANGE, "%llu tokens do not fit a context of %zu",
                       (unsigned long long)h->n_ids, e->context);
    }
    return FN_OK;
}

static fn_status get_all(file_stream *f, const fn_engine *e, int32_t *ids, fn_state *state,
                         fn_error *err) {
    header h;
    fn_status status = get(f, &h, sizeof h, err);
    status = status == FN_OK ? check_header(e, &h, err) : status;
    status = status == FN_OK ? get(f, ids, (size_t)h.n_ids * sizeof *ids, err) : status;
    status = status == FN_OK ? fn_state_read(state, get, f, err) : status;
    uint64_t expected = f->digest;
    uint64_t found = 0;
    status = status == FN_OK ? get(f, &found, sizeof found, err) : status;
    if (status == FN_OK && found != expected) {
        return fn_fail(err, FN_E_MODEL, "the saved session is damaged (its digest differs)");
    }
    if (status == FN_OK && fn_state_length(state) != h.n_ids) {
        return fn_fail(err, FN_E_MODEL, "the saved session is damaged (%llu ids, %zu rows)",
                       (unsigned long long)h.n_ids, fn_state_length(state));
    }
    if (status == FN_OK && fgetc(f->file) != EOF) {
        return fn_fail(err, FN_E_MODEL, "bytes follow the saved session");
    }
    return status;
}

static fn_status open_stream(const char *path, file_stream *f, fn_error *err) {
    *f = (file_stream){.file = fopen(path, "rb"), .digest = FN_HASH_START};
    return f->file != NULL ? FN_OK
                           : fn_fail(err, FN_E_IO, "%s: cannot open: %s", path, strerror(errno));
}

fn_status fn_state_file_read(const fn_engine *e, const char *path, int32_t *ids, fn_state *state,
                             fn_error *err) {
    file_stream f;
    fn_status status = open_stream(path, &f, err);
    if (status != FN_OK) {
        return status;
    }
    status = get_all(&f, e, ids, state, err);
    (void)fclose(f.file);
    if (status != FN_OK) {
        fn_error_prefix(err, "%s", path);
    }
    return status;
}

fn_status fn_state_file_ids(const fn_engine *e, const char *path, fn_ids *out, fn_error *err) {
    file_stream f;
    header h;
    *out = (fn_ids){0};
    fn_status status = open_stream(path, &f, err);
    if (status != FN_OK) {
        return status;
    }
    status = get(&f, &h, sizeof h, err);
    status = status == FN_OK ? check_header(e, &h, err) : status;
    if (status == FN_OK) {
        out->count = (size_t)h.n_ids;
        out->capacity = out->count;
        out->items = fn_alloc(out->count, sizeof *out->items);
        status = out->items != NULL ? get(&f, out->items, out->count * sizeof *out->items, err)
                                    : fn_fail_nomem(err, path, out->count * sizeof *out->items);
    }
    (void)fclose(f.file);
    if (status != FN_OK) {
        fn_ids_free(out);
        fn_error_prefix(err, "%s", path);
    }
    return status;
}

fn_status fn_session_load(fn_engine *engine, const char *path, fn_session **out, fn_error *err) {
    fn_session *s = NULL;
    *out = NULL;
    fn_status status = fn_session_create(engine, &s, err);
    status = status == FN_OK ? fn_state_file_read(engine, path, s->ids, s->state, err) : status;
    status = status == FN_OK ? fn_session_mark(s, err) : status;
    if (status != FN_OK) {
        fn_session_destroy(s);
        return status;
    }
    *out = s;
    return FN_OK;
}
