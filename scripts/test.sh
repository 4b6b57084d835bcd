#!/usr/bin/env bash
# Runs the tests. At the end it prints the names of failed tests; the last line is 'N passed, N failed', for everything
# that ran.
#
# usage: scripts/test.sh [all|fast|e2e|build]
#
#   all    every test (the default)
#   fast   without the end-to-end tests: the modules' own tests only
#   e2e    only the end-to-end tests: the built binary with real clients and file systems
#   build  no test: builds what `all` runs
#
# With TEST_COUNT_FILE set, the counts are also written there as two numbers, passed and failed.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Prints -p and the name of each crate whose documentation has an example that is a test. Cargo would have the documentation of
# every other crate read for nothing.
with_examples() {
    cd "$root" && find crates/*/src -name '*.rs' -exec awk '
        FNR == 1 { is_inside = 0 }
        /^ *\/\/[\/!] *```/ {
            if (!is_inside && /```(rust|no_run|should_panic|compile_fail|$)/) {
                split(FILENAME, folders, "/")
                print "-p", folders[2]
            }
            is_inside = !is_inside
        }' {} + | sort -u | tr '\n' ' '
}

case ${1:-all} in
# The examples are left out: they have no tests, and `make lint` checks that they compile.
all) selections=("--workspace --tests" "--doc $(with_examples)") ;;
fast) selections=("--workspace --lib --bins") ;;
e2e) selections=("-p fullstripe --test e2e") ;;
build) selections=() ;;
*) die "unknown selection '$1': use all, fast, e2e or build." ;;
esac

use_toolchain
"$root/scripts/setup.sh" test

if [[ ${1:-all} == build ]]; then
    exec cargo test "${cargo_lock_options[@]}" --workspace --tests --no-run
fi

# One test at a time more than there are processors, because many wait for a drive that hangs or a process that ends.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for selection in "${selections[@]}"; do
    # shellcheck disable=SC2086  # a selection is several words
    cargo test --no-fail-fast "${cargo_lock_options[@]}" $selection 2>&1 | tee -a "$log" || status=$?
done

# Sums lines like 'test result: ok. 5 passed; 0 failed; ...', colours removed.
read -r passed failed < <(sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
    /^test result: / {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
        }
    }
    END { print passed + 0, failed + 0 }')

# A build that fails or a test program that crashes prints no such line, and is a failure too.
if [[ $status -ne 0 && $failed -eq 0 ]]; then
    say "the tests did not run to their end: see above."
    failed=1
fi
if [[ $((passed + failed)) -eq 0 ]]; then
    say "no test ran."
    failed=1
fi

if grep -q '^test .* FAILED$' "$log"; then
    say "these tests failed:"
    grep '^test .* FAILED$' "$log" | sort -u | sed 's/^test /  /; s/ \.\.\. FAILED$//'
fi

if [[ -n ${TEST_COUNT_FILE:-} ]]; then echo "$passed $failed" >"$TEST_COUNT_FILE"; fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
