#include "tokens/jinja_arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK_BYTES ((size_t)32 << 10)
#define ALIGN ((size_t)16)

struct fn_jarena_block {
    fn_jarena_block *next;
    size_t capacity;
    size_t used;
    alignas(16) unsigned char data[];
};

void fn_jarena_init(fn_jarena *arena, size_t max_bytes) {
    *arena = (fn_jarena){.max_bytes = max_bytes};
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) & ~(ALIGN - 1);
}

void *fn_jarena_alloc(fn_jarena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 4 || bytes > arena->max_bytes - arena->used_bytes) {
        arena->over_limit = true;
        return NULL;
    }
    bytes = aligned(bytes > 0 ? bytes : 1);
    fn_jarena_block *block = arena->head;
    if (block == NULL || block->capacity - block->used < bytes) {
        size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        fn_jarena_block *fresh = fn_alloc(1, sizeof *fresh + capacity);
        if (fresh == NULL) {
            return NULL;
        }
        fresh->capacity = capacity;
        fresh->used = 0;
        fresh->next = block;
        arena->head = fresh;
        block = fresh;
    }
    void *ptr = block->data + block->used;
    block->used += bytes;
    size_t room = arena->max_bytes - arena->used_bytes;
    arena->used_bytes += bytes < room ? bytes : room;
    return ptr;
}

void *fn_jarena_array(fn_jarena *arena, size_t count, size_t size) {
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        arena->over_limit = true;
        return NULL;
    }
    void *ptr = fn_jarena_alloc(arena, bytes);
    if (ptr != NULL) {
        memset(ptr, 0, bytes);
    }
    return ptr;
}

void *fn_jarena_grow(fn_jarena *arena, void *ptr, size_t old_bytes, size_t new_bytes) {
    fn_jarena_block *block = arena->head;
    if (ptr != NULL && block != NULL && new_bytes >= old_bytes) {
        size_t old_room = aligned(old_bytes > 0 ? old_bytes : 1);
        bool is_last = (unsigned char *)ptr + old_room == block->data + block->used;
        size_t extra = new_bytes > old_room ? aligned(new_bytes - old_room) : 0;
        if (is_last && extra <= block->capacity - block->used &&
            extra <= arena->max_bytes - arena->used_bytes) {
            block->used += extra;
            arena->used_bytes += extra;
            return ptr;
        }
    }
    void *moved = fn_jarena_alloc(arena, new_bytes);
    if (moved != NULL && ptr != NULL) {
        memcpy(moved, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
    }
    return moved;
}

void fn_jarena_free(fn_jarena *arena) {
    fn_jarena_block *block = arena->head;
    while (block != NULL) {
        fn_jarena_block *next = block->next;
        fn_free(block);
        block = next;
    }
    arena->head = NULL;
    arena->used_bytes = 0;
}
