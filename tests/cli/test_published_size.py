"""The published model's real size, from headers and config alone: sparse files, none of their 360 GB read."""
import json
import math
import re
import struct
import time

import pytest

from peak import measured
import published
from digests import hash_bytes, signed

GIB = 1 << 30


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """131 sparse shards with an index, tensors in the order of their names."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "config.json").write_text(json.dumps(published.CONFIG))
    entries = sorted(published.tensors())
    assert len(entries) == 1658
    size = {name: (8 if kind == "I64" else 2) * math.prod(shape) for name, kind, shape in entries}
    total = sum(size.values())
    assert total == 359_999_963_128
    groups, filled = [[]], 0
    for i, entry in enumerate(entries):
        if filled >= total * len(groups) / 131 and len(groups) < 131 or len(entries) - i <= 131 - len(groups):
            groups.append([])
        groups[-1].append(entry)
        filled += size[entry[0]]
    assert len(groups) == 131 and all(groups)
    where = {}
    for number, group in enumerate(groups, 1):
        file = f"model-{number:05d}-of-00131.safetensors"
        header, at = {}, 0
        for name, kind, shape in group:
            header[name], at = dict(dtype=kind, shape=shape, data_offsets=[at, at + size[name]]), at + size[name]
            where[name] = file
        text = json.dumps(header).encode()
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for name, kind, _ in group:
                if kind == "I64":
                    out.seek(8 + len(text) + header[name]["data_offsets"][0])
                    values = published.integer_values(name)
                    out.write(struct.pack(f"<{len(values)}q", *values))
            out.truncate(8 + len(text) + at)
    (folder / "model.safetensors.index.json").write_text(json.dumps(dict(metadata=dict(total_size=total), weight_map=where)))
    return folder


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_opening_reads_headers_only(command, snapshot, flashnext):
    runs = [measured(flashnext, command, "--model-dir", snapshot, "--json") for _ in range(3)]
    assert min(seconds for _, seconds, _ in runs) < 1.0
    assert max(resident for _, _, resident in runs) < 200e6


def close(found, wanted):
    """To the digits that are published: wanted is their text."""
    return f"{found:.{len(wanted.partition('.')[2])}f}" == wanted


def test_plan_prints_the_textbook_estimate(flashnext, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published.CONFIG))
    book = flashnext.json("plan", "--config", tmp_path / "config.json", "--json")["textbook"]
    bytes_, params = book["bytes"], book["params"]
    assert (bytes_["experts_16bit"], bytes_["experts_8bit"], bytes_["experts_4bit"]) == (225 * GIB, 225 * GIB // 2, 225 * GIB // 4)
    assert close(bytes_["dense_16bit"] / GIB, "9.11") and close(bytes_["ngram_16bit"] / GIB, "95.37")
    assert bytes_["recurrent"] == 108 << 20
    kv = {entry["tokens"]: entry["bytes"] for entry in book["kv_16bit"]}
    assert kv[32768] == 0.75 * GIB and kv[262144] == 6 * GIB
    assert close(params["active"] / 1e9, "5.98") and close(params["active_experts"] / 1e9, "2.36")
    assert close(params["active_dense_with_head"] / 1e9, "4.25")
    assert close(book["read_per_token"]["bf16_trunk_int4_experts"] / 1e9, "9.7")
    assert close(book["read_per_token"]["int8_trunk_int4_experts"] / 1e9, "5.4")


def test_plan_from_headers_counts_every_byte(snapshot, flashnext):
    exact = flashnext.json("plan", "--model-dir", snapshot, "--json")["exact"]
    assert exact["total"]["stored"] == 359_999_963_128
    stored = {line["name"]: line["stored"] for line in exact["classes"]}
    assert stored["routed_experts"] == 241_591_910_400 and stored["ngram_table"] == 320_001_536 * 160 * 2
    assert stored["mtp"] + stored["vision"] == 6_112_163_808
    assert close(exact["dense"]["stored"] / GIB, "9.22")
    assert close(exact["active"]["params"] / 1e9, "6.04") and close(exact["active"]["dense_with_head"] / 1e9, "4.31")


def test_config_alone_gives_the_same_exact_plan(snapshot, flashnext):
    by_headers = flashnext.json("plan", "--model-dir", snapshot, "--json")
    by_config = flashnext.json("plan", "--config", snapshot / "config.json", "--json")
    for name in ("state", "state_per_sequence", "scratch"):
        assert by_headers["exact"][name] == by_config["exact"][name]
    assert by_headers["textbook"] == by_config["textbook"]


def test_a_limit_that_is_too_small_is_told(snapshot, flashnext):
    done = flashnext.run("plan", "--model-dir", snapshot, "--mem-limit", "64GiB", "--json")
    plan = json.loads(done.stdout)
    assert plan["fits"] is False and plan["exact"]["resident"] > plan["limit"] == 64 * GIB
    assert done.returncode == 4
    assert flashnext.run("plan", "--model-dir", snapshot, "--mem-limit", "500GiB", "--json").returncode == 0


def test_the_ceiling_is_bandwidth_over_bytes_read(snapshot, flashnext):
    plan = flashnext.json("plan", "--model-dir", snapshot, "--expert-bits", 4, "--dense-bits", 8, "--context", 32768, "--json")
    read, bandwidth = plan["exact"]["read_per_token"]["total"], plan["machine"]["read_bandwidth"]
    assert 1e8 < bandwidth < 1e13
    assert plan["decode_ceiling"] == pytest.approx(bandwidth / read, rel=1e-6)


@pytest.mark.parametrize("command", ["run", "perplexity"])
def test_a_start_that_cannot_fit_is_refused_at_once_with_the_table(command, snapshot, flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[1, 2, 3]")
    taken = []
    for _ in range(3):
        started = time.monotonic()
        done = flashnext.run(command, "--model-dir", snapshot, "--ids-file", tmp_path / "ids.json", "--expert-bits", 4, "--mem-limit", "32GiB")
        taken.append(time.monotonic() - started)
        assert done.returncode == 4 and done.stdout == ""
        assert "the limit is 32768.0 MiB" in done.stderr and "routed experts" in done.stderr and "scratch" in done.stderr
    assert min(taken) < 1.0, taken


def test_inspect_lists_every_tensor(snapshot, flashnext):
    found = flashnext.json("inspect", "--model-dir", snapshot, "--json")
    assert len(found["tensors"]) == 1658 and len(found["files"]) == 131
    by_name = {t["name"]: t for t in found["tensors"]}
    for name, kind, shape in published.tensors():
        assert by_name[name]["dtype"] == kind and by_name[name]["shape"] == list(shape)


def packed_bytes(rows, cols, bits):
    """Of a matrix in tiles of 32 outputs, groups of 128 inputs with FP16 scales, whole pages (src/kernels/matrix.h)."""
    groups = [min(128, cols - at) for at in range(0, cols, 128)]
    quads = {4: 8, 8: 4, 16: 2}[bits]
    tile = sum(32 * bits * (math.ceil(n / quads) * quads) // 8 + (64 if bits < 16 else 0) for n in groups)
    return math.ceil(math.ceil(rows / 32) * (math.ceil(tile / 64) * 64) / 4096) * 4096


KEPT = (".block_inject_weight", ".in_proj_a", ".in_proj_b", ".index_qk_proj", ".gate", ".shared_expert_gate")


def prepared_tensors(name, kind, shape):
    """(name, type, shape) in a directory prepared with 4-bit experts and an 8-bit trunk, or nothing."""
    module = name.removesuffix(".weight")
    folder, _, last = module.rpartition(".")
    if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
        for expert in range(shape[0]):
            yield f"{folder}.{expert}.{last}.packed.int4_g128", "U8", [packed_bytes(*shape[1:], 4)]
    elif ".visual." in name or len(shape) != 2 or "ngram_embedding" in name or last == "embed_tokens":
        yield name, kind, list(shape)
    elif last == "up_proj":
        return
    elif last == "gate_proj":
        yield f"{folder}.gate_up_proj.packed.int8_g128", "U8", [packed_bytes(2 * shape[0], shape[1], 8)]
    else:
        bits = 16 if module.endswith(KEPT) else 8
        yield f"{module}.packed.{'bf16' if bits == 16 else 'int8_g128'}", "U8", [packed_bytes(*shape, bits)]


@pytest.fixture(scope="module")
def prepared_snapshot(snapshot, tmp_path_factory):
    """What `quantize` would write of it, sparse, from the description of the format."""
    folder, files = tmp_path_factory.mktemp("prepared"), []
    (folder / "config.json").write_text(json.dumps(published.CONFIG))
    groups = {}
    for name, kind, shape in sorted(published.tensors()):
        layer = name.partition("layers.")[2].partition(".")[0]
        group = name if ".ngram_embedding." in name else name.split(".")[0] if name.startswith("mtp") else "v" if ".visual." in name else layer
        groups.setdefault(group, []).extend((name, *t) for t in prepared_tensors(name, kind, shape))
    for number, group in enumerate(groups.values(), 1):
        file = f"prepared-{number:05d}-of-{len(groups):05d}.safetensors"
        header, at, integers = {}, 0, []
        for source, name, kind, shape in sorted(group, key=lambda t: ".packed." not in t[1]):
            size = {"I64": 8, "BF16": 2, "U8": 1}[kind] * math.prod(shape)
            header[name] = dict(dtype=kind, shape=list(shape), data_offsets=[at, at + size])
            integers += [(source, at)] if kind == "I64" else []
            at += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % 4096)
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for source, place in integers:
                out.seek(8 + len(text) + place)
                values = published.integer_values(source)
                out.write(struct.pack(f"<{len(values)}q", *values))
            out.truncate(8 + len(text) + at)
        files.append(dict(name=file, bytes=8 + len(text) + at, header=f"{hash_bytes(text):016x}", data="0" * 16))
    manifest = dict(format="flashnext prepared checkpoint", version=1, source="0" * 16,
                    settings=dict(expert_bits=4, dense_bits=8, group_size=128, ngram="copy"), files=files, links=[])
    (folder / "flashnext-prepared.json").write_bytes(signed(manifest))
    return folder


@pytest.mark.slow
def test_a_prepared_directory_of_any_size_opens_within_a_second(snapshot, prepared_snapshot, flashnext, tmp_path):
    """Headers of 50,000 packed matrices and the manifest are checked; of 190 GB of data nothing is read but vectors."""
    told = flashnext.json("quantize", "--model-dir", snapshot, "--out", tmp_path / "new", "--dry-run", "--json", "--expert-bits", 4,
                          "--dense-bits", 8)
    data = sum(p.stat().st_size for p in prepared_snapshot.glob("*.safetensors"))
    assert abs(told["bytes"] - data) < 0.0005 * data
    ids, seconds = tmp_path / "ids.json", []
    ids.write_text("[999999]")  # is refused once the model is open
    for _ in range(3):
        done = flashnext.run("logits", "-v", "--model-dir", prepared_snapshot, "--ids-file", ids, "--out", tmp_path / "out", "--mem-limit",
                             "4TiB", "--ngram-mmap")
        assert done.returncode == 2 or "expected an id below" in done.stderr
        seconds.append(float(re.search(r"mapped in ([0-9.]+) s", done.stderr)[1]))
    assert min(seconds) < 1.0, seconds
