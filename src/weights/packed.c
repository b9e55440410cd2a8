#include "weights/packed.h"

#include <stdio.h>
#include <string.h>

typedef struct tag {
    const char *text;
    fn_matrix_kind kind;
    size_t group;
} tag;

static const tag tags[] = {
    {"f32", FN_MATRIX_F32, FN_GROUP_DEFAULT}, {"bf16", FN_MATRIX_BF16, FN_GROUP_DEFAULT},
    {"fp8", FN_MATRIX_FP8, FN_GROUP_DEFAULT}, {"nvfp4", FN_MATRIX_NVFP4, FN_GROUP_NVFP4},
    {"int8_g32", FN_MATRIX_INT8, 32},         {"int8_g64", FN_MATRIX_INT8, 64},
    {"int8_g128", FN_MATRIX_INT8, 128},       {"int4_g32", FN_MATRIX_INT4, 32},
    {"int4_g64", FN_MATRIX_INT4, 64},         {"int4_g128", FN_MATRIX_INT4, 128},
};

#define N_TAGS (sizeof tags / sizeof tags[0])

bool fn_packed_parse_tag(const char *text, fn_matrix_kind *kind, size_t *group) {
    for (size_t i = 0; i < N_TAGS; i++) {
        if (strcmp(text, tags[i].text) == 0) {
            *kind = tags[i].kind;
            *group = tags[i].group;
            return true;
        }
    }
    return false;
}

static const char *tag_of(const fn_matrix *m) {
    for (size_t i = 0; i < N_TAGS; i++) {
        if (tags[i].kind == m->kind && tags[i].group == m->group) {
            return tags[i].text;
        }
    }
    FN_ASSERT(false);
    return "";
}

/* "A.B.C" -> the length of "A.B". */
static size_t stem(const char *name, size_t n) {
    while (n > 0 && name[n - 1] != '.') {
        n--;
    }
    return n > 0 ? n - 1 : 0;
}

void fn_packed_name(const fn_source *const *parts, size_t n_parts, const fn_matrix *matrix,
                    char *out, size_t room) {
    const fn_tensor *t = parts[0]->weight;
    bool stacked = t->n_dims == 3; /* [experts, rows, cols] under the name of the stack */
    size_t whole = strlen(t->name);
    size_t n = stacked ? whole : stem(t->name, whole); /* without ".weight" */
    size_t folder = stem(t->name, n);
    char index[24] = "";
    if (stacked) {
        (void)snprintf(index, sizeof index, ".%llu",
                       (unsigned long long)(parts[0]->first_row / t->dims[1]));
    }
    const char *last = n_parts > 1 ? ".gate_up_proj" : t->name + folder;
    int last_length = n_parts > 1 ? (int)strlen(last) : (int)(n - folder);
    (void)snprintf(out, room, "%.*s%s%.*s" FN_PACKED_MARK "%s", (int)folder, t->name, index,
                   last_length, last, tag_of(matrix));
}
