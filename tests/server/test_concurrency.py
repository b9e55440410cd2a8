"""Many streams at once: each gets what it gets alone, token for token."""
import concurrent.futures

QUESTIONS = ["What is a lighthouse?", "What is a telescope?", "What is a river?", "Tell me about " + "ships and harbours, " * 40]


def requests():
    """16 that differ in length, options and kind; at temperature 0 and, with seeds, at 1."""
    for i in range(16):
        body = {"max_tokens": 20 + 7 * i, "temperature": i % 2, "seed": i, "ignore_eos": i % 3 == 0, "return_token_ids": True}
        if i % 4 == 3:
            yield "/v1/completions", {**body, "prompt": QUESTIONS[i // 4], "logprobs": 2, "echo": i % 8 == 3}
        else:
            yield "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": QUESTIONS[i % 4]}], "enable_thinking": i % 5 != 0,
                                           **({"top_p": 1, "top_k": 0, "presence_penalty": 1.5} if i % 4 == 1 else {}),
                                           **({"stop": ["the"], "logprobs": True, "top_logprobs": 1} if i % 4 == 2 else {}), **({"thinking_budget": 3} if i == 8 else {})}


def outcome(server, path, body):
    """Ids, texts, log-probabilities and ends: all that may not depend on others."""
    out = {"ids": [], "text": "", "thought": "", "logprobs": [], "finish": None}
    for event in server.events(path, body)[:-1]:
        for choice in event["choices"]:
            out["ids"] += choice.get("token_ids", [])
            out["text"] += choice.get("text") or choice.get("delta", {}).get("content") or ""
            out["thought"] += choice.get("delta", {}).get("reasoning_content") or ""
            out["logprobs"] += [choice["logprobs"]] if choice["logprobs"] else []
            out["finish"] = choice["finish_reason"] or out["finish"]
    return out


def joined(logprobs):
    """Chunks may be cut differently; what is in them may not."""
    return [repr(entry) for part in logprobs for entry in (part.get("content") or list(zip(*(part[key] for key in ("tokens", "token_logprobs", "text_offset")))))]


def test_16_streams_equal_their_solo_runs(server):
    all_of_them = list(requests())
    alone = [outcome(server, *request) for request in all_of_them]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda request: outcome(server, *request), all_of_them))
    for i, (one, other) in enumerate(zip(alone, together)):
        assert one["ids"] and one["ids"] == other["ids"], i
        assert (one["text"], one["thought"], one["finish"]) == (other["text"], other["thought"], other["finish"]), i
        assert joined(one["logprobs"]) == joined(other["logprobs"]), i
    assert len({tuple(one["ids"]) for one in alone}) > 10


def test_a_thinking_budget_closes_the_thought(server):
    free = server.chat()["choices"][0]["message"]
    cut = server.chat(thinking_budget=3)
    message = cut["choices"][0]["message"]
    assert 0 < len(message["reasoning_content"]) < len(free["reasoning_content"]) and message["content"]
    assert cut["usage"]["completion_tokens_details"]["reasoning_tokens"] < server.chat()["usage"]["completion_tokens_details"]["reasoning_tokens"] + 1
    assert server.chat(thinking_budget=-1)["choices"][0]["message"] == free


def test_a_thought_that_goes_on_after_its_budget_leaves_no_tag_in_the_answer(server):
    """The model, cut off, may close the thought once more itself."""
    for word in ("telescope", "lighthouse", "river"):
        for budget in range(1, 6):
            body = server.chat(f"What is a {word}?", thinking_budget=budget)
            assert "think>" not in body["choices"][0]["message"]["content"], (word, budget)



def test_a_thought_that_is_cut_off_stays_one(server):
    """The limit of tokens falls into the thought: no part of it is content, in a stream as in the whole."""
    whole = server.chat(max_tokens=4)["choices"][0]
    assert whole["finish_reason"] == "length" and whole["message"]["content"] == "" and whole["message"]["reasoning_content"]
    body = {"messages": [{"role": "user", "content": "What is a lighthouse?"}], "temperature": 0, "max_tokens": 4}
    deltas = [event["choices"][0]["delta"] for event in server.events("/v1/chat/completions", body)[:-1] if event["choices"]]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == whole["message"]["reasoning_content"]
    assert not any(delta.get("content") for delta in deltas)


def test_an_unsplit_thought_is_content(server):
    text = server.chat(reasoning_format="none")["choices"][0]["message"]
    assert "</think>" in text["content"] and "reasoning_content" not in text


def test_min_tokens_hold_the_end_back(server):
    short = server.chat()["usage"]["completion_tokens"]
    assert server.chat(min_tokens=short + 10)["usage"]["completion_tokens"] > short + 9


def test_progress_of_the_prompt_is_told(server):
    body = {"messages": [{"role": "user", "content": "y " * 1500}], "max_tokens": 1, "return_progress": True, "cache_prompt": False}
    told = [event["prompt_progress"] for event in server.events("/v1/chat/completions", body)[:-1] if "prompt_progress" in event]
    assert len(told) >= 2 and told[-1]["processed"] == told[-1]["total"] > 1500
    assert [each["processed"] for each in told] == sorted(each["processed"] for each in told)


def test_conversations_read_only_what_is_new(server):
    """With the thought in the history and without it, as clients do."""
    for keeps in (True, False):
        messages = [{"role": "system", "content": f"Answer briefly. {keeps}"}, {"role": "user", "content": "What is a lighthouse?"}]
        for turn in range(4):
            reply = server.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 60}).json()
            usage, message = reply["usage"], reply["choices"][0]["message"]
            if turn > 0:
                fresh = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
                assert fresh <= before["completion_tokens"] + 40, (keeps, turn, usage)
            before = usage
            answer = {"role": "assistant", "content": message["content"]}
            if keeps and message.get("reasoning_content"):
                answer["reasoning_content"] = message["reasoning_content"]
            messages += [answer, {"role": "user", "content": "What is a telescope?"}]
