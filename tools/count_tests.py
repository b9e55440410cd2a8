#!/usr/bin/env python3
"""Adds up the results of a run of the suite, names what failed, and ends with "N passed, N failed".

    count_tests.py RESULTS     checks.txt, ctest.*.xml and pytest*.xml in that folder
"""
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def of_checks(path):
    for line in path.read_text().split("\n") if path.exists() else []:
        if line:
            result, _, name = line.partition(" ")
            yield result, name


def of_ctest(path):
    """A program holds many cmocka tests: each counts; one that ended badly without naming a failed test counts as one."""
    for case in xml.parse(path).iter("testcase"):
        name = f"{case.get('name')} ({path.stem.removeprefix('ctest.')})"
        text = "".join(case.itertext())
        broken = case.get("status") != "run" or case.find("failure") is not None
        failed = [m for m in re.findall(r"^\[  FAILED  \] (\w+)\r?$", text, re.M)]
        yield from (("passed", name) for n in re.findall(r"^\[  PASSED  \] (\d+) test", text, re.M) for _ in range(int(n)))
        yield from (("skipped", f"{name}: {t}") for t in set(re.findall(r"^\[  SKIPPED \] (\w+)\r?$", text, re.M)))
        yield from (("failed", f"{name}: {t}") for t in dict.fromkeys(failed))
        if broken and not failed:
            yield "failed", f"{name}: ended badly"


def of_pytest(path):
    for case in xml.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        reason = case.find("skipped").get("message", "") if result == "skipped" else ""
        yield result, f"{case.get('classname')}.{case.get('name')}" + (f": {reason}" if reason else "")


def main():
    folder = Path(sys.argv[1])
    results = list(of_checks(folder / "checks.txt"))
    for path in sorted(folder.glob("ctest.*.xml")):
        results += of_ctest(path)
    for path in sorted(folder.glob("pytest*.xml")):
        results += of_pytest(path)
    for wanted, kind in ((["ctest.release.xml"], "C"), (["pytest.xml"], "Python")):
        if not any((folder / name).exists() for name in wanted):
            results.append(("failed", f"the {kind} tests did not run"))
    for wanted in ("skipped", "failed"):
        for name in sorted({name for result, name in results if result == wanted}):
            print(f"{wanted}: {name}")
    count = {kind: sum(result == kind for result, _ in results) for kind in ("passed", "failed", "skipped")}
    if count["skipped"]:
        print(f"{count['skipped']} skipped")
    print(f"{count['passed']} passed, {count['failed']} failed")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
