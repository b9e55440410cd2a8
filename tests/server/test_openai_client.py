"""The official `openai` package against the server: what its users do with it."""
import openai
import pytest

from serving import serving

QUESTION = [{"role": "user", "content": "What is a lighthouse?"}]
ANSWER = "a tower with a light that gives warning of shoals to passing ships"


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="any", max_retries=0, timeout=60)


def ask(client, **fields):
    return client.chat.completions.create(**{"model": "demo", "messages": QUESTION, "temperature": 0, **fields})


def test_whole_answer(client):
    reply = ask(client)
    choice = reply.choices[0]
    assert choice.message.content == ANSWER and choice.message.role == "assistant"
    assert choice.finish_reason == "stop"
    assert choice.message.reasoning_content == choice.message.reasoning == "The word is lighthouse."
    usage = reply.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
    assert reply.object == "chat.completion" and reply.model == "demo" and reply.created > 1.7e9


def test_stream_equals_the_whole(client):
    text = thought = ""
    roles, finishes, usage = [], [], None
    for chunk in ask(client, stream=True, stream_options={"include_usage": True}):
        assert chunk.object == "chat.completion.chunk"
        if chunk.usage:
            assert not chunk.choices
            usage = chunk.usage
            continue
        choice = chunk.choices[0]
        if choice.delta.role:
            roles.append(choice.delta.role)
        text += choice.delta.content or ""
        thought += getattr(choice.delta, "reasoning_content", None) or ""
        finishes.append(choice.finish_reason)
    whole = ask(client)
    assert text == whole.choices[0].message.content
    assert thought == whole.choices[0].message.reasoning_content
    assert roles == ["assistant"]
    assert finishes[-1] == "stop" and not any(finishes[:-1])
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_without_thinking(client):
    reply = ask(client, extra_body={"enable_thinking": False})
    assert not getattr(reply.choices[0].message, "reasoning_content", None)
    assert reply.usage.completion_tokens_details.reasoning_tokens == 0
    assert ask(client, extra_body={"chat_template_kwargs": {"enable_thinking": False}}).choices[0].message.content == reply.choices[0].message.content
    assert ask(client, reasoning_effort="none").choices[0].message.content == reply.choices[0].message.content


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh"])
def test_every_effort_is_understood(effort, client):
    assert ask(client, reasoning_effort=effort).choices[0].message.content


def test_logprobs_of_every_token(client):
    reply = ask(client, logprobs=True, top_logprobs=3)
    entries = reply.choices[0].logprobs.content
    assert len(entries) == reply.usage.completion_tokens - 1  # the end token is no part of the answer
    for entry in entries:
        assert bytes(entry.bytes).decode(errors="replace") == entry.token
        values = [top.logprob for top in entry.top_logprobs]
        assert len(values) == 3 and values == sorted(values, reverse=True)
        assert entry.logprob == values[0] <= 0  # greedy
    # thoughts are among them
    assert "".join(entry.token for entry in entries).startswith("The word is lighthouse.")


def test_streamed_logprobs_are_the_same(client):
    whole = ask(client, logprobs=True, top_logprobs=2).choices[0].logprobs.content
    streamed = []
    for chunk in ask(client, logprobs=True, top_logprobs=2, stream=True):
        if chunk.choices and chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == whole


def test_several_answers_are_those_of_their_seeds(client):
    def texts(**fields):
        return [choice.message.content for choice in ask(client, temperature=3, top_p=1, max_tokens=12, extra_body={"enable_thinking": False, "top_k": 0}, **fields).choices]
    together = texts(n=3, seed=5)
    assert together == [texts(seed=seed)[0] for seed in (5, 6, 7)]
    assert len(set(together)) > 1
    indices = {}
    for chunk in ask(client, temperature=3, top_p=1, max_tokens=12, extra_body={"enable_thinking": False, "top_k": 0}, n=3, seed=5, stream=True):
        for choice in chunk.choices:
            indices[choice.index] = indices.get(choice.index, "") + (choice.delta.content or "")
    assert [indices[i] for i in range(3)] == together


def test_stop_strings_across_tokens(client):
    reply = ask(client, stop=["at gives", "never"], extra_body={"enable_thinking": False})
    assert reply.choices[0].message.content == ANSWER.split("at gives")[0]
    assert reply.choices[0].finish_reason == "stop"
    assert ask(client, stop=None).choices[0].message.content == ANSWER


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_limit(name, client):
    reply = ask(client, **{name: 3})
    assert reply.usage.completion_tokens == 3 and reply.choices[0].finish_reason == "length"


def test_penalties_bias_and_seed_are_heard(client):
    plain = ask(client, extra_body={"enable_thinking": False}).choices[0].message.content
    first = client.completions.create(model="demo", prompt="x", max_tokens=1, logit_bias={"65": 100}, temperature=0, logprobs=0)
    assert first.choices[0].logprobs.tokens  # the chosen token's alone
    banned = ask(client, logit_bias={"65": -100}, extra_body={"enable_thinking": False})
    assert banned.choices[0].message.content
    penalised = ask(client, frequency_penalty=2, presence_penalty=2, extra_body={"enable_thinking": False, "repetition_penalty": 5})
    assert penalised.choices[0].message.content != plain
    one = ask(client, temperature=2, seed=1, max_tokens=20).choices[0].message
    assert one == ask(client, temperature=2, seed=1, max_tokens=20).choices[0].message
    assert one != ask(client, temperature=2, seed=2, max_tokens=20).choices[0].message


def test_leaving_a_stream_frees_its_place(server, client):
    def leave():
        stream = ask(client, stream=True, max_tokens=2000, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
    for _ in range(5):
        leave()
    for _ in range(200):
        if server.metric("flashnext_requests_running") == 0:
            break
    assert server.metric("flashnext_requests_running") == 0
    assert ask(client).choices[0].message.content == ANSWER


def test_completions(client):
    reply = client.completions.create(model="demo", prompt=["a lighthouse is", "a telescope is"], max_tokens=4, temperature=0, n=2)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert reply.choices[0].text == reply.choices[1].text != reply.choices[2].text
    assert reply.object == "text_completion"
    streamed = ["", "", "", ""]
    for chunk in client.completions.create(model="demo", prompt=["a lighthouse is", "a telescope is"], max_tokens=4, temperature=0, n=2, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    assert streamed == [choice.text for choice in reply.choices]


def test_models(client):
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").max_model_len == 4096
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-7")


def test_errors_become_the_packages_classes(flashnext, client):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, temperature="warm")
    assert error.value.param == "temperature" and "expected a number, found a string" in str(error.value)
    with serving(flashnext, "--api-key", "secret") as server:
        for key, expected in (("wrong", openai.AuthenticationError), ("secret", None)):
            other = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)
            if expected:
                with pytest.raises(expected):
                    other.models.list()
            else:
                assert other.models.list().data[0].id == "demo"


def test_conversations_go_on(client):
    messages = list(QUESTION)
    for _ in range(3):
        reply = client.chat.completions.create(model="demo", messages=messages, temperature=0)
        message = reply.choices[0].message
        messages += [{"role": "assistant", "content": message.content, "reasoning_content": message.reasoning_content},
                     {"role": "user", "content": "What is a telescope?"}]
    assert reply.usage.prompt_tokens_details.cached_tokens > reply.usage.prompt_tokens // 2
