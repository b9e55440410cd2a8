/* tests/support/make_internal.h - what the files behind make_checkpoint.h share. */
#ifndef FN_TESTS_MAKE_INTERNAL_H
#define FN_TESTS_MAKE_INTERNAL_H

#include "support/make_checkpoint.h"

/* Fills m->tensors for the shape and m->layout. */
void made_tensors(made_model *m, const fn_shape *s);
/* The config of the shape, as the published one is spelt. */
json_t *made_config(const fn_shape *s, const made_layout *layout);

#endif
