"""Request bodies as other clients send them, written from the shapes in their sources, and what they read from the answers:
vllm bench serve, guidellm, llama-benchy, Open WebUI, lm-eval. Replayed, not run."""
import numpy
import pytest
import tokenizers

from prometheus_client.parser import text_string_to_metric_families
from serving import DEMO, serving

PROMPT = "a lighthouse is a tower"


def test_vllm_bench_completions(server):
    body = {"model": "demo", "prompt": PROMPT, "max_tokens": 16, "logprobs": None, "stream": True, "stream_options": {"include_usage": True},
            "repetition_penalty": 1.0, "temperature": 0.0, "ignore_eos": True}
    events = server.events("/v1/completions", body)
    assert events[-1] == "[DONE]"
    texts = [event["choices"][0]["text"] for event in events[:-1] if event["choices"]]
    assert events[-2]["usage"]["completion_tokens"] == 16
    # it takes each chunk with choices for a token: none is empty but the last, which has the reason
    assert all(texts[:-1]) and events[-3]["choices"][0]["finish_reason"] == "length"


def test_vllm_bench_chat(server):
    body = {"model": "demo", "messages": [{"role": "user", "content": [{"type": "text", "text": "What is a lighthouse?"}]}], "max_completion_tokens": 12,
            "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0, "repetition_penalty": 1.0, "ignore_eos": True}
    events = server.events("/v1/chat/completions", body)
    counted = sum(1 for event in events[:-1] if event["choices"] and
                  (event["choices"][0]["delta"].get("content") is not None or event["choices"][0]["delta"].get("reasoning") is not None))
    assert events[-2]["usage"]["completion_tokens"] == 12 and 0 < counted <= 13


def test_guidellm(server):
    body = {"model": "demo", "messages": [{"role": "user", "content": [{"type": "text", "text": "Tell me of ships"}]}], "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}, "max_completion_tokens": 10, "stop": None, "ignore_eos": True}
    events = server.events("/v1/chat/completions", body)
    counts = [event["usage"]["completion_tokens"] for event in events[:-1] if event.get("usage")]
    assert counts == sorted(counts) and counts[-1] == 10 and len(counts) > 5
    with server.client() as client:
        assert client.get("/health").status_code == 200


def test_llama_benchy(server):
    body = {"model": "demo", "messages": [{"role": "user", "content": "What is a telescope?"}], "max_tokens": 14, "min_tokens": 14, "ignore_eos": True,
            "stream": True, "stream_options": {"include_usage": True}, "cache_prompt": False, "return_token_ids": True, "temperature": 0}
    events = server.events("/v1/chat/completions", body)
    ids = [i for event in events[:-1] for choice in event["choices"] for i in choice.get("token_ids", [])]
    assert len(ids) == 14 == events[-2]["usage"]["completion_tokens"]
    again = server.events("/v1/chat/completions", body)
    assert again[-2]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


def test_timings_per_token(server):
    """As llama.cpp's clients ask for them: in every chunk with a token, growing, and the last chunk's is the whole."""
    body = {"messages": [{"role": "user", "content": "What is a telescope?"}], "max_tokens": 14, "ignore_eos": True, "stream": True, "temperature": 0,
            "timings_per_token": True}
    events = server.events("/v1/chat/completions", body)[:-1]
    timings = [event["timings"] for event in events if event["choices"] and event["choices"][0]["delta"].get("role") is None]
    counts = [each["predicted_n"] for each in timings]
    assert counts == sorted(counts) and counts[0] >= 1 and counts[-1] == 14 and len(counts) > 5
    assert {each["cache_n"] + each["prompt_n"] for each in timings} == {timings[-1]["cache_n"] + timings[-1]["prompt_n"]}
    assert len({each["cache_n"] for each in timings}) == 1 and all(each["predicted_ms"] >= 0 and each["prompt_ms"] > 0 for each in timings)
    assert "timings" not in server.events("/v1/chat/completions", {**body, "timings_per_token": False})[3]


def test_open_webui(server):
    body = {"stream": True, "model": "demo", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a lighthouse?"}],
            "stream_options": {"include_usage": True}, "user": {"name": "x", "id": "y"}, "session_id": "s", "chat_id": "c", "id": "m",
            "background_tasks": {"title_generation": True}, "features": {"web_search": False}, "variables": {"{{USER_NAME}}": "x"}, "params": {},
            "tool_servers": [], "model_item": {"id": "demo"}}
    events = server.events("/v1/chat/completions", body)
    last = events[-2]
    assert last["usage"]["total_tokens"] > 0 and last["timings"]["predicted_per_second"] > 0
    assert any(event["choices"] and event["choices"][0]["delta"].get("reasoning_content") for event in events[:-1])
    title = {"model": "demo", "messages": body["messages"], "stream": False, "max_completion_tokens": 5, "metadata": {"task": "title_generation"}}
    assert server.post("/v1/chat/completions", title).json()["choices"][0]["message"]["content"] is not None


def lm_eval(server, prompts):
    """What local-completions asks for a loglikelihood, and how it reads the answer."""
    reply = server.post("/v1/completions", {"model": "demo", "prompt": prompts, "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True})
    assert reply.status_code == 200, reply.text
    return sorted(reply.json()["choices"], key=lambda choice: choice["index"])


def test_lm_eval_loglikelihood(server):
    oracle = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    prompts = [oracle.encode(text).ids for text in (PROMPT, "the word is telescope", "ships pass")]
    for ids, choice in zip(prompts, lm_eval(server, prompts)):
        shown = choice["logprobs"]
        assert len(shown["token_logprobs"]) == len(ids) + 1 and shown["token_logprobs"][0] is None and shown["top_logprobs"][0] is None
        assert all(value <= 0 for value in shown["token_logprobs"][1:])
        # greedy: the token's value is the largest, as the same number
        for value, top in zip(shown["token_logprobs"][1:], shown["top_logprobs"][1:]):
            assert value <= max(top.values())
        assert shown["token_logprobs"][-1] == max(shown["top_logprobs"][-1].values())
        assert choice["text"].startswith(oracle.decode(ids))
        for name, offset in zip(shown["tokens"], shown["text_offset"]):
            assert name.startswith("bytes:") or choice["text"][offset:].startswith(name) or not choice["text"][offset:]


def gloss(word):
    return next(line.split("\t")[1] for line in (DEMO / "definitions.tsv").read_text().splitlines() if line.startswith(word + "\t"))


def test_lm_eval_generation(server):
    """Several prompts of ids, four stop strings, one of them in every answer's end."""
    oracle = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    asked = [f"<|im_start|>user\nWhat is a {word}?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n" for word in ("telescope", "canoe")]
    body = {"prompt": [oracle.encode(text).ids for text in asked], "model": "demo", "max_tokens": 64, "temperature": 0,
            "stop": ["Question:", "</s>", "<|im_end|>", "\n\n"], "seed": 1234}
    choices = sorted(server.post("/v1/completions", body).json()["choices"], key=lambda choice: choice["index"])
    assert [choice["text"] for choice in choices] == [gloss("telescope"), gloss("canoe")]
    assert all(choice["finish_reason"] == "stop" for choice in choices)


def test_lm_eval_chat(server):
    body = {"messages": [{"role": "user", "content": "What is a telescope?", "type": "text"}], "model": "demo", "max_tokens": 256, "temperature": 0,
            "stop": ["<|im_end|>"], "seed": 1234}
    message = server.post("/v1/chat/completions", body).json()["choices"][0]["message"]
    assert message["content"] == gloss("telescope")


def test_echoed_logprobs_are_the_models(flashnext, tmp_path):
    """Against `flashnext logits`, which is compared with the official implementation elsewhere."""
    from safetensors.numpy import load_file
    oracle = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    ids = oracle.encode("The word is lighthouse. a tower with a light").ids
    (tmp_path / "ids.json").write_text(str(ids))
    flashnext.ok("logits", "--model-dir", DEMO, "--ids-file", tmp_path / "ids.json", "--out", tmp_path / "logits.safetensors")
    logits = load_file(tmp_path / "logits.safetensors")["logits"][0].astype(numpy.float64)
    logprobs = logits - numpy.log(numpy.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)
    with serving(flashnext, "--precision", "exact") as server:
        got = lm_eval(server, [ids])[0]["logprobs"]["token_logprobs"]
    for at in range(1, len(ids)):
        assert got[at] == pytest.approx(logprobs[at - 1][ids[at]], abs=1e-4)


def test_echo_of_nothing_new(server):
    reply = server.complete(PROMPT, max_tokens=0, echo=True, logprobs=2)
    choice = reply["choices"][0]
    assert choice["text"] == PROMPT and choice["finish_reason"] == "length" and reply["usage"]["completion_tokens"] == 0
    assert len(choice["logprobs"]["tokens"]) == reply["usage"]["prompt_tokens"]
    events = server.events("/v1/completions", {"prompt": PROMPT, "max_tokens": 3, "echo": True, "logprobs": 1, "temperature": 0})
    whole = server.complete(PROMPT, max_tokens=3, echo=True, logprobs=1)["choices"][0]
    assert "".join(event["choices"][0]["text"] for event in events[:-1] if event["choices"]) == whole["text"]
    shown = [event["choices"][0]["logprobs"] for event in events[:-1] if event["choices"] and event["choices"][0]["logprobs"]]
    for key in ("tokens", "token_logprobs", "text_offset"):
        assert [each for part in shown for each in part[key]] == whole["logprobs"][key]


def test_prometheus_reads_the_metrics(server):
    server.chat()
    families = {family.name: family for family in text_string_to_metric_families(server.get("/metrics").text)}
    for name in ("prompt_tokens", "prompt_tokens_cached", "generation_tokens", "request_success", "requests_running", "requests_waiting",
                 "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                 "kv_cache_usage_ratio", "state_checkpoints", "prefix_cache_queries", "prefix_cache_hits", "spec_decode_num_draft_tokens",
                 "spec_decode_num_accepted_tokens", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens_per_pos",
                 "spec_decode_num_draft_tokens_per_pos", "spec_decode_tokens_per_pass", "spec_decode_speedup", "ngram_rows", "ngram_cached_rows",
                 "ngram_read_rows", "ngram_read_bytes", "build_info"):
        assert "flashnext_" + name in families, sorted(families)
    for family in families.values():
        assert family.documentation
        if family.type == "histogram":
            buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
            count = next(sample.value for sample in family.samples if sample.name.endswith("_count"))
            assert buckets == sorted(buckets) and buckets[-1] == count > 0
    before, rows = server.metric("flashnext_generation_tokens_total"), server.metric("flashnext_ngram_rows_total")
    generated = server.chat()["usage"]["completion_tokens"]
    assert server.metric("flashnext_generation_tokens_total") == before + generated
    assert server.metric("flashnext_ngram_rows_total") >= rows + generated
    assert families["process_resident_memory_bytes"].samples[0].value > 1e7
