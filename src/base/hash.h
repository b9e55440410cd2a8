/* base/hash.h - a 64-bit digest for fingerprints and for noticing damage; not for secrets. */
#ifndef FN_BASE_HASH_H
#define FN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define FN_HASH_START UINT64_C(0x9E3779B97F4A7C15)

/* Bijective mixing of 64 bits (the finaliser of splitmix64). */
static inline uint64_t fn_hash_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

enum { FN_HASH_BLOCK = 4096 };

/* A digest over bytes that come in pieces; the result does not depend on the cuts. */
typedef struct fn_hash_stream {
    uint64_t digest;
    size_t fill; /* bytes that wait in block */
    unsigned char block[FN_HASH_BLOCK];
} fn_hash_stream;

void fn_hash_stream_init(fn_hash_stream *stream);
void fn_hash_stream_add(fn_hash_stream *stream, const void *bytes, size_t n);
uint64_t fn_hash_stream_end(const fn_hash_stream *stream);

/* Continues a digest over n bytes; the result depends on how the bytes are cut into calls. */
uint64_t fn_hash_bytes(uint64_t digest, const void *bytes, size_t n);

#endif
