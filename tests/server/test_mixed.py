"""Thousands of ordinary requests of every kind against one server: each gets its own right answer, what /metrics counts is what the
clients counted, and the memory is where it was."""
import collections
import concurrent.futures
import json
import random

import pytest

from serving import Server, idle, level

WORDS = ("lighthouse", "telescope", "river", "canoe", "sunflower", "bridge", "violin", "candle", "anchor", "harbor", "mirror", "ladder")
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def bodies():
    """(path, body, expected status) of every kind of request; each of the first two paths has an answer of its own."""
    for i, word in enumerate(WORDS):
        question = {"role": "user", "content": f"What is a {word}?"}
        sampled = {"temperature": 0.9 * (i % 2), "seed": i, "max_tokens": 4 + 3 * i}
        yield CHAT, {"messages": [question], **sampled}, 200
        yield CHAT, {"messages": [question], **sampled, "stream": True, "stream_options": {"include_usage": True}, "enable_thinking": i % 3 > 0}, 200
        yield CHAT, {"messages": [{"role": "system", "content": "Be brief."}, question, {"role": "assistant", "content": "A thing.", "reasoning_content": "Hm."},
                                  {"role": "user", "content": "More?"}], **sampled, "logprobs": True, "top_logprobs": i % 4, "n": 1 + i % 3}, 200
        yield COMPLETIONS, {"prompt": f"A {word} is", **sampled, "echo": i % 2 == 0, "logprobs": i % 3, "stop": ["\n", "ship"]}, 200
        yield COMPLETIONS, {"prompt": [[i + 5, 9, 300 + i], [7, 8]], **sampled, "ignore_eos": True, "presence_penalty": 0.5, "stream": i % 2 > 0,
                            "stream_options": {"include_usage": True} if i % 2 > 0 else None}, 200
        yield "/tokenize", {"content": f"What is a {word}?"}, 200
        yield "/detokenize", {"tokens": [i + 5, 9, 300 + i]}, 200
        yield CHAT, {"messages": [question], "temperature": f"hot{i}"}, 400
    yield CHAT, {"messages": [{"role": "user", "content": "ships and harbours, " * 80}], "temperature": 0, "max_tokens": 5}, 200
    yield COMPLETIONS, {"prompt": [5] * 5000}, 400
    yield "/v1/nowhere", {}, 404


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in ("id", "created", "timings", "prompt_tokens_details")}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def ask(client, path, body):
    """(status, the whole answer without what differs from time to time, usage)"""
    if not body.get("stream"):
        reply = client.post(path, json=body)
        whole = reply.json()
        return reply.status_code, without_times(whole), whole.get("usage")
    texts, ends, usage = collections.defaultdict(str), {}, None
    with client.stream("POST", path, json=body) as reply:
        lines = [line for line in reply.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    for event in map(json.loads, (line[6:] for line in lines[:-1])):
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            delta = choice.get("delta") or {"content": choice.get("text")}
            for part in ("reasoning_content", "content"):
                texts[choice["index"], part] += delta.get(part) or ""
            ends[choice["index"]] = choice["finish_reason"] or ends.get(choice["index"])
    return reply.status_code, (sorted(texts.items()), sorted(ends.items()), {k: usage[k] for k in ("prompt_tokens", "completion_tokens")}), usage


def finish_reasons(body, answer):
    if body.get("stream"):
        return [reason for _, reason in answer[1]]
    return [choice["finish_reason"] for choice in answer["choices"]]


METRICS = ("prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total", 'request_success_total{finished_reason="stop"}',
           'request_success_total{finished_reason="length"}', "request_cancelled_total", "request_failed_total", "request_refused_total",
           'http_responses_total{class="2xx"}', 'http_responses_total{class="4xx"}', 'http_responses_total{class="5xx"}',
           "e2e_request_latency_seconds_count", "time_to_first_token_seconds_count", "inter_token_latency_seconds_count")


def metrics(server):
    """The first count is the number of answers at /metrics before this one."""
    lines = dict(line.rsplit(" ", 1) for line in server.get("/metrics").text.split("\n") if line and line[0] != "#")
    return {name: int(float(lines["flashnext_" + name])) for name in METRICS}


def mixed(server, n, seed):
    every = list(bodies())
    with server.client() as client:
        alone = [ask(client, path, body) for path, body, _ in every]
    for (path, body, status), got in zip(every, alone):
        assert got[0] == status, (path, body, got)
    kinds = {repr(answer) for (path, _, status), (_, answer, _) in zip(every, alone) if path in (CHAT, COMPLETIONS) and status == 200}
    assert len(kinds) == 5 * len(WORDS) + 1
    before, counted = metrics(server), collections.Counter()

    def worker(share):
        count = collections.Counter()
        with server.client() as client:
            for i in share:
                which = random.Random(seed * 1_000_003 + i).randrange(len(every))
                path, body, status = every[which]
                got_status, answer, usage = ask(client, path, body)
                assert (got_status, answer) == alone[which][:2], (i, path, body)
                count[f'http_responses_total{{class="{got_status // 100}xx"}}'] += 1
                if usage:
                    reasons = finish_reasons(body, answer)
                    count["prompt_tokens_total"] += usage["prompt_tokens"]
                    count["prompt_tokens_cached_total"] += usage["prompt_tokens_details"]["cached_tokens"]
                    count["generation_tokens_total"] += usage["completion_tokens"]
                    count["e2e_request_latency_seconds_count"] += 1
                    count["time_to_first_token_seconds_count"] += len(reasons)
                    count["inter_token_latency_seconds_count"] += usage["completion_tokens"] - len(reasons)
                    for reason in reasons:
                        count[f'request_success_total{{finished_reason="{reason}"}}'] += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for count in pool.map(worker, [range(w, n, 12) for w in range(12)]):
            counted += count
    asked = idle(server)
    after = metrics(server)
    counted['http_responses_total{class="2xx"}'] += 1 + asked  # /metrics itself
    assert {name: after[name] - before[name] for name in METRICS} == {name: counted[name] for name in METRICS}
    assert counted['request_success_total{finished_reason="stop"}'] and counted['request_success_total{finished_reason="length"}']


@pytest.mark.parametrize("n", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_ordinary_requests_are_answered_and_counted(n, flashnext):
    server = Server(flashnext.path, "-t", "2", "--parallel", "8", "--max-queue", "100", "--context", "2048", "--cache-size", "8MiB", "-q").ready()
    try:
        mixed(server, 300, 1)
        if n > 300:
            was = level(server)
            mixed(server, n, 2)
            now = level(server)
            print("RssAnon and resident MB:", [tuple(round(part / 1e6, 2) for part in each) for each in (was, now)])
            assert all(0.98 * a <= b <= 1.02 * a for a, b in zip(was, now)), (was, now)
    finally:
        server.stop()
