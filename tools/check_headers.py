#!/usr/bin/env python3
"""Every header compiles alone, and the public ones in C++ too where there is a compiler for it."""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMON = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-D_POSIX_C_SOURCE=200809L", "-I", ROOT / "include", "-I", ROOT / "src"]


def compile_alone(header, compiler, standard, suffix):
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as unit:
        unit.write(f'#include "{header}"\n#include "{header}"\n')  # twice: the guard works
        unit.flush()
        extra = ["-mavx2", "-mfma", "-mf16c", "-mavx512f"] if "/kernels/avx" in str(header) else []
        run = subprocess.run([compiler, standard, *extra, *COMMON, unit.name], capture_output=True, text=True)
    return None if run.returncode == 0 else f"{header.relative_to(ROOT)} ({compiler}): does not compile alone\n{run.stderr}"


def main():
    compiler = os.environ.get("CC", "cc")
    jobs = [(h, compiler, "-std=c11", ".c") for folder in ("include", "src") for h in sorted((ROOT / folder).rglob("*.h"))]
    if shutil.which("c++"):
        jobs += [(h, "c++", "-std=c++17", ".cc") for h in sorted((ROOT / "include").glob("*.h"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for p in pool.map(lambda job: compile_alone(*job), jobs) if p]
    print("\n".join(problems) or f"headers: {len(jobs)} ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
