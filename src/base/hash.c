#include "base/hash.h"

#include <string.h>

uint64_t fn_hash_bytes(uint64_t digest, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    digest = fn_hash_mix(digest ^ n);
    for (; n >= 8; at += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        digest = (digest ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        digest ^= digest >> 32;
    }
    uint64_t tail = 0;
    memcpy(&tail, at, n);
    return fn_hash_mix(digest ^ tail);
}

void fn_hash_stream_init(fn_hash_stream *stream) {
    stream->digest = FN_HASH_START;
    stream->fill = 0;
}

void fn_hash_stream_add(fn_hash_stream *stream, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    while (n > 0) {
        if (stream->fill == 0 && n >= FN_HASH_BLOCK) {
            stream->digest = fn_hash_bytes(stream->digest, at, FN_HASH_BLOCK);
            at += FN_HASH_BLOCK;
            n -= FN_HASH_BLOCK;
            continue;
        }
        size_t room = FN_HASH_BLOCK - stream->fill;
        size_t taken = n < room ? n : room;
        memcpy(stream->block + stream->fill, at, taken);
        stream->fill += taken;
        at += taken;
        n -= taken;
        if (stream->fill == FN_HASH_BLOCK) {
            stream->digest = fn_hash_bytes(stream->digest, stream->block, FN_HASH_BLOCK);
            stream->fill = 0;
        }
    }
}

uint64_t fn_hash_stream_end(const fn_hash_stream *stream) {
    return fn_hash_bytes(stream->digest, stream->block, stream->fill);
}
