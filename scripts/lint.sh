#!/usr/bin/env bash
# Checks the source without running it: formatting, clippy, and the repository's own rules.
#
# usage: scripts/lint.sh [format|clippy|tidy]     (all three by default)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" lint

# Printing the names of the files is enough: `cargo fmt --all` repairs them.
format() {
    cargo fmt --all --check -- -l || die "the files above are not formatted. Run: cargo fmt --all"
}

clippy() {
    cargo clippy --workspace --all-targets "${cargo_lock_options[@]}" -- -D warnings
}

tidy() {
    "$root/scripts/tidy.sh"
}

case ${1:-all} in
format) format ;;
clippy) clippy ;;
tidy) tidy ;;
all)
    format
    clippy
    tidy
    ;;
*) die "unknown check '$1': use format, clippy or tidy." ;;
esac
