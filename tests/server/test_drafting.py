"""serve drafts, too: never another text, and it says what drafting did."""
import concurrent.futures
import re

from serving import serving

QUESTIONS = ["What is a lighthouse?", "What is a telescope?", "What is a river?", "Define humble."]
FIXED = ("-t", 2, "--draft", "mtp", "--draft-tokens", 3, "--draft-fixed")


def test_drafted_answers_are_plain_ones_and_are_counted(flashnext, server):
    asks = [dict(question=QUESTIONS[i % 4], seed=i, temperature=0.7 * (i % 2), top_k=20, max_tokens=60, presence_penalty=0.5 * (i % 3))
            for i in range(12)]
    with serving(flashnext, "-t", 2, "--draft", "off") as plain:
        assert re.search(r"ready: .*, no drafting\n", plain.seen)
        want = [plain.chat(**ask) for ask in asks]
        assert plain.metric("flashnext_spec_decode_num_draft_tokens_total") == 0
        assert plain.metric("flashnext_spec_decode_num_drafts_total") == 0
        assert plain.metric("flashnext_spec_decode_speedup") == 1
    text = lambda reply: reply["choices"][0]["message"]
    with serving(flashnext, *FIXED) as drafting:
        assert re.search(r"ready: .*, drafting by mtp, up to 3 tokens a pass\n", drafting.seen)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda ask: drafting.chat(**ask), asks))
        assert [text(reply) for reply in got] == [text(reply) for reply in want]
        assert all(reply["timings"]["draft_n"] >= reply["timings"]["draft_n_accepted"] for reply in got)
        drafted = drafting.metric("flashnext_spec_decode_num_draft_tokens_total")
        assert drafted == sum(reply["timings"]["draft_n"] for reply in got) > 0
        assert drafting.metric("flashnext_spec_decode_num_accepted_tokens_total") > 0
        assert drafting.metric("flashnext_spec_decode_num_drafts_total") == drafting.metric(
            'flashnext_spec_decode_num_draft_tokens_per_pos_total{position="0"}') <= drafted
        assert drafting.metric("flashnext_spec_decode_tokens_per_pass") > 1
        assert not re.search(r"^flashnext_spec_decode_speedup 0$", drafting.get("/metrics").text, re.M)  # a measured one, or none
    assert [text(server.chat(**ask)) for ask in asks[:4]] == [text(reply) for reply in want[:4]]


def test_drafting_that_cannot_be_ends_the_start(flashnext):
    for options, word in ((("--draft", "mtp", "--no-mtp"), "MTP head"), (("--draft", "model"), "draft model"),
                          (("--draft-model", "/nowhere"), "/nowhere")):
        ended = flashnext.run("serve", "--port", 0, *options)
        assert ended.returncode in (2, 3) and word in ended.stderr, options
