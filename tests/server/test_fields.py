"""Every field's type and range is checked and named; what the server cannot do is refused by name, never ignored."""
import pytest

ASK = {"messages": [{"role": "user", "content": "What is a lighthouse?"}], "max_tokens": 3}


def refused(server, path, body, status=400):
    reply = server.post(path, body)
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    return error


WRONG = [("temperature", "hot", "a number"), ("temperature", -1, "from 0"), ("temperature", [], "a number"), ("top_p", 2, "from 0 to 1"),
         ("top_k", 1.5, "an integer"), ("top_k", -2, "from -1"), ("min_p", "x", "a number"), ("seed", "x", "an integer"),
         ("presence_penalty", {}, "a number"), ("frequency_penalty", True, "a number"), ("repetition_penalty", 0, "from 0.01"),
         ("repeat_penalty", "1", "a number"), ("logit_bias", [], "an object"), ("logit_bias", {"x": 1}, "token ids"),
         ("logit_bias", {"99999999": 1}, "below"), ("logit_bias", {"5": "1"}, "a number"), ("stop", 5, "found an integer"), ("stop", [""], "not empty, found an empty one"), ("stop", "", "found an empty one"), ("stop", "a\0b", "a NUL character"),
         ("best_of", "x", "an integer"), ("best_of", 0, "from 1"), ("best_of", 2, "choice among several answers"),
         ("stop", ["x"] * 17, "at most 16"), ("max_tokens", "many", "an integer"), ("max_tokens", -2, "from -1"),
         ("max_completion_tokens", 1.5, "an integer"), ("min_tokens", 9, "at most max_tokens"), ("ignore_eos", 1, "true or false"),
         ("n", 0, "from 1"), ("n", 9, "to 8"), ("stream", "yes", "true or false"), ("stream_options", [], "an object"),
         ("stream_options", {"include_usage": 1}, "true or false"), ("model", 5, "a string"), ("cache_prompt", "no", "true or false"),
         ("return_token_ids", 0, "true or false"), ("timings_per_token", 1, "true or false"), ("return_progress", 0, "true or false")]
WRONG_CHAT = [("messages", "hello", "an array"), ("messages", [], "at least one"), ("messages", None, "an array"), ("messages", [5], "an object"),
              ("messages", [{"content": "x"}], "a string"), ("messages", [{"role": "robot", "content": "x"}], "robot"),
              ("messages", [{"role": "user", "content": 5}], "a string or an array"),
              ("messages", [{"role": "user", "content": [{"type": "text"}]}], "a string"),
              ("messages", [{"role": "user", "content": [{"type": "hologram"}]}], "hologram"),
              ("messages", [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
                            {"role": "user", "content": "x"}], "JSON object"),
              ("reasoning_effort", "enormous", "xhigh"), ("reasoning_effort", 3, "a string"), ("enable_thinking", "no", "true or false"),
              ("chat_template_kwargs", [], "an object"), ("chat_template_kwargs", {"messages": []}, "variable"), ("logprobs", 5, "true or false"),
              ("top_logprobs", 21, "to 20"), ("top_logprobs", 2, "needs"), ("thinking_budget", "x", "an integer"),
              ("add_generation_prompt", 1, "true or false"), ("reasoning_format", 1, "a string")]
WRONG_COMPLETION = [("prompt", None, "nothing"), ("prompt", 5, "an integer"), ("prompt", [], "empty"), ("prompt", "", "at least one token"),
                    ("prompt", [1, "x"], "a string"), ("prompt", [[1], [2.5]], "a number"), ("prompt", [-1], "below 6"), ("prompt", [6144], "below 6144"),
                    ("prompt", ["x"] * 5000, "at most 4096"), ("echo", 1, "true or false"), ("logprobs", True, "an integer"), ("logprobs", 21, "to 20")]


@pytest.mark.parametrize("field,value,text", WRONG + WRONG_CHAT, ids=str)
def test_wrong_fields_of_chat_are_named(field, value, text, server):
    error = refused(server, "/v1/chat/completions", {**ASK, field: value})
    assert text in error["message"] and error["type"] == "invalid_request_error"
    assert field in error["message"] or field == "stream_options" or error["param"].startswith(field)


@pytest.mark.parametrize("field,value,text", WRONG + WRONG_COMPLETION, ids=lambda value: str(value)[:40])
def test_wrong_fields_of_completions_are_named(field, value, text, server):
    error = refused(server, "/v1/completions", {"prompt": "x", "max_tokens": 3, field: value})
    assert text in error["message"], error


@pytest.mark.parametrize("field,value,capability", [
    ("tools", [{"type": "function", "function": {"name": "f"}}], "tool calls"), ("functions", [{"name": "f"}], "tool calls"),
    ("tool_choice", "required", "tool calls"), ("tool_choice", {"type": "function", "function": {"name": "f"}}, "tool calls"),
    ("response_format", {"type": "json_object"}, "constrained output"), ("response_format", {"type": "json_schema", "json_schema": {}}, "constrained output"),
    ("json_schema", {"type": "object"}, "constrained output"), ("grammar", "root ::= x", "constrained output"),
    ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}], "image input"),
    ("messages", [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "audio input")], ids=lambda value: str(value)[:30])
def test_missing_capabilities_are_named(field, value, capability, server):
    error = refused(server, "/v1/chat/completions", {**ASK, field: value})
    assert capability in error["message"] and error["code"] == "unsupported_capability"


def test_what_is_given_and_means_nothing_passes(server):
    server.chat(max_tokens=2, tools=[], tool_choice="none", response_format={"type": "text"}, stop=None, seed=None, logit_bias=None, n=None,
                logprobs=None, top_logprobs=None, stream=None, stream_options=None, max_completion_tokens=None, metadata={"a": "b"}, store=True,
                prompt_cache_key="k", service_tier="auto", user="me", verbosity="low", parallel_tool_calls=True, unheard_of=[1, 2, {"x": None}])


def render(server, messages, **fields):
    reply = server.post("/apply-template", {"messages": messages, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()["prompt"]


def user(content):
    return {"role": "user", "content": content}


def test_system_messages_anywhere(server):
    head = render(server, [{"role": "system", "content": "A"}, user("x")])
    assert render(server, [{"role": "developer", "content": "A"}, user("x")]) == head
    assert "A\n\nB" in render(server, [{"role": "system", "content": "A"}, {"role": "developer", "content": "B"}, user("x")])
    late = render(server, [{"role": "system", "content": "A"}, user("x"), {"role": "assistant", "content": "y"}, {"role": "system", "content": "B"}, user("z")])
    assert "<|im_start|>user\n[system]\nB<|im_end|>" in late
    # what stands before the late one is as without it: its cached state stays good
    assert late.startswith(render(server, [{"role": "system", "content": "A"}, user("x"), {"role": "assistant", "content": "y"}], add_generation_prompt=False))


def test_forms_of_content_mean_the_same(server):
    plain = render(server, [user("one two")])
    assert render(server, [user([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])]) == plain
    assert "assistant" in render(server, [user("x"), {"role": "assistant", "content": None}, user("y")])


def test_thoughts_come_back_in_every_spelling(server):
    def history(**fields):
        return render(server, [user("x"), {"role": "assistant", "content": "y", **fields}, user("z")])
    thought = history(reasoning_content="because")
    assert "because" in thought
    assert history(reasoning="because") == thought
    assert history(content=[{"type": "thinking", "thinking": "because"}, {"type": "text", "text": "y"}]) == thought


def test_tool_history_is_rendered(server):
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
    text = render(server, [user("x"), {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "ships"}])
    assert "<function=look>\n<parameter=at>\nsea\n" in text and "<tool_response>\nships\n" in text


def test_a_template_that_refuses_says_why(server):
    assert refused(server, "/v1/chat/completions", {**ASK, "messages": [{"role": "system", "content": "only"}]})["message"] == "No user query found in messages."


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/apply-template"])
@pytest.mark.parametrize("body,text", [(b"", "empty"), (b"{", "not JSON"), (b"[]", "an array"), (b"5", "an integer"), (b'{"a": "\xff"}', "not JSON"),
                                       (b"{" * 200, "deeper"), (b'{"messages": "\\ud800"}', "not JSON"), (b'{"a":' * 129, "deeper"), (b"\x00", "not JSON")])
def test_bodies_that_are_no_request(path, body, text, server):
    with server.client() as client:
        reply = client.post(path, content=body)
    assert reply.status_code == 400 and text in reply.json()["error"]["message"]


def test_nul_and_every_plane_of_unicode_pass(server):
    text = "a\x00b 👩‍👩‍👧 é 世 \U0010ffff"
    ids = server.post("/tokenize", {"content": text}).json()["tokens"]
    assert server.post("/detokenize", {"tokens": ids}).json()["content"] == text
    reply = server.complete(text, max_tokens=0, echo=True)
    assert reply["choices"][0]["text"] == text
