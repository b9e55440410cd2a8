"""Limits and faults on loopback: what is no HTTP, what is too long or too slow, clients that leave, a full queue, the end."""
import concurrent.futures
import json
import random
import signal
import socket
import time

import httpx2 as httpx
import pytest

from serving import Server, idle, serving

ENDLESS = {"messages": [{"role": "user", "content": "What is a lighthouse?"}], "ignore_eos": True, "temperature": 0}


def exchange(server, sent, shut=False):
    """All bytes that come back until the server closes; shut: nothing more is sent."""
    with server.socket() as s:
        got = b""
        try:
            s.sendall(sent)
            if shut:
                s.shutdown(socket.SHUT_WR)
            while (piece := s.recv(65536)):
                got += piece
        except OSError:
            pass  # closed with bytes unread
        return got


POST = b"POST /v1/chat/completions HTTP/1.1\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def refusal(got):
    """The one JSON error that a refusal consists of."""
    head, _, body = got.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert fields[b"content-type"].startswith(b"application/json") and int(fields[b"content-length"]) == len(body), got[:300]
    error = json.loads(body)["error"]
    assert error["message"] and error["type"] and {"param", "code"} <= set(error)
    return int(head.split(b" ")[1])


@pytest.mark.parametrize("sent,status", [
    (b"GARBAGE\r\n\r\n", 400), (b"GET\r\n\r\n", 400), (b"GET / HTTP/9.9\r\n\r\n", 505), (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    (b"GET / HTTP/1.1.1\r\n\r\n", 400), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 50 + b"\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nno colon here\r\n\r\n", 400), (b"GET " + b"/x" * 20000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(500)) + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nX: " + b"y" * 30000, 431), (POST + b"Content-Length: -5\r\n\r\n", 400), (POST + b"Content-Length: x\r\n\r\n", 400),
    (POST + b"Content-Length: 99999999999999\r\n\r\n", 413), (CHUNKED + b"ZZZ\r\n", 413), (CHUNKED + b"-3\r\nabc\r\n", 413),
    (CHUNKED + b"fffffffffff\r\n", 413), (POST + b"Expect: the-impossible\r\nContent-Length: 5\r\n\r\n", 417), (b"BREW / HTTP/1.1\r\n\r\n", 501),
    (b"TRACE / HTTP/1.1\r\n\r\n", 501), (POST + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}" + b"GET /health HTTP/1.1\r\n\r\n", 400),
    (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
    (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 400)], ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else str(value))
def test_what_is_no_request_is_refused_in_the_apis_shape(sent, status, server):
    got = exchange(server, sent)
    assert refusal(got) == status, got[:300]
    # the second request of a connection as the first
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with server.socket() as s:
        s.sendall(good)
        first = b""
        while not first.endswith(b'{"status":"ok"}'):
            first += s.recv(65536)
        s.sendall(sent)
        rest = b""
        try:
            while (piece := s.recv(65536)):
                rest += piece
        except OSError:
            pass
    assert refusal(rest) == status
    assert server.get("/health").status_code == 200


def test_a_body_is_sent_after_100_continue(server):
    body = b'{"content": "What is a lighthouse?"}'
    with server.socket() as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert s.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(body)
        got = b""
        while (piece := s.recv(65536)):
            got += piece
    assert got.startswith(b"HTTP/1.1 200 OK") and b'"tokens"' in got


@pytest.mark.parametrize("sent", [
    b"HEAD / HTTP/1.0\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nConnection: close\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"GET /%00%ff/..//?\xff HTTP/1.1\r\nConnection: close\r\n\r\n", b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n", POST + b"Content-Length: 50\r\n\r\n{", CHUNKED[:-2]], ids=lambda sent: repr(sent[:30]))
def test_odd_requests_end_quietly(sent, server):
    got = exchange(server, sent, shut=True)
    assert got == b"" or got.startswith(b"HTTP/1."), got[:100]
    assert b'"object":"list"' not in got and b"<HTML>" not in got
    assert server.get("/health").status_code == 200


def test_what_is_no_request_is_logged_and_counted(flashnext):
    with serving(flashnext, "--log-format", "json") as server:
        exchange(server, b"BREW / HTTP/1.1\r\n\r\n")
        assert 'flashnext_http_responses_total{class="5xx"} 1' in server.get("/metrics").text
    assert [line for line in server.seen.split("\n") if '"status":501' in line.replace(" ", "")]


def test_chunked_bodies_and_pipelined_requests(server):
    body = b'{"content": "What is a lighthouse?"}'
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:3], body[3:4], body[4:])) + b"0\r\n\r\n"
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    got = exchange(server, head + b"\r\n" + chunks + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + head + b"Connection: close\r\n\r\n" + chunks)
    assert got.count(b"HTTP/1.1 200 OK") == 3 and got.count(b'"tokens"') == 2 and got.index(b'"tokens"') < got.index(b'"status"')


def test_bytes_that_come_during_an_answer_wait(server):
    """The next request, and garbage, sent while the first is being answered."""
    body = b'{"messages": [{"role": "user", "content": "What is a lighthouse?"}], "temperature": 0, "max_tokens": 30, "ignore_eos": true, "stream": %s}'
    for stream in (b"true", b"false"):
        text = body % stream
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)
        with server.socket() as s:
            s.sendall(request)
            for _ in range(4):
                time.sleep(0.005)
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            got = b""
            s.settimeout(20)
            while (piece := s.recv(65536)):
                got += piece
        assert got.count(b"HTTP/1.1 200 OK") == 6 and got.count(b'{"status":"ok"}') == 5


def test_an_old_client_gets_its_stream(server):
    text = b'{"messages": [{"role": "user", "content": "What is a lighthouse?"}], "temperature": 0, "stream": true}'
    got = exchange(server, b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    assert b"Transfer-Encoding" not in got and got.endswith(b"data: [DONE]\n\n")


def test_bodies_at_and_over_the_limit(flashnext):
    with serving(flashnext, "--max-body", "65536") as server, server.client() as client:
        def post(n):
            body = b'{"content": "' + b"x" * (n - 15) + b'"}'
            assert len(body) == n
            return client.post("/tokenize", content=body)
        assert post(65536).status_code == 200
        try:
            assert post(65537).status_code == 413
        except httpx.HTTPError:
            pass  # it may be gone before all was sent
        assert post(65535).status_code == 200
        got = exchange(server, b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 413")


def test_a_large_body_holds_nobody_up(server):
    """While 32 MB are parsed and encoded, streams flow, small requests are answered, and the client may leave."""
    large = b'{"content": "' + b"a lighthouse is a tower, " * 1_300_000 + b'"}'
    body = {**ENDLESS, "stream": True, "max_tokens": 4000}
    with server.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as stream, concurrent.futures.ThreadPoolExecutor() as pool:
        lines = stream.iter_lines()
        next(lines)
        started = time.monotonic()
        busy = pool.submit(lambda: (server.post_bytes("/tokenize", large).content[-60:], time.monotonic() - started))
        waits = []
        while not busy.done():
            asked = time.monotonic()
            assert server.post("/tokenize", {"content": "a tower"}).json()["count"] > 0
            next(lines)
            waits.append(time.monotonic() - asked)
        end, seconds = busy.result()
    assert b'"count":10400001' in end and len(waits) > 5 and max(waits) < max(0.25, seconds / 4), (seconds, sorted(waits)[-5:])
    with server.socket() as s:
        s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(large) + large)
    assert server.get("/health").status_code == 200


def test_prompts_at_and_over_the_context(server):
    limit = 4096
    ids = [random.Random(1).randrange(100, 5000) for _ in range(3 * limit)]
    at = server.post("/v1/completions", {"prompt": ids[:limit - 1], "max_tokens": 50, "ignore_eos": True}).json()
    assert at["choices"][0]["finish_reason"] == "length" and at["usage"]["completion_tokens"] == 1
    for n in (limit, limit + 1, 3 * limit):
        reply = server.post("/v1/completions", {"prompt": ids[:n], "max_tokens": 1})
        error = reply.json()["error"]
        assert reply.status_code == 400 and error["type"] == "exceed_context_size_error" and error["code"] == "context_length_exceeded"
        assert error["n_prompt_tokens"] == n and error["n_ctx"] == limit and str(n) in error["message"] and str(limit) in error["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_leave_are_noticed(stream, server):
    """While queued, in the prompt and in the answer; a closed sending side is enough."""
    idle(server)
    for how in ("close", "half"):
        text = httpx.Request("POST", "http://x/", json={**ENDLESS, "stream": stream, "max_tokens": 3000}).content
        s = server.socket()
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        end = time.monotonic() + 10
        while server.metric("flashnext_requests_running") == 0:
            assert time.monotonic() < end
        before = server.metric("flashnext_request_cancelled_total")
        s.shutdown(socket.SHUT_WR) if how == "half" else s.close()
        idle(server, 5)
        assert server.metric("flashnext_request_cancelled_total") == before + 1
        s.close()


def test_a_queued_request_leaves_and_the_running_one_stays(flashnext):
    with serving(flashnext, "--parallel", "1") as server:
        alone = server.chat(max_tokens=300, ignore_eos=True)["choices"][0]["message"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            running = pool.submit(server.chat, max_tokens=300, ignore_eos=True)
            while server.metric("flashnext_requests_running") == 0:
                pass
            for _ in range(3):
                with server.socket() as s:
                    s.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 34\r\n\r\n{"prompt": "x", "max_tokens": 500}')
                    time.sleep(0.02)
            assert running.result()["choices"][0]["message"] == alone
        idle(server)


def test_a_full_queue_says_when_to_come_again(flashnext):
    with serving(flashnext, "--parallel", "1", "--max-queue", "1") as server:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda i: server.post("/v1/chat/completions", {**ENDLESS, "max_tokens": 200}), range(8)))
        statuses = sorted(reply.status_code for reply in replies)
        assert set(statuses) == {200, 429} and statuses.count(200) >= 2
        refused = next(reply for reply in replies if reply.status_code == 429)
        assert int(refused.headers["Retry-After"]) > 0 and refused.json()["error"]["type"] == "rate_limit_error"
        assert server.metric("flashnext_request_refused_total") == statuses.count(429)


def test_many_prompts_in_one_request_pass_a_short_queue(flashnext):
    with serving(flashnext, "--parallel", "2", "--max-queue", "2") as server:
        reply = server.complete([[i] for i in range(100, 140)], max_tokens=2, ignore_eos=True)
        assert [choice["index"] for choice in reply["choices"]] == list(range(40)) and reply["usage"]["completion_tokens"] == 80


def test_silent_streams_get_comments(flashnext):
    """One answer at a time: the second waits in silence."""
    with serving(flashnext, "--parallel", "1", "--ping", "0.3") as server:
        with server.client() as client, client.stream("POST", "/v1/chat/completions", json={**ENDLESS, "stream": True, "max_tokens": 3000}) as first:
            next(first.iter_bytes())
            with server.client() as other, other.stream("POST", "/v1/chat/completions", json={**ENDLESS, "stream": True, "max_tokens": 2}) as second:
                lines = second.iter_lines()
                comments = []
                started = time.monotonic()
                for line in lines:
                    if line.startswith(":"):
                        comments.append(time.monotonic() - started)
                    if len(comments) == 4:
                        break
                assert comments[0] < 1 and all(b - a < 1.5 for a, b in zip(comments, comments[1:]))


@pytest.mark.slow
def test_slow_senders_are_cut(server):
    """200 connections that send a byte now and then: each is closed after its grace, and nobody else waits."""
    sockets = [server.socket() for _ in range(200)]
    whole = server.chat()["choices"][0]["message"]
    started = time.monotonic()
    for s in sockets:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX: ")
        s.setblocking(False)
    open_ones = set(sockets)
    while open_ones and time.monotonic() - started < 30:
        for s in list(open_ones):
            try:
                s.send(b"y")
                if s.recv(10) == b"":
                    open_ones.discard(s)
            except BlockingIOError:
                pass
            except OSError:
                open_ones.discard(s)
        asked = time.monotonic()
        assert server.get("/health").status_code == 200 and time.monotonic() - asked < 2
        assert server.chat()["choices"][0]["message"] == whole
        time.sleep(0.5)
    for s in sockets:
        s.close()
    assert not open_ones and 8 < time.monotonic() - started < 20


def test_more_connections_than_allowed_wait(flashnext):
    with serving(flashnext, "--max-connections", "4") as server:
        held = [server.socket() for _ in range(4)]
        time.sleep(0.1)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            late = pool.submit(server.get, "/health")
            time.sleep(0.3)
            assert not late.done()
            for s in held:
                s.close()
            assert late.result(20).status_code == 200


def test_running_answers_end_before_the_server_does(flashnext):
    server = Server(flashnext.path).ready()
    with server.client() as client, client.stream("POST", "/v1/chat/completions", json={**ENDLESS, "stream": True, "max_tokens": 200}) as reply:
        lines = reply.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        server.until("shutting down")
        with pytest.raises(httpx.HTTPError):
            server.get("/health")  # nobody listens any more
        assert list(lines)[-2:] == ["data: [DONE]", ""]
    assert server.process.wait(20) == 0
    server.stop()


def test_the_end_waits_no_longer_than_told(flashnext):
    server = Server(flashnext.path, "--drain", "0.2").ready()
    with server.client() as client, client.stream("POST", "/v1/chat/completions", json={**ENDLESS, "stream": True, "max_tokens": 4000}) as reply:
        lines = reply.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGINT)
        text = "\n".join(lines)
        assert '"code":"shutting_down"' in text.replace(" ", "") and "[DONE]" not in text
    assert server.process.wait(20) == 0
    server.stop()


def test_a_second_interrupt_ends_at_once(flashnext):
    server = Server(flashnext.path).ready()
    with server.client() as client, client.stream("POST", "/v1/chat/completions", json={**ENDLESS, "stream": True, "max_tokens": 4000}) as reply:
        lines = reply.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGINT)
        server.until("shutting down")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(5) == 130
    server.stop()


def test_a_read_only_model_directory_works(flashnext, tmp_path):
    import shutil
    from serving import DEMO
    copy = tmp_path / "model"
    shutil.copytree(DEMO, copy)
    for path in [*copy.iterdir(), copy]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(path.name for path in copy.iterdir())
    with serving(flashnext, "--model-dir", copy, "--model-name", "mine/one") as server:
        assert server.get("/v1/models/mine%2Fone").json()["id"] == server.get("/v1/models/mine/one").json()["id"] == "mine/one"
        assert server.chat()["model"] == "mine/one"
    assert sorted(path.name for path in copy.iterdir()) == before
    copy.chmod(0o755)
