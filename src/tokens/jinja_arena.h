/* tokens/jinja_arena.h - the memory of one compiled template, or of one render: freed all at once.
 *
 * Threads:  one at a time. Once a template is compiled its arena is only read.
 * Memory:   blocks of the C heap; everything handed out lives until fn_jarena_free. */
#ifndef FN_TOKENS_JINJA_ARENA_H
#define FN_TOKENS_JINJA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fn_jarena_block fn_jarena_block;

typedef struct fn_jarena {
    fn_jarena_block *head;
    size_t used_bytes;
    size_t max_bytes;
    bool over_limit; /* why the last allocation failed: the cap, not the heap */
} fn_jarena;

void fn_jarena_init(fn_jarena *arena, size_t max_bytes);

/* bytes, aligned to 16, uninitialised; NULL when the cap or the heap is exhausted. */
void *fn_jarena_alloc(fn_jarena *arena, size_t bytes) __attribute__((warn_unused_result));

/* count * size bytes of zeros. */
void *fn_jarena_array(fn_jarena *arena, size_t count, size_t size)
    __attribute__((warn_unused_result));

/* Moves old_bytes to a place of new_bytes; in place when ptr was the last allocation. */
void *fn_jarena_grow(fn_jarena *arena, void *ptr, size_t old_bytes, size_t new_bytes)
    __attribute__((warn_unused_result));

void fn_jarena_free(fn_jarena *arena);

#endif
