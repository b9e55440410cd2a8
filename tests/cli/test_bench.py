"""bench: what it measures adds up, whatever the figures are on a busy machine."""
import csv
import io
import json

from conftest import ROOT

FAST = ("bench", "-t", 2, "-r", 2)


def test_every_depth_and_batch_is_measured_with_its_limits(flashnext):
    got = flashnext.json(*FAST, "-p", "7,20", "-n", 3, "-d", "0,33", "-b", "1,3", "-o", "json", "--profile")
    assert [(r["test"], r["depth"], r["batch"]) for r in got["results"]] == [
        (test, depth, batch) for depth in (0, 33)
        for test, batch in (("pp7", 1), ("pp20", 1), ("tg3", 1), ("tg3", 3))]
    assert got["precision"] == "fast" and got["threads"] == 2 and got["peak_rss_bytes"] > got["weight_bytes"]
    for result in got["results"]:
        assert result["rounds"] == 2 or result["discarded"] > 2
        assert all(value > 0 for value in result["limits"].values())
        if result["rounds"] > 0:
            assert result["tokens_per_second"] > 0 and 0 < result["share_of_limit"] <= 1.03
            assert result["first_token_seconds"] > 0
        assert {"experts", "stream mixers", "LM head"} <= result["profile_seconds"].keys()


def test_forms_of_output_agree(flashnext):
    rows = list(csv.DictReader(io.StringIO(flashnext.ok(*FAST, "-p", 5, "-n", 2, "-o", "csv"))))
    assert [(r["test"], r["depth"], r["batch"]) for r in rows] == [("pp5", "0", "1"), ("tg2", "0", "1")]
    table = flashnext.ok(*FAST, "-p", 5, "-n", 0, "--profile")
    assert "| pp5 | 0 | 1 |" in table and "time by class" in table and "tg" not in table


def test_lines_come_as_soon_as_a_run_is_done_and_are_whole(flashnext):
    lines = [json.loads(line) for line in flashnext.ok(
        *FAST, "-p", "5,5", "-n", "2,3", "-b", "1,2", "-o", "jsonl").splitlines()]
    assert [(r["test"], r["batch"]) for r in lines] == [
        ("pp5", 1), ("pp5", 1), ("tg2", 1), ("tg2", 2), ("tg3", 1), ("tg3", 2)]
    for line in lines:
        assert line["threads"] == 2 and line["isa"] and line["work"]["weight_bytes"] > 0
        assert len(line["samples"]) == line["rounds"]
        mean = sum(line["samples"]) / max(1, len(line["samples"]))
        assert abs(mean - line["tokens_per_second"]) <= 1e-6 * mean


def test_wrong_lists_are_usage_errors(flashnext):
    for flag, value, words in (("-d", "1,,2", "--n-depth: found '1,,2'"), ("-d", "x", "--n-depth"), ("-d", "", "--n-depth"),
                               ("-b", "0", "--batch: found '0', expected up to 256 numbers from 1 to 100000000"),
                               ("-b", "257", "--batch"), ("-b", "", "--batch"), ("-p", "5,", "--n-prompt"), ("-p", "-3", "--n-prompt"),
                               ("-p", "abc", "--n-prompt: found 'abc'"), ("-n", "x", "--n-gen"),
                               ("-n", "999999999", "--n-gen: found '999999999', expected up to 256 numbers from 0 to 100000000")):
        answer = flashnext.run("bench", flag, value)
        assert answer.returncode == 2 and words in answer.stderr, (flag, value, answer.stderr)


def test_nothing_to_measure_is_a_usage_error(flashnext):
    for none in ("", "0", "0,0"):
        answer = flashnext.run("bench", "-p", none, "-n", none)
        assert answer.returncode == 2 and "nothing to measure" in answer.stderr and answer.stdout == ""


# The share of passes in which the first, second, third guess holds, as measured on the released weights.
PUBLISHED = (0.86, 0.68, 0.57)


def test_simulated_drafts_hold_in_the_given_shares_of_passes(flashnext):
    """Three guesses of the MTP head a pass; 1 + 0.86 + 0.68 + 0.57 = 3.11 tokens a pass."""
    got = flashnext.json("bench", "-t", 2, "-r", 5, "-n", 128, "--draft-sim", "0.86,0.68,0.57", "-o", "json", "--profile")
    assert got["results"] == [] and len(got["drafting"]) == 1
    result = got["drafting"][0]
    assert result["drafter"] == "mtp" and result["simulated"] and result["rounds"] == 5
    assert result["drafted"] == 3 * result["passes"]
    assert all(abs(share - want) < 0.015 for share, want in zip(result["accepted_shares"], PUBLISHED, strict=True))
    assert abs(result["tokens_per_pass"] - 3.11) < 0.03
    assert result["tokens_per_pass"] * result["passes"] >= 5 * 128
    assert result["speed"] > 0 and result["guess_seconds"] > 0 and result["verify_over_row"] > 0
    speed = result["tokens_per_second"] / result["plain_tokens_per_second"]
    assert 0.5 < speed / result["speed"] < 2
    assert result["profile_seconds"]["MTP head"] > result["plain_profile_seconds"]["MTP head"] > 0


def test_simulated_drafts_may_all_hold_or_none(flashnext):
    for shares, tokens in (("0,0", 1), ("1,1", 3), ("1,0,0,0,0,0,0,0", 2)):
        got = flashnext.json(*FAST, "-n", 30, "-d", "0,40", "--draft-sim", shares, "-o", "json")
        assert [r["tokens_per_pass"] for r in got["drafting"]] == [tokens, tokens]
        assert [r["depth"] for r in got["drafting"]] == [0, 40]


def test_drafters_are_measured_on_a_given_text(flashnext, tmp_path):
    asked = [dict(messages=[dict(role="user", content="What does humble mean?")])]
    made = flashnext.ok("tokenize", "--chat", "--json", stdin=json.dumps(asked))
    (tmp_path / "ids.json").write_text(json.dumps(json.loads(made)[0]["ids"]))
    for drafter, word in ((("--draft", "mtp"), "mtp"), (("--draft", "lookup"), "lookup"),
                          (("--draft-model", ROOT / "models" / "demo-draft"), "model")):
        got = flashnext.json(*FAST, "-n", 24, "--ids-file", tmp_path / "ids.json", *drafter, "--draft-fixed", "-o", "json")
        result = got["drafting"][0]
        assert result["drafter"] == word and not result["simulated"]
        assert result["passes"] + result["accepted"] >= 48
        assert abs(result["tokens_per_pass"] - 1 - result["accepted"] / result["passes"]) < 1e-6


def test_forms_of_drafting_output_agree(flashnext):
    rows = list(csv.DictReader(io.StringIO(flashnext.ok(*FAST, "-n", 9, "--draft-sim", "1,0.5", "-o", "csv"))))
    assert [(r["drafter"], r["depth"], r["tokens"]) for r in rows] == [("mtp simulated", "0", "9")]
    assert rows[0]["accepted_percent"].startswith("100 ") and float(rows[0]["speed"]) > 0
    table = flashnext.ok(*FAST, "-n", 9, "-p", 5, "--draft-sim", "1,0.5", "--profile")
    assert "| pp5 | 0 | 1 |" in table and "| mtp, simulated | 0 |" in table and "with drafts:" in table


def test_wrong_drafting_is_refused(flashnext):
    for options in (("--draft-sim", "0.5,0.6"), ("--draft-sim", "1.5"), ("--draft-sim", "0.5,"), ("--draft-sim", ""),
                    ("--draft-sim", "nan"), ("--draft-sim", ",".join("1" * 9)), ("--draft", "mtp", "-b", 2),
                    ("--draft", "mtp", "--no-mtp"), ("--draft-sim", "0.5", "--no-mtp"), ("--draft-sim", "0.5", "--draft", "off"),
                    ("--draft-sim", "0.8,0.5", "--draft-tokens", 1)):
        answer = flashnext.run("bench", *options)
        assert answer.returncode == 2 and "draft" in answer.stderr, options
