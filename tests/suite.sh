# The test suite, sourced by ./run: `./run test` and, with slow checks, `./run test --all`.
# shellcheck shell=bash

results=$root/build/results
jobs=$(nproc)

# check NAME COMMAND...: one test; its output is shown if it fails.
check() {
    local name=$1 started=$SECONDS
    shift
    if (cd "$root" && "$@") >"$results/$name.log" 2>&1 </dev/null; then
        echo "passed $name" >>"$results/checks.txt"
        say "ok    $name ($((SECONDS - started)) s)"
    else
        echo "failed $name" >>"$results/checks.txt"
        say "FAIL  $name ($((SECONDS - started)) s)"
        tail -n 100 "$results/$name.log" >&2
    fi
}

skip() {
    echo "skipped $1" >>"$results/checks.txt"
    say "skip  $1: $2"
}

# make_venv NAME REQUIREMENTS: a virtual environment build/NAME, made again when tests/REQUIREMENTS changes.
python=$root/build/venv/bin/python
make_venv() {
    local place=$root/build/$1 wanted=$root/tests/$2 base=/usr/bin/python3
    cmp -s "$wanted" "$place/.requirements" && return 0
    [ -x "$base" ] || base=$(command -v python3) || die "no python3"
    say "installing Python packages into build/$1"
    rm -rf "$place"
    quietly "$root/build/venv.log" "$base" -m venv "$place" || die "python3 -m venv failed"
    quietly "$root/build/venv.log" "$place/bin/python" -m pip install --disable-pip-version-check -r "$wanted" ||
        die "could not install tests/$2"
    cp "$wanted" "$place/.requirements"
}

# ctest_of PRESET: every C test of that build. Results are counted by tools/count_tests.py.
ctest_of() {
    say "C tests, $1 build"
    (cd "$root" && ctest --test-dir "build/$1" -j"$jobs" --output-on-failure --quiet \
        --output-junit "$results/ctest.$1.xml" --output-log "$results/ctest.$1.log") </dev/null ||
        say "FAIL  some C tests of the $1 build; $results/ctest.$1.log has all output"
}

build_preset() {
    say "building: $1"
    configure "$@"
    if ! quietly "$root/build/$1.log" ninja --quiet -C "$root/build/$1"; then
        say "run: the $1 build failed"
        echo "0 passed, 1 failed"
        exit 1
    fi
}

pytest_of() {
    local name=$1
    shift
    (cd "$root" && FLASHNEXT_BIN="$root/build/release/flashnext" \
        "$python" -m pytest tests -q --junitxml "$results/$name.xml" "$@") </dev/null >&2 ||
        say "FAIL  $name"
}

sources() {
    local kind=() arg
    for arg in "$@"; do
        kind+=(-o -name "$arg")
    done
    (cd "$root" && find src apps include tests fuzz bench -type f \( "${kind[@]:1}" \) | sort)
}

check_format() {
    sources '*.c' '*.h' | xargs -r clang-format-14 --dry-run -Werror
}

check_tidy() {
    sources '*.c' | grep -E '^(src|apps)/' |
        xargs -r run-clang-tidy -quiet -j"$jobs" -p build/release
}

check_cppcheck() {
    cppcheck --std=c11 --enable=warning,performance,portability --error-exitcode=1 --quiet -j"$jobs" \
        --inline-suppr --suppressions-list=tools/cppcheck.txt -Iinclude -Isrc src apps/cli apps/server
}

# Which kernels run on older CPUs, under emulation: a wrong instruction there is an illegal one.
check_emulated() {
    local case=$root/tests/data/mini-f32
    qemu-x86_64 -cpu "$1" build/release/flashnext verify --model-dir "$case/checkpoint" \
        --golden "$case/golden.safetensors" --isa "$2" -t 1
}

fuzz_one() {
    local target=$1 name
    name=$(basename "$target")
    mkdir -p "$root/build/fuzz-found/$name" "$root/fuzz/corpus/${name%_fuzz}"
    "$target" -max_total_time="${FUZZ_SECONDS:-40}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$root/build/fuzz-found/" \
        "$root/build/fuzz-found/$name" "$root/fuzz/corpus/${name%_fuzz}"
}

slow_checks() {
    local target
    install_packages "${ALL_PACKAGES[@]}"
    quietly "$root/build/venv.log" "$python" -m pip install --disable-pip-version-check \
        -r "$root/tests/requirements-all.txt" || die "could not install tests/requirements-all.txt"
    make_venv venv-lm-eval requirements-lm-eval.txt
    check clang-tidy check_tidy
    check cppcheck check_cppcheck
    if [ -x /usr/bin/qemu-x86_64 ]; then
        check emulated-avx2 check_emulated Haswell avx2
        check emulated-ref check_emulated Nehalem ref
        check emulated-kernels tests/kernels/qemu_check.sh build/release
    else
        skip emulated "no qemu-x86_64"
    fi
    for preset in asan tsan; do
        build_preset "$preset"
        ctest_of "$preset"
    done
    build_preset fuzz
    for target in "$root"/build/fuzz/*_fuzz; do
        check "$(basename "$target")" fuzz_one "$target"
    done
    pytest_of pytest-slow -m slow
}

run_suite() {
    local all=0
    case "$*" in
    "") ;;
    --all) all=1 ;;
    *)
        say "usage: ./run test [--all]"
        exit 2
        ;;
    esac
    rm -rf "$results"
    mkdir -p "$results"
    install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    build_preset release -DFN_TESTS=ON
    make_venv venv requirements.txt
    check rooms "$python" tools/check_rooms.py
    check headers "$python" tools/check_headers.py
    check binary "$python" tools/check_binary.py build/release
    check format check_format
    ctest_of release
    pytest_of pytest -m "not slow"
    if [ $all = 1 ]; then
        slow_checks
    fi
    say "took $SECONDS s"
    exec "$python" "$root/tools/count_tests.py" "$results"
}
