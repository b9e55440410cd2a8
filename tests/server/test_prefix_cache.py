"""The prefix cache: a turn reads only what is new; with a folder, restarts find it, and a server that is killed while it writes leaves
nothing that is wrong."""
import concurrent.futures
import random
import time

import httpx2 as httpx
import pytest

from serving import Server, idle, serving

WORDS = ("lighthouse", "telescope", "river", "canoe", "sunflower")


def conversation(word, turns):
    """Long enough that its states are kept at several places."""
    messages = [{"role": "system", "content": "Answer in one sentence. " * 8}]
    for turn in range(turns):
        messages += [{"role": "user", "content": f"What is a {word}? Question {turn}. " * 3}, {"role": "assistant", "content": f"A {word}, as I said. " * 3}]
    return {"messages": messages[:-1], "temperature": 0, "max_tokens": 12, "ignore_eos": True, "logprobs": True, "top_logprobs": 3}


def ask(server, body):
    """(what may not differ, cached tokens)"""
    reply = server.post("/v1/chat/completions", body)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"], reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("keeps_thoughts", [True, False])
def test_a_turn_reads_only_what_is_new(keeps_thoughts, server):
    """Ten turns, with drafting, as clients that send thoughts back and as those that drop them; each as long as the last, however deep."""
    messages, before = [{"role": "system", "content": f"Thoughts are kept: {keeps_thoughts}."}], 0
    for turn in range(10):
        messages.append({"role": "user", "content": f"What is a {WORDS[turn % 5]}? " + "Tell me about ships. " * 8})
        reply = server.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 60}).json()
        usage, message = reply["usage"], reply["choices"][0]["message"]
        read = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        # a state that lies less than 16 tokens behind another is not kept
        assert read == reply["timings"]["prompt_n"] <= usage["prompt_tokens"] - before + 16, (turn, usage)
        before = usage["prompt_tokens"]
        messages.append({"role": "assistant", "content": message["content"], **({"reasoning_content": message.get("reasoning_content")} if keeps_thoughts else {})})


def test_a_restart_goes_on_from_the_folder(flashnext, tmp_path):
    with serving(flashnext, "-t", 2, "--cache-size", 0) as server:
        alone = {(word, turns): ask(server, conversation(word, turns))[0] for word in WORDS[:3] for turns in (1, 2)}
    for round in range(3):
        with serving(flashnext, "-t", 2, "--cache-dir", tmp_path) as server:
            for word in WORDS[:3]:
                got, cached = ask(server, conversation(word, 1 + (round > 0)))
                assert got == alone[word, 1 + (round > 0)]
                assert round == 0 or cached > 60, (round, word, cached)
            assert round == 0 or server.metric("flashnext_prefix_cache_disk_hits_total") > 0
    for kept in tmp_path.glob("*.state"):  # damaged meanwhile: never used, never fatal
        data = bytearray(kept.read_bytes())
        data[len(data) // 2] ^= 1
        kept.write_bytes(data)
    with serving(flashnext, "-t", 2, "--cache-dir", tmp_path) as server:
        for word in WORDS[:3]:
            assert ask(server, conversation(word, 2))[0] == alone[word, 2]


def test_killed_while_it_writes(flashnext, tmp_path):
    """kill -9 at any moment of a load that writes all the time."""
    chance = random.Random(4)
    bodies = [conversation(word, turns) for word in WORDS for turns in (1, 2, 3)]
    with serving(flashnext, "-t", 2, "--cache-size", 0) as server:
        alone = [ask(server, body)[0] for body in bodies]
    found = 0
    for _ in range(5):
        server = Server(flashnext.path, "-t", "2", "--cache-dir", tmp_path, "--cache-dir-size", "30MB", "-q").ready()

        def one(which):
            try:
                return which, ask(server, bodies[which])
            except httpx.HTTPError:  # the server is gone
                return which, None

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(one, chance.randrange(len(bodies))) for _ in range(40)]
            time.sleep(chance.random() * 0.4)
            server.process.kill()
            for which, answer in (done.result() for done in asked):
                if answer is not None:
                    assert answer[0] == alone[which]
        server.stop()
    with serving(flashnext, "-t", 2, "--cache-dir", tmp_path) as server:
        for which, body in enumerate(bodies):
            answer, cached = ask(server, body)
            assert answer == alone[which]
            found += cached > 0
        assert found > 0
        idle(server)
