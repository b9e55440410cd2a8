"""A running `flashnext serve` for tests, and what they ask of it."""
import contextlib
import json
import os
import re
import socket
import subprocess
import tempfile
import time

import httpx2 as httpx

from conftest import ROOT

DEMO = ROOT / "models" / "demo"


class Server:
    """The program with a port of its own; leaves with the context."""

    def __init__(self, path, *arguments, **environment):
        self.log = tempfile.NamedTemporaryFile("r")  # read through a description of its own: a shared one has one position
        with open(self.log.name, "a") as log:
            self.process = subprocess.Popen([path, "serve", "--port", "0", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log,
                                            env={**os.environ, "FLASHNEXT_HOME": str(ROOT), **environment})
        self.seen = ""
        self.port = int(self.until(r"listening on (https?)://\S+:(\d+)").group(2))
        self.url = f"http://127.0.0.1:{self.port}"

    def until(self, pattern, seconds=60):
        """Waits for a line of the log."""
        end = time.monotonic() + seconds
        while True:
            self.read_log()
            if found := re.search(pattern, self.seen):
                return found
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.seen[-3000:]}"
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen[-3000:]!r}"
            time.sleep(0.02)

    def read_log(self):
        self.log.seek(0)
        self.seen = self.log.read()
        return self.seen

    def ready(self):
        self.until(r"ready: ")
        return self

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.read_log()
        self.log.close()
        return self.process.returncode

    # ---- asking ----

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def post(self, path, body, **headers):
        with self.client() as client:
            return client.post(path, json=body, headers=headers)

    def post_bytes(self, path, body):
        with self.client() as client:
            return client.post(path, content=body)

    def get(self, path, **headers):
        with self.client() as client:
            return client.get(path, headers=headers)

    def chat(self, question="What is a lighthouse?", **fields):
        reply = self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "temperature": 0, **fields})
        assert reply.status_code == 200, reply.text
        return reply.json()

    def complete(self, prompt, **fields):
        reply = self.post("/v1/completions", {"prompt": prompt, "temperature": 0, **fields})
        assert reply.status_code == 200, reply.text
        return reply.json()

    def events(self, path, body):
        """The objects of a stream; the last is "[DONE]" if it was there."""
        out = []
        with self.client() as client, client.stream("POST", path, json={**body, "stream": True}) as reply:
            assert reply.status_code == 200, reply.read()
            for line in reply.iter_lines():
                if line.startswith("data: "):
                    out.append(line[6:] if line == "data: [DONE]" else json.loads(line[6:]))
        return out

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def metric(self, name):
        text = self.get("/metrics").text
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.split("\n") if re.match(rf"{name}(\{{|\s)", line))


def idle(server, seconds=20):
    """Waits until nothing is computed; how often it asked."""
    end = time.monotonic() + seconds
    asked = 2
    while server.metric("flashnext_requests_running") + server.metric("flashnext_requests_waiting") > 0:
        assert time.monotonic() < end
        time.sleep(0.02)
        asked += 2
    return asked


def level(server):
    """What the process holds for itself, in bytes, as an operator sees it: RssAnon, and all that is resident."""
    time.sleep(2)  # a second after the last request freed memory goes back to the system
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as status:
        anonymous = next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))
    return anonymous, server.metric("process_resident_memory_bytes")


@contextlib.contextmanager
def serving(flashnext, *arguments, **options):
    server = Server(flashnext.path, *arguments, **options)
    try:
        yield server.ready()
    finally:
        server.stop()
