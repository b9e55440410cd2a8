#!/bin/sh
# Runs the kernel tests on emulated CPUs: Haswell (AVX2, no AVX-512) and Nehalem (neither). An
# instruction that the chosen table must not use ends the test with SIGILL.
#
# usage: qemu_check.sh DIRECTORY_OF_TEST_PROGRAMS; exit 0 passed, 1 failed, 77 no qemu-x86_64
set -eu
programs=$1
command -v qemu-x86_64 >/dev/null || { echo "qemu-x86_64 is not installed: skipped"; exit 77; }

# qemu reads the whole vector of a masked load, so buffers end without an inaccessible page here; and
# fewer numbers of rows are tried.
FN_TESTS_EMULATED=1
export FN_TESTS_EMULATED

# $1 CPU, $2 table that must be the best one there
on_cpu() {
    for name in kernels matrix exp elementwise delta attention attention_bf16 matmul matmul_fast; do
        echo "== $1: $name"
        log=$(qemu-x86_64 -cpu "$1" "$programs/test.kernels.$name" 2>&1) || {
            printf '%s\n' "$log"
            echo "$1: test.kernels.$name failed"
            exit 1
        }
        [ "$name" != kernels ] || for line in ": $2\$" ": not on this CPU, skipped\$"; do
            printf '%s\n' "$log" | grep -q "$line" || { printf '%s\n' "$log"; exit 1; }
        done
    done
}

on_cpu Haswell avx2
on_cpu Nehalem ref
