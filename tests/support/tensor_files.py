"""safetensors files as bytes and as numpy arrays, BF16 included, without any other library."""
import json
import struct

import numpy as np

TYPES = dict(F64="<f8", F32="<f4", F16="<f2", I64="<i8", I32="<i4", U8="u1", BOOL="u1", BF16="<u2")


def read_header(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(length)), 8 + length


def read(path):
    """All tensors of a file as arrays; BF16 becomes float32."""
    header, start = read_header(path)
    data, out = path.read_bytes(), {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[start + begin:start + end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        out[name] = (array.astype(np.uint32) << 16).view(np.float32) if entry["dtype"] == "BF16" else array
    return out


def write_raw(path, header, data):
    """Any header, right or wrong, in front of these bytes."""
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def rewrite(path, change):
    """change(entries) gets and returns {name: (dtype, shape, bytes)} of the file, which is written anew."""
    header, start = read_header(path)
    data = path.read_bytes()
    entries = {n: (e["dtype"], e["shape"], data[start + e["data_offsets"][0]:start + e["data_offsets"][1]])
               for n, e in header.items() if n != "__metadata__"}
    entries = change(entries)
    new, at, chunks = {}, 0, []
    for name, (dtype, shape, payload) in entries.items():
        new[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + len(payload)])
        at += len(payload)
        chunks.append(payload)
    write_raw(path, new, b"".join(chunks))
