"""/tokenize, /detokenize, /tokenizer_info, /apply-template, /props against the tokenizers and jinja2 packages' own answers."""
import json

import jinja2
import tokenizers

from serving import DEMO

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a lighthouse?"}]


def test_tokenize_in_both_shapes(server):
    oracle = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    for text in ["", "What is a lighthouse?", "<|im_start|>user\nx<|im_end|>", "naïve 世界 👩‍👩‍👧\n\n  x"]:
        ids = oracle.encode(text, add_special_tokens=False).ids
        for field in ("content", "prompt"):
            reply = server.post("/tokenize", {field: text, "add_special_tokens": False}).json()
            assert reply == {"tokens": ids, "count": len(ids), "max_model_len": 4096}
        back = server.post("/detokenize", {"tokens": ids}).json()
        assert back["content"] == back["prompt"] == oracle.decode(ids, skip_special_tokens=False)
    pieces = server.post("/tokenize", {"content": "light é", "with_pieces": True}).json()["tokens"]
    assert b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces) == "light é".encode()
    assert len(server.post("/tokenize", {"prompt": "light", "return_token_strs": True}).json()["token_strs"]) == len(oracle.encode("light").ids)
    plain = server.post("/tokenize", {"content": "<|im_end|>", "parse_special": False}).json()["tokens"]
    assert oracle.token_to_id("<|im_end|>") not in plain


def test_templates_are_rendered_as_jinja2_does(server):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((DEMO / "chat_template.jinja").read_text())
    for kwargs in ({}, {"enable_thinking": False}, {"reasoning_effort": "low"}):
        expected = template.render(messages=MESSAGES, add_generation_prompt=True, **kwargs)
        assert server.post("/apply-template", {"messages": MESSAGES, "chat_template_kwargs": kwargs}).json()["prompt"] == expected
    whole = server.post("/tokenize", {"messages": MESSAGES}).json()
    assert whole["tokens"] == server.post("/tokenize", {"content": template.render(messages=MESSAGES, add_generation_prompt=True)}).json()["tokens"]


def test_tokenizer_info_is_what_remote_tokenizers_read(server):
    info = server.get("/tokenizer_info").json()
    config = json.loads((DEMO / "tokenizer_config.json").read_text())
    assert info["eos_token"] == config["eos_token"] and info["pad_token"] == config["pad_token"] and info["bos_token"] is None
    assert info["chat_template"] == (DEMO / "chat_template.jinja").read_text()
    assert info["tokenizer_class"] == config["tokenizer_class"] and info["model_max_length"] == 4096


def test_props(server):
    props = server.get("/props").json()
    assert props == server.get("/v1/props").json()
    settings = props["default_generation_settings"]
    config = json.loads((DEMO / "generation_config.json").read_text())
    assert settings["n_ctx"] == 4096 and props["total_slots"] == 16
    assert settings["params"]["top_k"] == config["top_k"] and abs(settings["params"]["temperature"] - config["temperature"]) < 1e-6
    assert props["modalities"] == {"vision": False, "audio": False}


def test_model_card(server):
    model = server.get("/v1/models").json()["data"][0]
    assert server.get("/models").json()["data"][0] == model == server.get("/v1/models/demo").json()
    sizes = [path.stat().st_size for path in DEMO.glob("*.safetensors")]
    assert 0.95 * sum(sizes) < model["meta"]["size"] <= sum(sizes)
    assert model["meta"]["n_params"] == 10662315 and model["meta"]["n_ctx"] == model["max_model_len"] == 4096
