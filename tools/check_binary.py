#!/usr/bin/env python3
"""What was built: the shared library exports what the public headers declare and nothing else, and
instructions beyond baseline x86-64 stand only in the kernel folders that may use them.

    check_binary.py BUILD_DIR
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A function declaration: FN_API, a type, a name, "(".
DECLARED = re.compile(r"\bFN_API\b[^;{]*?\b(fn_\w+)\s*\(")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def export_problems(library):
    declared = set()
    for header in (ROOT / "include").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        declared |= set(DECLARED.findall(text))
    lines = output_of("nm", "-D", "--defined-only", str(library)).split("\n")
    exported = {line.split()[-1] for line in lines if line.strip()} - {"_init", "_fini"}
    for name in sorted(exported - declared):
        yield f"{library.name} exports {name}, which no public header declares"
    for name in sorted(declared - exported):
        yield f"{library.name} lacks {name}, which a public header declares"


def instruction_problems(objects):
    for path in sorted(objects.rglob("*.o")):
        where = path.as_posix()
        if "/kernels/avx512/" in where:
            continue
        # VEX and EVEX forms of instructions on xmm registers begin with v
        limit = (r"%zmm|%k[1-7]\b|%[xy]mm(?:1[6-9]|2\d|3[01])\b" if "/kernels/avx2/" in where else
                 r"%[yz]mm|%k[1-7]\b|\tv[a-z0-9]+ .*%xmm\d+")
        if found := re.search(limit, output_of("objdump", "-d", "--no-show-raw-insn", where)):
            yield f"{path.relative_to(objects)}: uses {found.group()}, which older CPUs do not have"


def main():
    build = Path(sys.argv[1]).resolve()
    problems = [*export_problems(build / "libflashnext.so"),
                *instruction_problems(build / "CMakeFiles" / "fn_objects.dir")]
    print("\n".join(problems) or "binary: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
