"""The digests of prepared checkpoints, and manifests signed with them (docs/prepared.md)."""
import json


def hash_mix(x):
    mask = (1 << 64) - 1
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 31)


def hash_bytes(data, digest=0x9E3779B97F4A7C15):
    """base/hash.h, from its description."""
    mask = (1 << 64) - 1
    digest = hash_mix(digest ^ len(data))
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        digest = (digest ^ int.from_bytes(data[at:at + 8], "little")) * 0xD6E8FEB86659FD93 & mask
        digest ^= digest >> 32
    return hash_mix(digest ^ int.from_bytes(data[whole:], "little"))


def signed(manifest):
    text = json.dumps(manifest, separators=(",", ":"))[:-1].encode() + b',"digest":"'
    return text + b'%016x"}\n' % hash_bytes(text)
