#include "support/make_checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/make_internal.h"
#include "support/temp_dir.h"

static void must(bool ok, const char *what) {
    if (!ok) {
        perror(what);
        abort();
    }
}

void made_model_init(made_model *m, const fn_shape *shape, made_layout layout) {
    *m = (made_model){.layout = layout};
    m->config = made_config(shape, &layout);
    made_tensors(m, shape);
}

void made_model_free(made_model *m) {
    for (size_t i = 0; i < m->n; i++) {
        free(m->tensors[i].values);
    }
    free(m->tensors);
    json_decref(m->config);
    if (m->dir[0] != '\0') {
        temp_dir_remove(m->dir);
    }
    *m = (made_model){.n = 0};
}

json_t *made_text(made_model *m) {
    return m->layout.nested ? json_object_get(m->config, "text_config") : m->config;
}

made_tensor *made_find(made_model *m, const char *ending) {
    for (size_t i = 0; i < m->n; i++) {
        size_t n = strlen(m->tensors[i].name);
        size_t k = strlen(ending);
        if (n >= k && strcmp(m->tensors[i].name + n - k, ending) == 0) {
            return &m->tensors[i];
        }
    }
    must(false, ending);
    return NULL;
}

void made_remove(made_model *m, const char *ending) {
    made_tensor *t = made_find(m, ending);
    free(t->values);
    memmove(t, t + 1, (size_t)(m->tensors + m->n - (t + 1)) * sizeof *t);
    m->n--;
}

void made_file_name(const made_model *m, size_t file, char *out, size_t room) {
    if (m->layout.n_files == 1) {
        (void)snprintf(out, room, "model.safetensors");
    } else {
        (void)snprintf(out, room, "model-%05zu-of-%05zu.safetensors", file + 1, m->layout.n_files);
    }
}

void made_path(const made_model *m, const char *name, char *out, size_t room) {
    (void)snprintf(out, room, "%s/%s", m->dir, name);
}

static size_t bits_of(const char *dtype) {
    return strcmp(dtype, "I64") == 0 || strcmp(dtype, "F64") == 0    ? 64
           : strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0  ? 32
           : strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0 ? 16
                                                                     : 8;
}

static uint64_t bytes_of(const made_tensor *t) {
    uint64_t n = bits_of(t->dtype) / 8;
    for (size_t i = 0; i < t->n_dims; i++) {
        n *= t->dims[i];
    }
    return n;
}

static uint64_t next_random(uint64_t *state) {
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t x = (*state ^ *state >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Uniform in [-0.25, 0.25) from a state that starts at the name, so that values do not depend on
 * where a tensor is stored. */
static void write_values(FILE *f, const made_tensor *t) {
    uint64_t state = 1;
    uint64_t n = bytes_of(t) * 8 / bits_of(t->dtype);
    for (const char *at = t->name; *at != '\0'; at++) {
        state = state * 31 + (unsigned char)*at;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t random = next_random(&state);
        float value = ((float)(random >> 40) - 8388608.0F) * 0x1p-25F;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (strcmp(t->dtype, "F32") == 0) {
            must(fwrite(&value, 4, 1, f) == 1, "fwrite");
        } else if (strcmp(t->dtype, "BF16") == 0) {
            uint16_t half = (uint16_t)(bits >> 16);
            must(fwrite(&half, 2, 1, f) == 1, "fwrite");
        } else if (strcmp(t->dtype, "F16") == 0) {
            uint16_t half = (uint16_t)(0x2800 | (random & 0x83ff)); /* 0.03 to 0.06, both signs */
            must(fwrite(&half, 2, 1, f) == 1, "fwrite");
        } else {
            must(fwrite(&random, bits_of(t->dtype) / 8, 1, f) == 1, "fwrite");
        }
    }
}

static char *header_of(const made_model *m, size_t file, size_t *bytes, uint64_t *data_bytes) {
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);
    uint64_t at = 0;
    must(f != NULL, "open_memstream");
    (void)fprintf(f, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < m->n; i++) {
        const made_tensor *t = &m->tensors[i];
        if (t->file != file) {
            continue;
        }
        (void)fprintf(f, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->dtype);
        for (size_t d = 0; d < t->n_dims; d++) {
            (void)fprintf(f, "%s%llu", d > 0 ? "," : "", (unsigned long long)t->dims[d]);
        }
        (void)fprintf(f, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                      (unsigned long long)(at + bytes_of(t)));
        at += bytes_of(t);
    }
    (void)fprintf(f, "}");
    must(fclose(f) == 0, "fclose");
    *data_bytes = at;
    return text;
}

static void write_data(const made_model *m, size_t file, FILE *f) {
    for (size_t i = 0; i < m->n; i++) {
        const made_tensor *t = &m->tensors[i];
        if (t->file != file) {
            continue;
        }
        if (t->values != NULL) {
            must(fwrite(t->values, (size_t)bytes_of(t), 1, f) == 1, "fwrite");
        } else if (m->layout.sparse) {
            must(fseeko(f, (off_t)bytes_of(t), SEEK_CUR) == 0, "fseeko");
        } else {
            write_values(f, t);
        }
    }
}

static void write_shard(const made_model *m, size_t file) {
    char name[80];
    char path[320];
    size_t n = 0;
    uint64_t data_bytes = 0;
    char *header = header_of(m, file, &n, &data_bytes);
    made_file_name(m, file, name, sizeof name);
    made_path(m, name, path, sizeof path);
    FILE *f = fopen(path, "wb");
    must(f != NULL, path);
    uint64_t length = n;
    must(fwrite(&length, sizeof length, 1, f) == 1 && fwrite(header, 1, n, f) == n, path);
    write_data(m, file, f);
    must(fflush(f) == 0 && ftruncate(fileno(f), (off_t)(8 + n + data_bytes)) == 0, path);
    must(fclose(f) == 0, path);
    free(header);
}

static void write_index(const made_model *m) {
    char path[320];
    char name[80];
    json_t *map = json_object();
    for (size_t i = 0; i < m->n; i++) {
        made_file_name(m, m->tensors[i].file, name, sizeof name);
        json_object_set_new(map, m->tensors[i].name, json_string(name));
    }
    json_t *root = json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1, "weight_map", map);
    made_path(m, "model.safetensors.index.json", path, sizeof path);
    must(json_dump_file(root, path, JSON_INDENT(2)) == 0, path);
    json_decref(root);
}

void made_write(made_model *m) {
    char path[320];
    if (m->dir[0] == '\0') {
        temp_dir_make(m->dir, sizeof m->dir);
    }
    made_path(m, "config.json", path, sizeof path);
    must(json_dump_file(m->config, path, JSON_INDENT(2)) == 0, path);
    for (size_t f = 0; f < m->layout.n_files; f++) {
        write_shard(m, f);
    }
    if (m->layout.index) {
        write_index(m);
    }
}

void made_write_file(const made_model *m, const char *name, const void *bytes, size_t n) {
    char path[320];
    made_path(m, name, path, sizeof path);
    FILE *f = fopen(path, "wb");
    must(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, path);
}

void made_resize(const made_model *m, const char *name, long change) {
    char path[320];
    struct stat info;
    made_path(m, name, path, sizeof path);
    must(stat(path, &info) == 0 && truncate(path, info.st_size + change) == 0, path);
}
