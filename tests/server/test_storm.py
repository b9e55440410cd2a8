"""Clients that leave at every moment while others are answered: every answer that is waited for is its own client's and right, nothing is
found by the sanitizers, and the memory is given back. Seeds are fixed."""
import concurrent.futures
import json
import os
import random
import socket
import time

import httpx2 as httpx
import pytest

from conftest import ROOT
from serving import Server, idle, level

QUESTIONS = [f"What is a {word}?" for word in ("lighthouse", "telescope", "river", "canoe", "sunflower", "bridge", "violin", "candle")]
STAGES = ["connect", "head", "body", "queued", "prompt", "first bytes", "decode", "answered"]


def bodies():
    """What is asked: each has an answer of its own."""
    for i, question in enumerate(QUESTIONS):
        yield {"messages": [{"role": "user", "content": question}], "temperature": i % 2, "seed": i, "max_tokens": 6 + 5 * i, "ignore_eos": i % 3 == 0,
               "stream": i % 4 < 2, "n": 1 + (i == 5)}
    yield {"messages": [{"role": "user", "content": "Tell me about " + "ships and harbours, " * 60}], "temperature": 0, "max_tokens": 8, "stream": True}


def request(body):
    content = httpx.Request("POST", "http://x/", json=body).content
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(content), content


def answer(got):
    """Texts by choice; of a stream put together."""
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), got[:300]
    texts = {}
    if b"text/event-stream" in head:
        assert b"data: [DONE]\n\n" in body, got[-300:]
        events = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
        for choice in (choice for event in events for choice in event["choices"]):
            delta = choice["delta"]
            texts[choice["index"]] = texts.get(choice["index"], "") + (delta.get("reasoning_content") or "") + (delta.get("content") or "")
    else:
        for choice in json.loads(body)["choices"]:
            texts[choice["index"]] = (choice["message"].get("reasoning_content") or "") + (choice["message"]["content"] or "")
    return texts


def all_of(s):
    got = b""
    while (piece := s.recv(65536)):
        got += piece
    return got


def ask(server, body):
    with server.socket() as s:
        s.settimeout(300)
        s.sendall(b"".join(request(body)))
        return all_of(s)


def leave(s, chance, stage, head, content):
    """Comes as far as the stage, then goes in one of three ways."""
    if stage == "head":
        s.sendall(head[:chance.randrange(1, len(head))])
    elif stage == "body":
        s.sendall(head + content[:chance.randrange(len(content))])
    elif stage != "connect":
        s.sendall(head + content)
    if stage == "prompt":
        time.sleep(chance.random() * 0.03)
    elif stage == "first bytes":
        s.recv(1)
    elif stage == "decode":
        s.recv(300)
        for _ in range(chance.randrange(1, 6)):
            s.recv(chance.randrange(1, 2000))
    how = chance.randrange(3)
    if how == 0:
        s.shutdown(socket.SHUT_WR)
        time.sleep(0.001)
    elif how == 1:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset


def storm(server, n, workers, seed):
    """n requests, of which four in five leave; returns how many were answered and how many left at each stage."""
    every = list(bodies())
    alone = [answer(ask(server, body)) for body in every]
    assert len({json.dumps(texts) for texts in alone}) == len(every)
    count = dict.fromkeys(STAGES, 0)

    def one(i):
        chance = random.Random(seed * 100_003 + i)
        which = chance.randrange(len(every))
        stage = chance.choice(STAGES[:-1]) if chance.random() < 0.8 else "answered"
        if stage == "answered":
            assert answer(ask(server, every[which])) == alone[which], (i, which)
        else:
            with server.socket() as s:
                s.settimeout(300)
                try:
                    leave(s, chance, stage, *request(every[which]))
                except OSError:
                    pass
        return stage

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for stage in pool.map(one, range(n)):
            count[stage] += 1
    idle(server, 120)
    assert [answer(ask(server, body)) for body in every] == alone
    return count


def run(path, n, workers, seconds_to_start=60, **environment):
    server = Server(path, "-t", "2", "--parallel", "8", "--max-queue", "200", "--cache-size", "8MiB", "-q", **environment)
    try:
        server.until(r"ready: ", seconds_to_start)
        count = storm(server, n, workers, 1)
        assert all(count.values()), count
        cancelled = server.metric("flashnext_request_cancelled_total")
    finally:
        code = server.stop()
    for word in ("Sanitizer", "runtime error"):
        assert word not in server.seen, server.seen[server.seen.index(word) - 200:][:5000]
    assert code == 0, server.seen[-3000:]
    return count, cancelled


def test_disconnects_at_every_stage(flashnext):
    count, cancelled = run(flashnext.path, 160, 16)
    assert cancelled > 10, count


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["asan", "tsan"])
def test_2000_requests_under_a_sanitizer(kind):
    path = os.environ.get(f"FLASHNEXT_{kind.upper()}_BIN", ROOT / "build" / kind / "flashnext")
    if not os.path.exists(path):
        pytest.skip(f"there is no {kind} build")
    count, cancelled = run(path, 2000, 24, 200, TSAN_OPTIONS="halt_on_error=0", UBSAN_OPTIONS="print_stacktrace=1")
    print(kind, count, "cancelled:", cancelled)


def warm_up(server):
    """Ordinary requests: as many at once as there are places, other questions than those that follow, one long prompt. They touch every
    buffer, and fill the prefix cache."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: server.chat(f"What is a {i} for?", max_tokens=40, ignore_eos=True), range(64)))
    ask(server, list(bodies())[-1])


@pytest.mark.slow
def test_2000_requests_leave_no_memory_behind(flashnext):
    """After each of three storms memory is back where it was after a few ordinary requests, within 2 %."""
    server = Server(flashnext.path, "-t", "2", "--parallel", "8", "--max-queue", "200", "--cache-size", "8MiB", "-q").ready()
    try:
        warm_up(server)
        levels = [level(server)]
        for seed in (1, 2, 3):
            storm(server, 2000, 24, seed)
            levels.append(level(server))
        print("RssAnon and resident MB:", [tuple(round(part / 1e6, 2) for part in each) for each in levels])
        for after in levels[1:]:
            assert all(0.98 * was <= now <= 1.02 * was for now, was in zip(after, levels[0])), levels
    finally:
        server.stop()
