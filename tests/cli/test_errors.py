"""Bad models and bad requests: the right exit code, one line that names what is wrong, nothing on standard output.

Each damage is done to a good checkpoint of tests/data; the words are what a person needs to find it:
the file, tensor or key, what was found, what was expected.
"""
import json
import struct

import numpy as np
import pytest

from conftest import DATA
import tensor_files

SHARD = "model-00002-of-00003.safetensors"


def config_keys(folder, **changes):
    """Sets keys of the text config; None removes one."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    keys = config.get("text_config", config)
    for key, value in changes.items():
        if value is None:
            del keys[key]
        else:
            keys[key] = value
    path.write_text(json.dumps(config))


def index_of(folder, change):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


def edit(folder, tensor, change):
    """change(dtype, shape, data) -> the same three, or None to drop the tensor (from the index too)."""
    for file in folder.glob("*.safetensors"):
        if tensor not in tensor_files.read_header(file)[0]:
            continue

        def apply(entries):
            changed = change(*entries.pop(tensor))
            return entries | ({tensor: changed} if changed else {})

        tensor_files.rewrite(file, apply)
        if (folder / "model.safetensors.index.json").exists() and change("F32", [], b"") is None:
            index_of(folder, lambda where: where.pop(tensor))
        return file.name
    raise KeyError(tensor)


def drop(_dtype, _shape, _data):
    return None


def truncate(path, size):
    with open(path, "r+b") as file:
        file.truncate(size)


def header_of(path, change):
    header, start = tensor_files.read_header(path)
    data = path.read_bytes()[start:]
    change(header)
    tensor_files.write_raw(path, header, data)


# ---- files ------------------------------------------------------------------------------------------

def missing_shard(folder):
    (folder / SHARD).unlink()
    return [SHARD]


def shard_short_by_a_byte(folder):
    size = (folder / SHARD).stat().st_size
    truncate(folder / SHARD, size - 1)
    return [SHARD, str(size), str(size - 1)]


def shard_cut_in_half(folder):
    size = (folder / SHARD).stat().st_size
    truncate(folder / SHARD, size // 2)
    return [SHARD, str(size), str(size // 2)]


def shard_empty(folder):
    truncate(folder / SHARD, 0)
    return [SHARD]


def header_longer_than_the_file(folder):
    with open(folder / SHARD, "r+b") as file:
        file.write(struct.pack("<Q", 1 << 40))
    return [SHARD, "header"]


def header_is_not_json(folder):
    tensor_files.write_raw(folder / SHARD, b"{not json", b"")
    return [SHARD]


def overlapping_offsets(folder):
    def change(header):
        first, second = [n for n in header if n != "__metadata__"][:2]
        length = header[second]["data_offsets"][1] - header[second]["data_offsets"][0]
        begin = header[first]["data_offsets"][0]
        header[second]["data_offsets"] = [begin, begin + length]
    header_of(folder / SHARD, change)
    return [SHARD]


def bytes_that_no_tensor_covers(folder):
    with open(folder / SHARD, "ab") as file:
        file.write(b"\0" * 64)
    return [SHARD]


def index_names_a_missing_tensor(folder):
    index_of(folder, lambda where: where.update({"model.layers.0.mlp.nonsense.weight": SHARD}))
    return ["model.layers.0.mlp.nonsense.weight", SHARD]


def index_omits_a_tensor(folder):
    index_of(folder, lambda where: where.pop("lm_head.weight"))
    return ["lm_head.weight"]


def index_is_not_json(folder):
    (folder / "model.safetensors.index.json").write_text("[1, 2")
    return ["model.safetensors.index.json"]


def one_tensor_in_two_files(folder):
    (folder / "model.safetensors.index.json").unlink()
    header, start = tensor_files.read_header(folder / SHARD)
    name = next(n for n in header if n != "__metadata__")
    begin, end = header[name]["data_offsets"]
    data = (folder / SHARD).read_bytes()[start + begin:start + end]
    tensor_files.write_raw(folder / "more.safetensors", {name: dict(header[name], data_offsets=[0, end - begin])}, data)
    return [name, "more.safetensors", SHARD]


def no_weights(folder):
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    return ["safetensors"]


def no_config(folder):
    (folder / "config.json").unlink()
    return ["config.json"]


def config_is_not_json(folder):
    (folder / "config.json").write_text('{"vocab_size": ')
    return ["config.json"]


# ---- tensors ----------------------------------------------------------------------------------------

TABLE = "model.layers.3.ple.ple_embedding.ngram_embedding.shard_5.weight"


def missing_middle_piece_of_a_table(folder):
    edit(folder, TABLE, drop)
    return ["shard_5"]


def missing_tensor(folder):
    edit(folder, "model.layers.2.self_attn.k_norm.weight", drop)
    return ["model.layers.2.self_attn.k_norm.weight"]


def unexpected_tensor(folder):
    (folder / "model.safetensors.index.json").unlink()
    tensor_files.write_raw(folder / "more.safetensors",
                           {"model.layers.1.mlp.extra.weight": dict(dtype="F32", shape=[1], data_offsets=[0, 4])}, b"\0" * 4)
    return ["model.layers.1.mlp.extra.weight"]


def incomplete_experts(folder):
    edit(folder, "model.layers.1.mlp.experts.4.up_proj.weight", drop)
    return ["model.layers.1.mlp.experts", "4"]


def wrong_shape(folder):
    name = "model.layers.0.linear_attn.out_proj.weight"
    edit(folder, name, lambda dtype, shape, data: (dtype, shape[::-1], data))
    return [name, "48", "72"]


def wrong_type(folder):
    name = "model.layers.0.attn_hyper_connection.hc_norm.weight"
    edit(folder, name, lambda _dtype, shape, data: ("I64", shape, data * 2))
    return [name, "I64"]


def wrong_hash_constant(folder):
    name = "model.layers.3.ple.ple_embedding.layer_multipliers"

    def change(dtype, shape, data):
        values = np.frombuffer(data, "<i8").copy()
        values[-1:] += 2
        return dtype, shape, values.tobytes()
    edit(folder, name, change)
    return [name]


# ---- config -----------------------------------------------------------------------------------------

def keys(*words, **changes):
    def damage(folder):
        config_keys(folder, **changes)
        return words or list(changes)
    return damage


DAMAGES = [
    missing_shard, shard_short_by_a_byte, shard_cut_in_half, shard_empty, header_longer_than_the_file, header_is_not_json,
    overlapping_offsets, bytes_that_no_tensor_covers, index_names_a_missing_tensor, index_omits_a_tensor, index_is_not_json,
    one_tensor_in_two_files, no_weights, no_config, config_is_not_json, missing_middle_piece_of_a_table, missing_tensor,
    unexpected_tensor, incomplete_experts, wrong_shape, wrong_type, wrong_hash_constant,
    *(pytest.param(keys(key, **{key: None}), id=f"no {key}") for key in
      ("vocab_size", "hidden_size", "num_hidden_layers", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
       "linear_num_value_heads", "hc_count", "rms_norm_eps", "ngram_vocab_size_base", "indexer_budget", "eos_token_id")),
    pytest.param(keys("hc_count", "1", hc_count=1), id="one stream"),
    pytest.param(keys("indexer_budget", "indexer_compress_ratio", indexer_budget=13), id="budget not divisible by ratio"),
    pytest.param(keys("ple_layer_ids", ple_layer_ids=[1, 3]), id="n-gram memory on an attention layer"),
    pytest.param(keys("indexer_head_dim", indexer_head_dim=4), id="rotary part wider than the indexer's head"),
    pytest.param(keys("indexer_kv_heads", "2", indexer_kv_heads=2), id="two indexer key heads"),
    pytest.param(keys("ple_embed_dim", ple_embed_dim=25), id="embedding not divisible by heads"),
    pytest.param(keys("num_experts_per_tok", "8", num_experts_per_tok=8), id="more experts chosen than there are"),
    pytest.param(keys("vocab_size", vocab_size=-130), id="negative size"),
    pytest.param(keys("hidden_size", hidden_size="48"), id="number as a string"),
    pytest.param(keys("seed", seed=1), id="another seed"),
    pytest.param(keys("layer_types", layer_types=["linear_attention"] * 4), id="layer types of another length"),
    pytest.param(keys("layer_types", "windowed_attention", layer_types=["windowed_attention"] * 5), id="unknown layer type"),
    pytest.param(keys("hidden_act", hidden_act="gelu"), id="unknown activation"),
]


def named(damage):
    return getattr(damage, "__name__", None)


@pytest.mark.parametrize("damage", DAMAGES, ids=named)
def test_bad_checkpoint(damage, copy_of, flashnext, tmp_path):
    folder = copy_of("mini-f32")
    words = damage(folder)
    (tmp_path / "ids.json").write_text("[[1, 2, 3]]")
    out = tmp_path / "out.safetensors"
    done = flashnext.run("logits", "--model-dir", folder, "--ids-file", tmp_path / "ids.json", "--out", out)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "" and not out.exists()
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 1 and lines[0].startswith("flashnext: "), done.stderr
    if words == ["seed"]:  # seen in what follows from it
        words = ["layer_multipliers"]
    for word in words:
        assert word in lines[0], lines[0]


@pytest.mark.parametrize("command", ["inspect", "plan"])
@pytest.mark.parametrize("damage", [missing_shard, shard_short_by_a_byte, wrong_shape, missing_middle_piece_of_a_table],
                         ids=named)
def test_headers_alone_show_it(command, damage, copy_of, flashnext):
    folder = copy_of("mini-f32")
    words = damage(folder)
    done = flashnext.run(command, "--model-dir", folder)
    assert done.returncode == 3 and done.stdout == "", done.stdout + done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def test_no_such_directory(flashnext, tmp_path):
    done = flashnext.run("inspect", "--model-dir", tmp_path / "absent")
    assert done.returncode == 3 and "absent" in done.stderr and done.stdout == ""


# ---- requests ---------------------------------------------------------------------------------------

MODEL = DATA / "mini-f32" / "checkpoint"


@pytest.mark.parametrize("ids,word", [("[[1, 130]]", "130"), ("[[1, -1]]", "-1"), ("[[99999999999]]", "99999999999"),
                                      ("[[1, 2], [3]]", ""), ("[]", ""), ("[[]]", ""), ("[[1, 2", ""), ('[["a"]]', "")])
def test_bad_ids(ids, word, flashnext, tmp_path):
    (tmp_path / "ids.json").write_text(ids)
    done = flashnext.run("logits", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "--out", tmp_path / "o")
    assert done.returncode == 2 and done.stdout == "" and word in done.stderr and "ids.json" in done.stderr, done.stderr
    assert not (tmp_path / "o").exists()


def test_split_that_does_not_add_up(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[[1, 2, 3, 4]]")
    for split in ("2,1", "2,3", "2,0,2", "a"):
        done = flashnext.run("logits", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "--split", split, "--out",
                             tmp_path / "o")
        assert done.returncode == 2 and done.stdout == "", done.stderr


def test_prompt_longer_than_the_context(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text(json.dumps([5] * 50))
    done = flashnext.run("run", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "--context", 40, "--json")
    assert done.returncode in (1, 2) and "50" in done.stderr and "40" in done.stderr and done.stdout == "", done.stderr


def test_prompt_longer_than_the_model_allows(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text(json.dumps([5] * 5000))
    done = flashnext.run("run", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "--json")
    assert done.returncode in (1, 2) and "4096" in done.stderr and done.stdout == "", done.stderr


def test_generation_stops_at_the_end_of_the_context(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text(json.dumps([5] * 30))
    got = flashnext.json("run", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "--context", 40, "--temp", 0,
                         "--ignore-eos", "--json")
    assert got["finish_reason"] == "length" and len(got["ids"]) in (10, 11)


def test_no_new_tokens_means_none(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[5, 6, 7]")
    got = flashnext.json("run", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "-n", 0, "--json")
    assert got["ids"] == [] and got["finish_reason"] == "length"


def test_a_golden_file_that_is_not_there_is_named(flashnext, tmp_path):
    done = flashnext.run("verify", "--model-dir", MODEL, "--golden", tmp_path / "nothing")
    assert done.returncode != 0 and str(tmp_path / "nothing") in done.stderr and "case.json" not in done.stderr


def test_a_directory_without_a_model_lacks_its_config(flashnext, tmp_path):
    done = flashnext.run("chat", "-m", tmp_path, "-p", "x")
    assert done.returncode == 3 and "config.json" in done.stderr


def test_settings_file_with_a_zero_byte(flashnext, tmp_path):
    (tmp_path / "settings").write_bytes(b"temp = 0\0.5\n")
    done = flashnext.run("run", "--model-dir", MODEL, "-p", "x", "--config", tmp_path / "settings")
    assert done.returncode == 2 and "settings:1" in done.stderr


def test_empty_prompt(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[]")
    done = flashnext.run("run", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json")
    assert done.returncode == 2 and done.stdout == "" and "empty" in done.stderr


def test_too_little_memory_is_refused_with_numbers(flashnext, tmp_path):
    (tmp_path / "ids.json").write_text("[[1]]")
    done = flashnext.run("logits", "--model-dir", MODEL, "--ids-file", tmp_path / "ids.json", "--mem-limit", "64KiB", "--out",
                         tmp_path / "o")
    assert done.returncode == 4 and done.stdout == "" and any(c.isdigit() for c in done.stderr), done.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["logits", "--no-such-option"], ["run", "--temp", "hot"],
                                       ["logits", "--isa", "mmx"], ["run", "--top-p", "2"], ["run", "--top-p", "0"], ["chat", "--new-tokens"],
                                       ["chat", "--model-dir=", "-p", "x"], ["help", "chat", "run"], ["man", "x"], ["version", "x"],
                                       ["chat", "-c", "99999999", "-p", "x"]])
def test_usage(arguments, flashnext):
    done = flashnext.run(*arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("flashnext: ")


def test_chat_without_a_template_names_the_option(flashnext):
    done = flashnext.run("chat", "--model-dir", MODEL, "--prompt", "hello")
    assert done.returncode == 3 and done.stdout == ""


def test_nan_weights_are_an_error_and_never_a_token(copy_of, flashnext, tmp_path):
    folder = copy_of("mini-dense")
    edit(folder, "lm_head.weight", lambda dtype, shape, data: (dtype, shape, struct.pack("<f", float("nan")) + data[4:]))
    (tmp_path / "ids.json").write_text("[1, 2, 3]")
    done = flashnext.run("run", "--model-dir", folder, "--ids-file", tmp_path / "ids.json", "--temp", 0, "--json")
    assert done.returncode == 1 and done.stdout == "" and "not a number" in done.stderr, done.stderr
    out = tmp_path / "out.safetensors"
    done = flashnext.run("logits", "--model-dir", folder, "--ids-file", tmp_path / "ids.json", "--out", out)
    assert done.returncode == 1 and done.stderr.endswith(
        "3 of 330 logits are not a number, the first in row 0 at position 0, of id 0\n"), done.stderr
    assert out.exists()


def test_long_names_of_files_are_whole(flashnext, copy_of):
    """Folders and files as deep and long as the system allows them: a message names them whole."""
    model = copy_of("mini-f32")
    deep = model.parent / ("d" * 120) / ("e" * 120)
    deep.parent.mkdir()
    model.rename(deep)
    index = deep / "model.safetensors.index.json"
    whole = json.loads(index.read_text())
    names = [letter * 230 + ".safetensors" for letter in "xyz"]
    for tensor, name in zip(list(whole["weight_map"]), names):
        whole["weight_map"][tensor] = name
    index.write_text(json.dumps(whole))
    done = flashnext.run("inspect", "--model-dir", deep)
    assert done.returncode == 3 and f"{index}: 3 files missing (incomplete download?): {names[0]}, ..." in done.stderr, done.stderr
