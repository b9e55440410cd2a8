"""What kernels this CPU can run, asked of the operating system rather than of the program under test."""
from pathlib import Path


def kernel_tables():
    flags = set()
    for line in Path("/proc/cpuinfo").read_text().split("\n"):
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            break
    tables = ["ref"]
    if {"avx2", "fma", "f16c"} <= flags:
        tables.append("avx2")
        if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
            tables.append("avx512")
    return tables
