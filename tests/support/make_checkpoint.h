/* tests/support/make_checkpoint.h - valid checkpoints of any shape, written on the fly, and spoilt
 * on purpose before they are written.
 *
 * A model is a list of tensors and a config; tests change either, write it, and open the folder.
 * The names are written down here a second time, apart from weights/bind.c. */
#ifndef FN_TESTS_MAKE_CHECKPOINT_H
#define FN_TESTS_MAKE_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shape/shape.h"

typedef struct made_tensor {
    char name[128];
    const char *dtype; /* "BF16", "F16", "F32", "I64"; others are filled with random bytes */
    size_t n_dims;
    uint64_t dims[5];
    int64_t *values; /* of an I64 tensor; freed with the model */
    size_t file;     /* from 0 */
} made_tensor;

typedef struct made_layout {
    bool nested;     /* "model.language_model." and text_config, or "model." and one config */
    bool stacked;    /* experts */
    size_t n_pieces; /* of an n-gram table; 0: whole */
    size_t n_files;
    bool index;        /* write model.safetensors.index.json */
    const char *dtype; /* of the weights */
    size_t n_vision;   /* vision tensors to add (0 or 333) */
    bool mtp;          /* add the 31 tensors of the MTP head */
    bool sparse;       /* leave holes instead of weights */
} made_layout;

typedef struct made_model {
    made_tensor *tensors;
    size_t n, capacity;
    made_layout layout;
    json_t *config;
    char dir[200]; /* "" until written */
} made_model;

/* Two delta layers (one with n-gram memory) around one attention layer; everything small and
 * different, so that a swapped dimension shows. */
fn_shape made_tiny_shape(void);
made_layout made_plain_layout(void);
/* The published dimensions, and the published layout: 131 files, 128 pieces, vision, MTP. */
fn_shape made_real_shape(void);
made_layout made_real_layout(void);

void made_model_init(made_model *m, const fn_shape *shape, made_layout layout);
void made_model_free(made_model *m); /* removes the folder too */

json_t *made_text(made_model *m); /* the object that holds the text config */
/* The first tensor whose name ends so; the test fails when there is none. */
made_tensor *made_find(made_model *m, const char *ending);
void made_remove(made_model *m, const char *ending);
made_tensor *made_add(made_model *m, const char *name, const char *dtype, size_t n_dims,
                      const uint64_t *dims);

/* Writes config, files and index; in a fresh folder the first time. */
void made_write(made_model *m);
/* "model.safetensors" or "model-00001-of-00003.safetensors"; and with the folder. */
void made_file_name(const made_model *m, size_t file, char *out, size_t room);
void made_path(const made_model *m, const char *name, char *out, size_t room);
/* A text or bytes into dir/name; and one file's length set. */
void made_write_file(const made_model *m, const char *name, const void *bytes, size_t n);
void made_resize(const made_model *m, const char *name, long change);

#endif
