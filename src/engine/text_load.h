/* engine/text_load.h - a checkpoint's text files, read by a thread of their own beside what else is opened.
 *
 * Path:    fn_engine_open begins it -> [this: fn_text_open] -> and takes the text, or its fault.
 * Threads: begin and take from one thread.
 * Memory:  the struct and what its options point to stay where they are until it is taken. */
#ifndef FN_ENGINE_TEXT_LOAD_H
#define FN_ENGINE_TEXT_LOAD_H

#include <pthread.h>
#include <stdbool.h>

#include "flashnext.h"

typedef struct fn_text_load {
    fn_text_options options;
    pthread_t thread;
    bool started; /* else no thread could be had, and taking it reads */
    fn_text *text;
    fn_status status;
    fn_error error;
} fn_text_load;

void fn_text_load_begin(fn_text_load *load, const fn_text_options *options);

/* Waits for it, once; *out is the caller's. Fails as fn_text_open. */
fn_status fn_text_load_take(fn_text_load *load, fn_text **out, fn_error *err);

#endif
