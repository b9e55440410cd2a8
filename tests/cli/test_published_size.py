"""The published model's real size, from headers and config alone: sparse files, none of their 360 GB read."""
import json
import math
import struct
import time

import pytest

from peak import measured
import published

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
