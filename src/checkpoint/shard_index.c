#include "checkpoint/shard_index.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#define SUFFIX ".safetensors"
#define MAX_INDEX_BYTES ((size_t)256 << 20) /* 224,280 tensors: 25 MB */
enum { LISTED = 8 };                        /* names spelt out in a message */

static bool ends_with(const char *text, const char *suffix) {
    size_t n = strlen(text);
    size_t m = strlen(suffix);
    return n > m && strcmp(text + n - m, suffix) == 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_name(const void *key, const void *item) {
    return strcmp(key, *(char *const *)item);
}

static bool list_has(const fn_shard_list *list, const char *name) {
    return bsearch(name, list->names, list->n, sizeof *list->names, find_name) != NULL;
}

/* Names the first few of the files that are missing (sorted, each once). */
static fn_status fail_missing(const char *where, const fn_shard_list *missing, fn_error *err) {
    char text[480] = "";
    size_t used = 0;
    size_t listed = 0; /* whole names only */
    while (listed < missing->n && listed < LISTED &&
           used + strlen(missing->names[listed]) + 3 < sizeof text) {
        int n = snprintf(text + used, sizeof text - used, "%s%s", listed > 0 ? ", " : "",
                         missing->names[listed]);
        used += n > 0 ? (size_t)n : 0;
        listed++;
    }
    return fn_fail(err, FN_E_MODEL, "%.400s: %zu file%s missing (incomplete download?): %s%s",
                   where, missing->n, missing->n == 1 ? "" : "s", text,
                   missing->n > listed ? ", ..." : "");
}

static void sort_unique(fn_shard_list *list) {
    size_t kept = 0;
    if (list->n > 0) {
        qsort(list->names, list->n, sizeof *list->names, by_name);
    }
    for (size_t i = 0; i < list->n; i++) {
        if (kept > 0 && strcmp(list->names[kept - 1], list->names[i]) == 0) {
            fn_free(list->names[i]);
        } else {
            list->names[kept++] = list->names[i];
        }
    }
    list->n = kept;
}

static fn_status add_name(fn_shard_list *list, const char *name, fn_error *err) {
    size_t n = strlen(name);
    char *copy = fn_strndup(name, n);
    if (copy == NULL ||
        !fn_grow((void **)&list->names, &list->capacity, list->n + 1, sizeof *list->names)) {
        fn_free(copy);
        return fn_fail_nomem(err, name, n + sizeof *list->names);
    }
    list->names[list->n++] = copy;
    return FN_OK;
}

/* "model-00002-of-00004.safetensors": where the first number starts, its value and the count. */
static bool parse_numbered(const char *name, size_t *stem, size_t *number, size_t *count) {
    static const char shape[] = "-NNNNN-of-NNNNN" SUFFIX;
    size_t n = strlen(name);
    if (n < sizeof shape - 1) {
        return false;
    }
    const char *at = name + n - (sizeof shape - 1);
    for (size_t i = 0; shape[i] != '\0'; i++) {
        bool digit = at[i] >= '0' && at[i] <= '9';
        if (shape[i] == 'N' ? !digit : at[i] != shape[i]) {
            return false;
        }
    }
    *stem = n - (sizeof shape - 1);
    *number = (size_t)strtoul(at + 1, NULL, 10);
    *count = (size_t)strtoul(at + 10, NULL, 10);
    return true;
}

/* The files of the series that `first` belongs to. */
static fn_status check_series(const char *dir, const fn_shard_list *list, const char *first,
                              fn_error *err) {
    size_t stem = 0;
    size_t number = 0;
    size_t count = 0;
    char name[340];
    fn_shard_list missing = {0};
    fn_status status = FN_OK;
    (void)parse_numbered(first, &stem, &number, &count);
    if (number == 0 || number > count) {
        return fn_fail(err, FN_E_MODEL, "%s/%s: found shard number %zu of %zu", dir, first, number,
                       count);
    }
    for (size_t k = 1; k <= count && status == FN_OK; k++) {
        (void)snprintf(name, sizeof name, "%.*s-%05zu-of-%05zu" SUFFIX, (int)stem, first, k, count);
        if (!list_has(list, name)) {
            status = add_name(&missing, name, err);
        }
    }
    if (status == FN_OK && missing.n > 0) {
        status = fail_missing(dir, &missing, err);
    }
    fn_shard_list_free(&missing);
    return status;
}

/* A series is looked at once, at its first file in sorted order. */
static fn_status check_numbered(const char *dir, const fn_shard_list *list, fn_error *err) {
    char last[300] = "";
    fn_status status = FN_OK;
    for (size_t i = 0; i < list->n && status == FN_OK; i++) {
        size_t stem = 0;
        size_t number = 0;
        size_t count = 0;
        char series[300];
        if (!parse_numbered(list->names[i], &stem, &number, &count)) {
            continue;
        }
        (void)snprintf(series, sizeof series, "%.*s %zu", (int)stem, list->names[i], count);
        if (strcmp(series, last) != 0) {
            memcpy(last, series, sizeof last);
            status = check_series(dir, list, list->names[i], err);
        }
    }
    return status;
}

static fn_status scan(const char *dir, fn_shard_list *out, fn_error *err) {
    fn_status status = FN_OK;
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return fn_fail(err, FN_E_MODEL, "%s: cannot open the model folder: %s", dir,
                       strerror(errno));
    }
    errno = 0;
    for (const struct dirent *entry = readdir(stream); entry != NULL && status == FN_OK;
         entry = readdir(stream)) {
        if (entry->d_name[0] != '.' && ends_with(entry->d_name, SUFFIX)) {
            status = add_name(out, entry->d_name, err);
        }
        errno = 0;
    }
    if (status == FN_OK && errno != 0) {
        status = fn_fail(err, FN_E_IO, "%s: cannot list the folder: %s", dir, strerror(errno));
    }
    closedir(stream);
    return status;
}

fn_status fn_shard_list_read(const char *dir, fn_shard_list *out, fn_error *err) {
    *out = (fn_shard_list){0};
    fn_status status = scan(dir, out, err);
    if (status == FN_OK && out->n == 0) {
        status = fn_fail(err, FN_E_MODEL, "%s: found no *" SUFFIX " file", dir);
    }
    if (status == FN_OK) {
        qsort(out->names, out->n, sizeof *out->names, by_name);
    }
    if (status != FN_OK) {
        fn_shard_list_free(out);
    }
    return status;
}

void fn_shard_list_free(fn_shard_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        fn_free(list->names[i]);
    }
    fn_free(list->names);
    *list = (fn_shard_list){0};
}

static fn_status check_map(const fn_shard_index *index, const fn_shard_list *files, fn_error *err) {
    const char *tensor;
    json_t *file;
    fn_shard_list missing = {0};
    fn_status status = FN_OK;
    json_object_foreach(index->map, tensor, file) {
        const char *name = json_string_value(file);
        if (name == NULL) {
            status = fn_fail(err, FN_E_MODEL, "%s: weight_map: %.200s: found %s, expected a file",
                             index->path, tensor, fn_json_type_name(file));
        } else if (!list_has(files, name)) {
            status = add_name(&missing, name, err);
        }
        if (status != FN_OK) {
            break;
        }
    }
    sort_unique(&missing);
    if (status == FN_OK && missing.n > 0) {
        status = fail_missing(index->path, &missing, err);
    }
    fn_shard_list_free(&missing);
    return status;
}

fn_status fn_shard_index_read(const char *dir, const fn_shard_list *files, fn_shard_index *out,
                              fn_error *err) {
    fn_status status = FN_OK;
    *out = (fn_shard_index){.path = fn_path_join(dir, FN_INDEX_NAME)};
    if (out->path == NULL) {
        return fn_fail_nomem(err, FN_INDEX_NAME, strlen(dir) + sizeof FN_INDEX_NAME);
    }
    if (fn_file_exists(out->path)) {
        status = fn_json_read_file(out->path, MAX_INDEX_BYTES, &out->root, err);
        if (status == FN_OK) {
            out->map = json_object_get(out->root, "weight_map");
            status = json_is_object(out->map)
                         ? check_map(out, files, err)
                         : fn_fail(err, FN_E_MODEL,
                                   "%s: weight_map: expected an object of tensor names and files",
                                   out->path);
        }
    }
    if (status == FN_OK) {
        status = check_numbered(dir, files, err);
    }
    if (status != FN_OK) {
        fn_shard_index_free(out);
    }
    return status;
}

static int find_tensor(const void *key, const void *item) {
    return strcmp(key, ((const fn_tensor *)item)->name);
}

static bool has_name(const fn_safetensors *file, const char *name) {
    const char *slash = strrchr(file->path, '/');
    return strcmp(slash != NULL ? slash + 1 : file->path, name) == 0;
}

fn_status fn_shard_index_check(const fn_shard_index *index, const char *dir,
                               const fn_safetensors *files, size_t n_files,
                               const fn_tensor *tensors, size_t n, fn_error *err) {
    const char *name;
    json_t *file;
    if (index->map == NULL) {
        return FN_OK;
    }
    json_object_foreach(index->map, name, file) {
        const fn_tensor *t = bsearch(name, tensors, n, sizeof *tensors, find_tensor);
        const char *said = json_string_value(file);
        if (t == NULL) {
            return fn_fail(err, FN_E_MODEL,
                           "%.300s: names tensor %.200s, which is in no file (expected in "
                           "%.300s/%.100s)",
                           index->path, name, dir, said);
        }
        if (t->file >= n_files || !has_name(&files[t->file], said)) {
            return fn_fail(err, FN_E_MODEL,
                           "%.250s: %.150s: expected in %.200s/%.100s, found in %.250s",
                           index->path, name, dir, said, files[t->file].path);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].file < n_files && json_object_get(index->map, tensors[i].name) == NULL) {
            return fn_fail(err, FN_E_MODEL, "%.300s: omits tensor %.200s, found in %.300s (stale?)",
                           index->path, tensors[i].name, files[tensors[i].file].path);
        }
    }
    return FN_OK;
}

void fn_shard_index_free(fn_shard_index *index) {
    json_decref(index->root);
    fn_free(index->path);
    *index = (fn_shard_index){0};
}
