#!/bin/sh
# The matrix products' inner loops must keep their sums in registers: compilers have been seen to
# move a 24-register block to the stack, at a third of the speed and with the right results. For
# optimised builds without sanitizers.
#
# usage: spill_check.sh OBJECT_DIRECTORY; exit 0 clean, 1 found something, 77 no objdump
set -eu
command -v objdump >/dev/null || { echo "objdump is not installed: skipped"; exit 77; }
bad=0
for kind in f32 bf16; do
    object=$1/src/kernels/avx512/matmul_$kind.c.o
    [ -f "$object" ] || { echo "$object: missing"; exit 1; }
    code=$(objdump -d --no-show-raw-insn "$object")
    sums=$(printf '%s\n' "$code" | grep -c 'vfmadd.*%zmm' || true)
    spills=$(printf '%s\n' "$code" | grep -cE '%zmm[0-9]+,.*\(%r[sb]p|\(%r[sb]p.*%zmm' || true)
    echo "$kind: $sums fused multiply-adds, $spills uses of the stack"
    [ "$sums" -ge 150 ] && [ "$spills" -eq 0 ] || bad=1
done
exit $bad
