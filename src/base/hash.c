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
