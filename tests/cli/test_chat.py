"""`flashnext chat` as people use it: in a pipe, with --prompt, and at a terminal."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from conftest import ROOT

DEMO = ROOT / "models" / "demo"
QUESTION = "What is a lighthouse?"
ANSWERING = r"Hello\r?\n[\s\S]*2004l[\s\S]*?[A-Za-z]{3}"  # words after the end of the bracketed paste
ENDLESS = ["--think", "off", "--temp", "3", "--top-k", "0", "--top-p", "1", "--logit-bias", "6002=-inf", "--logit-bias", "6000=-inf"]

pytestmark = pytest.mark.skipif(not (DEMO / "model.safetensors.index.json").exists(), reason="models/demo has no weights")


class Terminal:
    """The program at a terminal of its own."""

    def __init__(self, path, *arguments, home, **environment):
        self.master, slave = pty.openpty()
        env = {**os.environ, "FLASHNEXT_HOME": str(ROOT), "XDG_STATE_HOME": str(home), "TERM": "xterm", "COLUMNS": "100", **environment}
        self.process = subprocess.Popen([path, "chat", *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave, env=env,
                                        start_new_session=True, preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
        os.close(slave)
        self.seen = ""

    def until(self, pattern, seconds=30):
        """What is printed up to the pattern; the rest waits for the next call."""
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen, re.S)
            if found:
                before, self.seen = self.seen[:found.end()], self.seen[found.end():]
                return before
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen[-2000:]!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    assert re.search(pattern, self.seen, re.S), f"ended without {pattern!r}: {self.seen[-2000:]!r}"

    def type(self, text):
        time.sleep(0.15)  # as a person: not in the moment in which the terminal changes its mode
        os.write(self.master, text.encode())

    def ask(self, text):
        """Types a line; returns what came before the next prompt."""
        self.type(text + "\r")
        self.until(re.escape(text.split("\n")[0][:20]))
        return self.until(PROMPT)

    def leave(self, keys):
        for _ in range(20):  # a key typed while the terminal changes its mode may be lost, on a busy machine
            self.type(keys)
            try:
                return self.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                pass
        return self.process.wait(timeout=1)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


PROMPT = r"\n?\x1b\[\?2004h.*?> ?"


@pytest.fixture
def terminal(flashnext, tmp_path):
    opened = []

    def start(*arguments, **environment):
        opened.append(Terminal(flashnext.path, *arguments, home=tmp_path / "state", **environment))
        opened[-1].until(PROMPT)
        return opened[-1]

    yield start
    for one in opened:
        one.close()


# ---- one question -----------------------------------------------------------------------------------

def test_in_a_pipe_the_answer_alone_is_on_standard_output(flashnext):
    by_prompt = flashnext.run("chat", "--prompt", QUESTION, "--temp", 0)
    by_pipe = flashnext.run("chat", "--temp", 0, stdin=QUESTION + "\n")
    assert by_prompt.returncode == by_pipe.returncode == 0
    assert by_prompt.stdout == by_pipe.stdout and by_prompt.stdout.count("\n") == 1 and by_prompt.stdout.strip()
    assert "think>" not in by_prompt.stdout and "\x1b" not in by_prompt.stdout + by_prompt.stderr
    hidden = flashnext.run("chat", "--prompt", QUESTION, "--temp", 0, "--hide-thinking")
    assert hidden.stdout == by_prompt.stdout and hidden.stderr == ""


def test_file_and_standard_input_by_name(flashnext, tmp_path):
    (tmp_path / "q.txt").write_text(QUESTION)
    want = flashnext.ok("chat", "--prompt", QUESTION, "--temp", 0)
    assert flashnext.ok("chat", "--file", tmp_path / "q.txt", "--temp", 0) == want
    assert flashnext.ok("chat", "--file", "-", "--temp", 0, stdin=QUESTION) == want


def test_thinking_can_be_turned_off(flashnext):
    done = flashnext.run("chat", "--prompt", QUESTION, "--temp", 0, "--think", "off")
    assert done.returncode == 0 and done.stdout.strip() and done.stderr == ""


def test_figures_only_when_asked_for(flashnext):
    done = flashnext.run("chat", "--prompt", QUESTION, "--temp", 1, "--stats")
    assert re.search(r"\d+ prompt tokens, .*/s; \d+ new.*/s; first after .* s; seed \d+", done.stderr)
    seed = re.search(r"seed (\d+)", done.stderr)[1]
    assert flashnext.ok("chat", "--prompt", QUESTION, "--temp", 1, "--seed", seed) == done.stdout


@pytest.mark.parametrize("arguments,stdin", [([], ""), ([], " \n"), (["--prompt", ""], ""), (["--prompt", "a", "--file", "b"], ""),
                                             (["--prompt", "a", "--chat-template-kwargs", "[]"], ""),
                                             (["--prompt", "a", "--chat-template-kwargs", "{"], "")])
def test_nothing_to_answer_is_a_usage_error(arguments, stdin, flashnext):
    done = flashnext.run("chat", *arguments, stdin=stdin)
    assert done.returncode == 2 and done.stdout == "" and len(done.stderr.strip().split("\n")) == 1


def test_text_that_is_not_utf8_is_refused(flashnext):
    done = subprocess.run([flashnext.path, "chat", "--model-dir", DEMO], input=b"a\xff\xfe", capture_output=True)
    assert done.returncode == 1 and b"UTF-8 at byte 1" in done.stderr and done.stdout == b""


def test_template_variables_reach_the_template(flashnext, tmp_path):
    (tmp_path / "t.jinja").write_text("{{ raise_exception('got ' ~ colour ~ ' and ' ~ enable_thinking) }}")
    done = flashnext.run("chat", "--prompt", "x", "--chat-template-file", tmp_path / "t.jinja", "--chat-template-kwargs",
                         '{"colour": "red"}', "--think", "off")
    assert done.returncode == 1 and "got red and False" in done.stderr


@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("command", ["chat", "run"])
def test_signals_stop_between_tokens(command, number, code, flashnext):
    arguments = ENDLESS if command == "chat" else [a for a in ENDLESS if a not in ("--think", "off")]
    process = subprocess.Popen([flashnext.path, command, "--model-dir", DEMO, "--prompt", QUESTION, *arguments],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(1)
    process.send_signal(number)
    rest, complaint = process.communicate(timeout=20)
    assert process.returncode == code and complaint == b""
    rest.decode()  # no character was cut


# ---- at a terminal ----------------------------------------------------------------------------------

def test_a_conversation(terminal, flashnext, tmp_path):
    chat = terminal("--temp", "0", "--color", "off")
    answer = flashnext.ok("chat", "--prompt", QUESTION, "--temp", 0).strip()
    shown = chat.ask(QUESTION)
    assert answer in shown.replace("\r\n", "\n") and "<think>" in shown and "prompt tokens" in shown
    again = chat.ask("/regen")
    assert answer in again and "(17 kept)" in re.sub(r"\(\d+ kept\)", "(17 kept)", again)
    assert "2 messages" in chat.ask("/stats")
    chat.ask("Define castle.")
    assert "4 messages" in chat.ask("/stats")
    chat.ask(f"/save {tmp_path}/s")
    assert (tmp_path / "s").stat().st_size > 1000
    saved = json.loads((tmp_path / "s.json").read_text())
    assert [m["role"] for m in saved["messages"]] == ["user", "assistant"] * 2
    assert saved["messages"][1]["content"] == answer and saved["messages"][1]["reasoning_content"]
    assert "empty" in chat.ask("/clear") and "0 messages" in chat.ask("/stats")
    assert "4 messages" in chat.ask(f"/load {tmp_path}/s")
    followed = chat.ask("What is a dog?")
    assert int(re.search(r"\((\d+) kept\)", followed)[1]) > 40  # the state came back too
    assert chat.leave("\x04") == 0


def test_commands_and_settings(terminal):
    chat = terminal("--temp", "0", "-q", NO_COLOR="1")
    everything = chat.ask("/help")
    for name in ("/help", "/clear", "/regen", "/system", "/think", "/set", "/save", "/load", "/stats", "/exit", "/bye", "/quit"):
        assert name in everything
    assert "no answer yet" in chat.ask("/regen")
    assert "/system" in chat.ask("/sytem x") and "temp" in chat.ask("/set tmep 1")
    assert re.search(r"temp +0\.5", chat.ask("/set temp 0.5")) and re.search(r"temp +0\.5", chat.ask("/set"))
    assert "expected" in chat.ask("/set temp warm")
    assert re.search(r"temp +default", chat.ask("/set temp default"))
    assert "expected" in chat.ask("/set top-p 2") and re.search(r"top-p +default", chat.ask("/set"))
    assert "expected an id below" in chat.ask("/set logit-bias 99999=+1") and re.search(r"logit-bias +default", chat.ask("/set"))
    assert "off" in chat.ask("/think off") and "<think>" not in chat.ask(QUESTION)
    assert "low" in chat.ask("/think low") and "expected" in chat.ask("/think hard")
    assert "be brief" in chat.ask("/system be brief") and "none" in chat.ask("/system off")
    assert "No such file" in chat.ask("/load /nonexistent/file")
    assert chat.leave("/bye\r") == 0


def test_ctrl_c_stops_the_answer_and_keeps_the_chat(terminal):
    chat = terminal(*ENDLESS)
    chat.type("Hello\r")
    chat.until(ANSWERING)
    chat.type("\x03")
    chat.until(PROMPT)
    assert "2 messages" in chat.ask("/stats")
    chat.type("half a line")
    chat.until("half a line")
    chat.type("\x03")  # throws the line away
    chat.until(PROMPT)
    assert chat.process.poll() is None
    assert chat.leave("\x03") == 130


def test_ctrl_c_twice_leaves_at_once(terminal):
    chat = terminal(*ENDLESS)
    chat.type("Hello\r")
    chat.until(ANSWERING)
    chat.type("\x03")
    time.sleep(0.2)
    chat.type("\x03")
    assert chat.process.wait(timeout=20) == 130


def test_sigterm_at_the_prompt(terminal):
    chat = terminal("-q")
    chat.process.send_signal(signal.SIGTERM)
    assert chat.process.wait(timeout=20) == 143


def test_messages_of_several_lines(terminal, tmp_path):
    chat = terminal("--temp", "0", "-q", "--color", "off")
    for keys in ('"""first\rsecond\r"""\r', "first\\\rsecond\r", "\x1b[200~first\rsecond\x1b[201~\r"):
        chat.type(keys)
        chat.until(r"</think>.*?" + PROMPT)
        chat.ask(f"/save {tmp_path}/c.json")
        content = json.loads((tmp_path / "c.json").read_text())["messages"][0]["content"]
        assert content == "first\nsecond", keys
        chat.ask("/clear")
    chat.leave("\x04")


def test_history_comes_back(terminal, tmp_path):
    chat = terminal("--temp", "0", "-q")
    chat.ask("Define größe.")
    chat.leave("\x04")
    history = tmp_path / "state" / "flashnext" / "history"
    assert "größe" in history.read_text() and history.stat().st_mode & 0o77 == 0
    chat = terminal("--temp", "0", "-q")
    chat.type("\x1b[A")
    chat.until("größe")
    assert chat.leave("\x05\x15/exit\r") == 0


@pytest.mark.parametrize("change", [{"messages": [{"role": "bogus", "content": "x"}]}, {"kwargs": {"messages": 3}}, {"version": 2}])
def test_a_saved_conversation_that_cannot_be_answered_is_not_loaded(change, terminal, tmp_path):
    good = {"format": "flashnext-conversation", "version": 1, "messages": [{"role": "user", "content": "x"}], "kwargs": {}}
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps(good | change))
    chat = terminal("-q", HOME=str(tmp_path))
    assert "loaded 1 messages" in chat.ask("/load ~/good.json")
    assert "nothing was loaded" in chat.ask("/load ~/bad.json") and "1 messages" in chat.ask("/stats")
    assert chat.leave("\x04") == 0


def test_saving_to_a_directory_fails_and_leaves_nothing(terminal, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    chat = terminal("--temp", 0)
    chat.ask("What is a lighthouse?")
    assert "not a regular file" in chat.ask(f"/save {place}")
    assert not (tmp_path / "place.json").exists()
    chat.leave("\x04")
