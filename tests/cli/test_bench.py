"""bench: what it measures adds up, whatever the figures are on a busy machine."""
import csv
import io
import json

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
    for flag, value in (("-d", "1,,2"), ("-d", "x"), ("-b", "0"), ("-b", "257"), ("-p", "5,"), ("-p", "-3"), ("-n", "x")):
        assert flashnext.run("bench", flag, value).returncode == 2, (flag, value)
