#!/bin/sh
# The matrix products' inner loops must keep their sums in registers: compilers have been seen to
# move a 24-register block to the stack, at a third of the speed and with the right results. For
# optimised builds without sanitizers.
#
# The products of decoded weights may put constants there before their first multiplication, and a
# few sums: 4 of the 96 to 192 multiplications of a round cost nothing that can be measured.
#
# usage: spill_check.sh OBJECT_DIRECTORY; exit 0 clean, 1 found something, 77 no objdump
set -eu
command -v objdump >/dev/null || { echo "objdump is not installed: skipped"; exit 77; }
bad=0
for kind in f32 bf16 int8 int4 fp8 nvfp4; do
    object=$1/src/kernels/avx512/matmul_$kind.c.o
    [ -f "$object" ] || { echo "$object: missing"; exit 1; }
    code=$(objdump -d --no-show-raw-insn "$object")
    sums=$(printf '%s\n' "$code" | grep -c 'vfmadd.*%zmm' || true)
    case $kind in
    f32 | bf16)
        allowed=0
        spills=$(printf '%s\n' "$code" | grep -cE '%zmm[0-9]+,.*\(%r[sb]p|\(%r[sb]p.*%zmm' || true)
        ;;
    *) # the most in one function
        allowed=4
        spills=$(printf '%s\n' "$code" | awk '
            /^[0-9a-f]+ </ { begun = 0; here = 0 }
            /vfmadd.*%zmm/ { begun = 1 }
            begun && /%zmm[0-9]+,[^%]*\(%r[sb]p/ { if (++here > most) most = here }
            END { print most + 0 }')
        ;;
    esac
    echo "$kind: $sums fused multiply-adds, $spills uses of the stack, $allowed allowed"
    [ "$sums" -ge 150 ] && [ "$spills" -le "$allowed" ] || bad=1
done
exit $bad
