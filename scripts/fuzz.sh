#!/usr/bin/env bash
# Fuzzes for a limited time, shared equally by all targets in fuzz/. A finding fails the run.
#
# usage: scripts/fuzz.sh [SECONDS]     (60 if not given)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

total_seconds=${1:-60}
[[ $total_seconds =~ ^[1-9][0-9]*$ ]] || die "'$total_seconds' is not a number of seconds above 0."

use_toolchain
command -v rustup >/dev/null ||
    die "fuzzing needs a nightly toolchain, and there is no rustup to hold one."
nightly=$(rustup toolchain list | awk '/^nightly/ { print $1; exit }')
[[ -n $nightly ]] ||
    die "fuzzing needs a nightly toolchain. Run: rustup toolchain install nightly"
command -v cargo-fuzz >/dev/null ||
    die "cargo-fuzz is missing. Run: cargo install --locked cargo-fuzz --version 0.13.2"
command -v c++ >/dev/null || die "fuzzing needs a C++ compiler. Run: apt-get install g++"

mapfile -t targets < <(cargo "+$nightly" fuzz list)
[[ ${#targets[@]} -gt 0 ]] || die "fuzz/ has no targets."
target_seconds=$((total_seconds / ${#targets[@]}))
if [[ $target_seconds -eq 0 ]]; then target_seconds=1; fi

# Everything is built first, so that the time is spent on fuzzing.
cargo "+$nightly" fuzz build
for target in "${targets[@]}"; do
    say "== $target: $target_seconds s"
    timeout --kill-after=10 $((target_seconds + 60)) \
        cargo "+$nightly" fuzz run "$target" -- \
        -max_total_time="$target_seconds" -timeout=10 -print_final_stats=1
done
echo "${#targets[@]} passed, 0 failed"
