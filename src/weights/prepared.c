#include "weights/prepared.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"

#define CONFIG_NAME "config.json"
#define MAX_MANIFEST_BYTES ((size_t)64 << 20)
#define PIECE_BYTES ((size_t)4 << 20)

enum { DIGEST_CHARS = 16, TAIL_CHARS = DIGEST_CHARS + 3 }; /* DIGEST"}\n */

const char *fn_prepared_ngram_word(fn_prepared_ngram ngram) {
    static const char *const words[] = {
#define PREPARED_WORD(name, word) word,
        FN_PREPARED_NGRAM_MAP(PREPARED_WORD)
#undef PREPARED_WORD
    };
    return words[ngram];
}

fn_prepared_ngram fn_prepared_ngram_parse(const char *word) {
    int i = 0;
    while (i < FN_PREPARED_NGRAMS &&
           strcmp(word, fn_prepared_ngram_word((fn_prepared_ngram)i)) != 0) {
        i++;
    }
    return (fn_prepared_ngram)i;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* What a manifest says where nothing is expected to be wrong: it is checked by its digest, and written by us. */
typedef struct reader {
    const char *dir;
    fn_error *err;
    fn_status status;
} reader;

static void fail(reader *r, const char *key, const char *expected) {
    if (r->status == FN_OK) {
        r->status = fn_fail(r->err, FN_E_MODEL, "%.600s/" FN_PREPARED_MANIFEST ": %s: expected %s",
                            r->dir, key, expected);
    }
}

static const char *read_text(reader *r, const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || text[0] == '\0') {
        fail(r, key, "a text");
        return "";
    }
    return text;
}

static uint64_t read_count(reader *r, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        fail(r, key, "a number from 0");
        return 0;
    }
    return (uint64_t)json_integer_value(value);
}

/* 16 hexadecimal digits in lower case. */
static bool parse_digest(const char *text, uint64_t *out) {
    *out = 0;
    for (size_t i = 0; i < DIGEST_CHARS; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = text[i] != '\0' ? strchr(digits, text[i]) : NULL;
        if (digit == NULL) {
            return false;
        }
        *out = *out << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

static uint64_t read_digest(reader *r, const json_t *object, const char *key) {
    uint64_t digest = 0;
    const char *text = read_text(r, object, key);
    if (strlen(text) != DIGEST_CHARS || !parse_digest(text, &digest)) {
        fail(r, key, "16 hexadecimal digits");
    }
    return digest;
}

static void read_settings(reader *r, const json_t *object, fn_prepared *p) {
    uint64_t expert = read_count(r, object, "expert_bits");
    uint64_t dense = read_count(r, object, "dense_bits");
    uint64_t group = read_count(r, object, "group_size");
    p->ngram = fn_prepared_ngram_parse(read_text(r, object, "ngram"));
    if (expert > 32 || dense > 32 || group > FN_GROUP_DEFAULT || p->ngram == FN_PREPARED_NGRAMS) {
        fail(r, "settings", "bits, a group size and a kind of n-gram table that exist");
        return;
    }
    p->settings = (fn_weight_settings){
        .expert_bits = (int)expert, .dense_bits = (int)dense, .group = (size_t)group};
    if (r->status == FN_OK && fn_weight_settings_check(&p->settings, NULL) != FN_OK) {
        fail(r, "settings", "bits and a group size that exist");
    }
}

static void read_files(reader *r, const json_t *list, fn_prepared *p) {
    p->files = fn_alloc_zero(json_array_size(list), sizeof *p->files);
    if (p->files == NULL) {
        r->status = fn_fail_nomem(r->err, r->dir, json_array_size(list) * sizeof *p->files);
        return;
    }
    if (!json_is_array(list)) {
        fail(r, "files", "a list");
    }
    for (size_t i = 0; i < json_array_size(list) && r->status == FN_OK; i++) {
        const json_t *entry = json_array_get(list, i);
        fn_prepared_file *file = &p->files[p->n_files++];
        file->name = read_text(r, entry, "name");
        file->bytes = read_count(r, entry, "bytes");
        file->data = read_digest(r, entry, "data");
        file->tensors = json_object_get(entry, "header") != NULL;
        file->header = file->tensors ? read_digest(r, entry, "header") : 0;
        if (strchr(file->name, '/') != NULL || file->name[0] == '.') {
            fail(r, "name", "a file's name without folders");
        }
    }
}

static void read_links(reader *r, const json_t *list, fn_prepared *p) {
    size_t n = json_array_size(list);
    p->links = fn_alloc_zero(n, sizeof *p->links);
    p->link_bytes = fn_alloc_zero(n, sizeof *p->link_bytes);
    p->link_headers = fn_alloc_zero(n, sizeof *p->link_headers);
    if (p->links == NULL || p->link_bytes == NULL || p->link_headers == NULL) {
        r->status = fn_fail_nomem(r->err, r->dir, n * sizeof *p->links);
        return;
    }
    if (!json_is_array(list)) {
        fail(r, "links", "a list");
    }
    for (size_t i = 0; i < n && r->status == FN_OK; i++) {
        const json_t *entry = json_array_get(list, i);
        p->links[i].path = read_text(r, entry, "path");
        p->links[i].prefix = read_text(r, entry, "prefix");
        p->link_bytes[i] = read_count(r, entry, "bytes");
        p->link_headers[i] = read_digest(r, entry, "header");
        p->n_links++;
    }
}

static void read_manifest(reader *r, fn_prepared *p) {
    const char *format = read_text(r, p->root, "format");
    if (r->status == FN_OK && strcmp(format, FN_PREPARED_FORMAT) != 0) {
        fail(r, "format", FN_PREPARED_FORMAT);
    }
    uint64_t version = read_count(r, p->root, "version");
    if (r->status == FN_OK && version != FN_PREPARED_VERSION) {
        r->status = fn_fail(r->err, FN_E_MODEL,
                            "%.600s/" FN_PREPARED_MANIFEST
                            ": version: found %llu, expected %d; prepare the checkpoint again "
                            "with this program",
                            r->dir, (unsigned long long)version, FN_PREPARED_VERSION);
    }
    if (r->status == FN_OK) {
        p->source = read_digest(r, p->root, "source");
        read_settings(r, json_object_get(p->root, "settings"), p);
    }
    if (r->status == FN_OK) {
        read_files(r, json_object_get(p->root, "files"), p);
    }
    if (r->status == FN_OK) {
        read_links(r, json_object_get(p->root, "links"), p);
    }
}

fn_status fn_prepared_parse(const char *text, size_t n, const char *dir, fn_prepared **out,
                            fn_error *err) {
    reader r = {.dir = dir, .err = err, .status = FN_OK};
    uint64_t stated = 0;
    *out = NULL;
    bool whole = n > TAIL_CHARS && memcmp(text + n - 3, "\"}\n", 3) == 0 &&
                 parse_digest(text + n - TAIL_CHARS, &stated);
    if (!whole || stated != fn_hash_bytes(FN_HASH_START, text, n - TAIL_CHARS)) {
        return fn_fail(err, FN_E_MODEL,
                       "%.600s/" FN_PREPARED_MANIFEST
                       ": damaged, its digest does not fit; prepare the checkpoint again",
                       dir);
    }
    fn_prepared *p = fn_alloc_zero(1, sizeof *p);
    char *copy = fn_strndup(dir, strlen(dir));
    if (p == NULL || copy == NULL) {
        fn_free(p);
        fn_free(copy);
        return fn_fail_nomem(err, FN_PREPARED_MANIFEST, sizeof *p);
    }
    p->dir = copy;
    p->digest = stated;
    r.status = fn_json_parse(text, n, FN_PREPARED_MANIFEST, &p->root, err);
    if (r.status == FN_OK) {
        read_manifest(&r, p);
    }
    if (r.status != FN_OK) {
        fn_prepared_free(p);
        return r.status;
    }
    *out = p;
    return FN_OK;
}

fn_status fn_prepared_read(const char *dir, fn_prepared **out, fn_error *err) {
    char *path = fn_path_join(dir, FN_PREPARED_MANIFEST);
    char *unfinished = fn_path_join(dir, FN_PREPARED_UNFINISHED);
    char *text = NULL;
    size_t n = 0;
    fn_status status = FN_OK;
    *out = NULL;
    if (path == NULL || unfinished == NULL) {
        status = fn_fail_nomem(err, FN_PREPARED_MANIFEST, strlen(dir));
    } else if (fn_file_exists(path)) {
        status = fn_file_read_all(path, MAX_MANIFEST_BYTES, &text, &n, err);
        status = status == FN_OK ? fn_prepared_parse(text, n, dir, out, err) : status;
    } else if (fn_file_exists(unfinished)) {
        status = fn_fail(err, FN_E_MODEL,
                         "%.600s: not finished: give `flashnext quantize` the same options again, "
                         "and it goes on where it was stopped",
                         dir);
    }
    fn_free(text);
    fn_free(unfinished);
    fn_free(path);
    return status;
}

void fn_prepared_free(fn_prepared *p) {
    if (p == NULL) {
        return;
    }
    fn_free(p->files);
    fn_free(p->links);
    fn_free(p->link_bytes);
    fn_free(p->link_headers);
    json_decref(p->root);
    fn_free(p->dir);
    fn_free(p);
}

/* ---- checking -------------------------------------------------------------------------------- */

static fn_status check_file(const char *path, uint64_t found_bytes, uint64_t bytes,
                            uint64_t found_header, uint64_t header, fn_error *err) {
    if (found_bytes != bytes) {
        return fn_fail(err, FN_E_MODEL, "%.400s: found %llu bytes, expected %llu by the manifest",
                       path, (unsigned long long)found_bytes, (unsigned long long)bytes);
    }
    if (found_header != header) {
        return fn_fail(err, FN_E_MODEL,
                       "%.400s: the header is not the one that was written (damaged or replaced)",
                       path);
    }
    return FN_OK;
}

static size_t find_file(const fn_checkpoint *c, const char *name) {
    size_t f = 0;
    while (f < fn_checkpoint_files(c) && strcmp(fn_checkpoint_file_name(c, f), name) != 0) {
        f++;
    }
    return f;
}

fn_status fn_prepared_check(const fn_prepared *p, const fn_checkpoint *c, fn_error *err) {
    size_t own = fn_checkpoint_files(c) - p->n_links;
    size_t listed = 0;
    for (size_t i = 0; i < p->n_files; i++) {
        const fn_prepared_file *file = &p->files[i];
        if (!file->tensors) {
            continue;
        }
        size_t f = find_file(c, file->name);
        if (f >= own) {
            return fn_fail(err, FN_E_MODEL, "%.600s/%.200s: missing, the manifest lists it", p->dir,
                           file->name);
        }
        fn_status status =
            check_file(fn_checkpoint_file_path(c, f), fn_checkpoint_file_bytes(c, f), file->bytes,
                       fn_checkpoint_header_digest(c, f), file->header, err);
        if (status != FN_OK) {
            return status;
        }
        listed++;
    }
    if (listed < own && p->ngram != FN_PREPARED_NGRAM_OMIT) {
        return fn_fail(err, FN_E_MODEL,
                       "%.600s: found %zu safetensors files, expected the %zu that the manifest "
                       "lists",
                       p->dir, own, listed);
    }
    for (size_t i = 0; i < p->n_links; i++) {
        fn_status status =
            check_file(p->links[i].path, fn_checkpoint_file_bytes(c, own + i), p->link_bytes[i],
                       fn_checkpoint_header_digest(c, own + i), p->link_headers[i], err);
        if (status != FN_OK) {
            return status;
        }
    }
    return FN_OK;
}

/* "4", or "as stored". */
static const char *bits_text(int bits, char *out, size_t room) {
    (void)snprintf(out, room, bits > 0 ? "%d" : "as stored", bits);
    return out;
}

static fn_status check_bits(const fn_prepared *p, const char *what, int asked, int prepared,
                            fn_error *err) {
    char text[16];
    if (asked == 0 || asked == prepared) {
        return FN_OK;
    }
    return fn_fail(err, FN_E_USAGE,
                   "%s bits: found %d, but %.600s was prepared with %s; leave the option out, or "
                   "prepare the checkpoint again",
                   what, asked, p->dir, bits_text(prepared, text, sizeof text));
}

fn_status fn_prepared_agrees(const fn_prepared *p, const fn_weight_settings *settings,
                             fn_error *err) {
    fn_status status = check_bits(p, "expert", settings->expert_bits, p->settings.expert_bits, err);
    if (status == FN_OK) {
        status = check_bits(p, "dense", settings->dense_bits, p->settings.dense_bits, err);
    }
    if (status == FN_OK && settings->group != 0 && settings->group != p->settings.group) {
        status = fn_fail(err, FN_E_USAGE, "group size: found %zu, but %.600s was prepared with %zu",
                         settings->group, p->dir, p->settings.group);
    }
    return status;
}

/* ---- data ------------------------------------------------------------------------------------ */

typedef struct checker {
    bool (*progress)(void *ud, uint64_t done, uint64_t total);
    void *ud;
    uint64_t done, total;
    uint8_t *piece; /* [PIECE_BYTES] */
} checker;

/* Where the bytes that `data` is the digest of begin. */
static fn_status data_start(int fd, const char *path, const fn_prepared_file *file, uint64_t *out,
                            fn_error *err) {
    uint8_t raw[8] = {0};
    uint64_t n = 0;
    fn_status status = file->tensors ? fn_file_read_at(fd, path, 0, raw, sizeof raw, err) : FN_OK;
    for (size_t i = sizeof raw; i-- > 0;) {
        n = n << 8 | raw[i];
    }
    *out = file->tensors ? n + sizeof raw : 0;
    return status;
}

static fn_status digest_file(checker *k, int fd, const char *path, const fn_prepared_file *file,
                             uint64_t *digest, fn_error *err) {
    fn_hash_stream stream;
    uint64_t at = 0;
    fn_status status = data_start(fd, path, file, &at, err);
    fn_hash_stream_init(&stream);
    while (status == FN_OK && at < file->bytes) {
        size_t n = file->bytes - at < PIECE_BYTES ? (size_t)(file->bytes - at) : PIECE_BYTES;
        status = fn_file_read_at(fd, path, at, k->piece, n, err);
        if (status == FN_OK) {
            fn_hash_stream_add(&stream, k->piece, n);
            at += n;
            k->done += n;
        }
        if (status == FN_OK && k->progress != NULL && !k->progress(k->ud, k->done, k->total)) {
            status = fn_fail(err, FN_E_CANCELLED, "checking was cancelled");
        }
    }
    *digest = fn_hash_stream_end(&stream);
    return status;
}

static fn_status fail_edited(const char *path, const char *advice, fn_error *err) {
    return fn_fail(err, FN_E_MODEL, "%.600s: changed since it was written with this directory%s",
                   path, advice);
}

fn_status fn_prepared_check_config(const fn_prepared *p, fn_error *err) {
    size_t i = 0;
    char *text = NULL;
    size_t n = 0;
    fn_hash_stream stream;
    while (i < p->n_files && strcmp(p->files[i].name, CONFIG_NAME) != 0) {
        i++;
    }
    char *path = i < p->n_files ? fn_path_join(p->dir, CONFIG_NAME) : NULL;
    if (path == NULL) {
        return i < p->n_files ? fn_fail_nomem(err, CONFIG_NAME, strlen(p->dir)) : FN_OK;
    }
    fn_status status = fn_file_read_all(path, MAX_MANIFEST_BYTES, &text, &n, err);
    fn_hash_stream_init(&stream);
    fn_hash_stream_add(&stream, text, n);
    if (status == FN_OK && fn_hash_stream_end(&stream) != p->files[i].data) {
        status =
            fail_edited(path, "; `flashnext quantize` with the same options writes it again", err);
    }
    fn_free(text);
    fn_free(path);
    return status;
}

static fn_status check_data(checker *k, const char *dir, const fn_prepared_file *file,
                            fn_error *err) {
    int fd = -1;
    uint64_t bytes = 0;
    uint64_t digest = 0;
    char *path = fn_path_join(dir, file->name);
    if (path == NULL) {
        return fn_fail_nomem(err, file->name, strlen(dir));
    }
    fn_status status = fn_file_open(path, &fd, &bytes, err);
    if (status == FN_OK && bytes != file->bytes) {
        status = file->tensors ? check_file(path, bytes, file->bytes, 0, 0, err)
                               : fail_edited(path, "", err);
    }
    status = status == FN_OK ? digest_file(k, fd, path, file, &digest, err) : status;
    if (status == FN_OK && digest != file->data && !file->tensors) {
        status = fail_edited(path, "", err);
    } else if (status == FN_OK && digest != file->data) {
        status = fn_fail(err, FN_E_MODEL,
                         "%.400s: damaged: its data are not what was written (digest %016" PRIx64
                         ", expected %016" PRIx64 ")",
                         path, digest, file->data);
    }
    fn_file_close(fd);
    fn_free(path);
    return status;
}

fn_status fn_prepared_check_data(const fn_prepared *p,
                                 bool (*progress)(void *ud, uint64_t done, uint64_t total),
                                 void *ud, fn_error *err) {
    checker k = {.progress = progress, .ud = ud, .piece = fn_alloc(PIECE_BYTES, 1)};
    fn_status status = k.piece != NULL ? FN_OK : fn_fail_nomem(err, p->dir, PIECE_BYTES);
    for (size_t i = 0; i < p->n_files; i++) {
        k.total += p->files[i].bytes;
    }
    for (size_t i = 0; i < p->n_files && status == FN_OK; i++) {
        status = check_data(&k, p->dir, &p->files[i], err);
    }
    fn_free(k.piece);
    return status;
}
