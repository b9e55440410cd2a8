#!/bin/sh
# The matrix products' inner loops must keep their sums in registers: compilers have been seen to
# move a 24-register block to the stack, at a third of the speed and with the right results. For
# optimised builds without sanitizers.
#
# The products of decoded weights may put constants there before their first multiplication, and a
# few sums: 4 of the 96 to 192 multiplications of a round cost nothing that can be measured.
#
# usage: spill_check.sh OBJECT_DIRECTORY (of the library, in the build tree); exit 0 clean, 1 found
# something, 77 no objdump
set -eu
[ $# -eq 1 ] || { echo "usage: spill_check.sh OBJECT_DIRECTORY"; exit 2; }
command -v objdump >/dev/null || { echo "objdump is not installed: skipped"; exit 77; }
bad=0

# check OBJECT MULTIPLICATION REGISTER LEAST ALLOWED: the object multiplies at least LEAST times; in no
# function do more than ALLOWED registers go to the stack once multiplying has begun.
check() {
    object=$objects/$1
    [ -f "$object" ] || { echo "$object: missing"; exit 1; }
    code=$(objdump -d --no-show-raw-insn "$object")
    sums=$(printf '%s\n' "$code" | grep -c "$2.*%$3" || true)
    spills=$(printf '%s\n' "$code" | awk -v multiply="$2.*%$3" -v spill="%$3[0-9]+,[^%]*\\\\(%r[sb]p" '
        /^[0-9a-f]+ </ { begun = 0; here = 0 }
        $0 ~ multiply { begun = 1 }
        begun && $0 ~ spill { if (++here > most) most = here }
        END { print most + 0 }')
    echo "$1: $sums multiplications, $spills uses of the stack, $5 allowed"
    [ "$sums" -ge "$4" ] && [ "$spills" -le "$5" ] || bad=1
}

objects=$1/src/kernels
for kind in f32 bf16; do
    check avx512/matmul_$kind.c.o vfmadd zmm 150 0
done
for kind in int8 int4 fp8 nvfp4; do
    check avx512/matmul_$kind.c.o vfmadd zmm 150 4
done
check avx512/matmul_fast_int8.c.o vpdpbusd zmm 150 0
check avx512/matmul_fast_int4.c.o vpdpbusd zmm 300 0
check avx512/matmul_fast_bf16.c.o vdpbf16ps zmm 150 0
check avx2/matmul_fast_int8_vnni.c.o vpdpbusd ymm 40 12
check avx2/matmul_fast_int4_vnni.c.o vpdpbusd ymm 80 12
exit $bad
