#!/usr/bin/env bash
# Tests what threads do together, and how processors reorder it. Each part uses another method.
#
# usage: scripts/concurrency.sh [PART...]     (all parts if none is named)
#
#   shuttle   claims, mailboxes and whole shards in many orders of their accesses; in all orders if there are few
#   miri      claims and mailboxes in random orders, including those that only weak memory allows; arenas and pools on
#             the heap, where every pointer is checked (needs a nightly toolchain, which is installed)
#   threads   the tests of data threads, exports and the server under ThreadSanitizer (needs a nightly toolchain too)
#   build_shuttle  builds what shuttle runs, and runs nothing
#   arm       builds the program for 64-bit ARM, and runs the tests of its parity code in an emulator
#
# MIRI_SEEDS: how many orders Miri draws for each test (16).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
built=${CARGO_TARGET_DIR:-$root/target}

# nightly COMPONENT: prints the name of a nightly toolchain with this component, and installs one if there is none.
nightly() {
    command -v rustup >/dev/null || die "this needs a nightly toolchain, and there is no rustup to install one."
    local name installed
    name=$(rustup toolchain list | awk '/^nightly/ && !found { print $1; found = 1 }')
    name=${name:-nightly}
    installed=$(rustup component list --toolchain "$name" --installed 2>/dev/null || true)
    if [[ $installed != *"$1"* || $installed != *rust-src* ]]; then
        say "installing a nightly toolchain with $1"
        timeout 900 rustup toolchain install "$name" --profile minimal --component "$1,rust-src" >&2 ||
            die "rustup could not install it: see above."
    fi
    printf '%s\n' "$name"
}

# tests PROGRAMS COMMAND...: runs tests, and fails unless at least PROGRAMS test programs ran a test. Otherwise a filter
# that matches no test would pass too.
tests() {
    local programs=$1 log ran
    log=$(mktemp)
    if ! "${@:2}" 2>&1 | tee "$log"; then
        rm "$log"
        return 1
    fi
    ran=$(grep -acE '^running [1-9][0-9]* tests?$' "$log" || true)
    rm "$log"
    [[ $ran -ge $programs ]] || die "only $ran of $programs test programs had a test of the names asked for: mend the names."
}

shuttle() {
    local -x RUSTC_WORKSPACE_WRAPPER=$root/scripts/shuttle_rustc.sh
    tests 2 timeout 900 cargo test "${cargo_lock_options[@]}" -p engine -p drives --lib -- interleavings
    tests 1 timeout 900 cargo test "${cargo_lock_options[@]}" -p engine --test interleavings
}

build_shuttle() {
    local -x RUSTC_WORKSPACE_WRAPPER=$root/scripts/shuttle_rustc.sh
    cargo test "${cargo_lock_options[@]}" --no-run -p engine -p drives --lib
    cargo test "${cargo_lock_options[@]}" --no-run -p engine --test interleavings
}

miri() {
    local toolchain
    toolchain=$(nightly miri)
    # Miri supports the C library's calls, but no direct system calls.
    local -x RUSTFLAGS="--cfg rustix_use_libc" CARGO_TARGET_DIR=$built/miri
    local -x MIRIFLAGS="-Zmiri-disable-isolation"
    tests 1 timeout 1200 cargo "+$toolchain" miri test -p drives --lib -- arena:: memory::
    MIRIFLAGS+=" -Zmiri-many-seeds=0..${MIRI_SEEDS:-16}"
    tests 1 timeout 1200 cargo "+$toolchain" miri test -p engine --lib -- claims::tests
    tests 1 timeout 1200 cargo "+$toolchain" miri test -p drives --lib -- mailbox::tests::no_message
}

threads() {
    local toolchain
    toolchain=$(nightly rust-src)
    # One test is left out: its grace of 0.4 s is shorter than its client needs at this speed. The C library's calls are
    # used because the sanitizer observes memory there.
    local -x RUSTFLAGS="-Zsanitizer=thread --cfg rustix_use_libc" CARGO_TARGET_DIR=$built/threads
    local -x TSAN_OPTIONS="suppressions=$root/scripts/thread_sanitizer.txt"
    tests 3 timeout 2400 cargo "+$toolchain" test -Zbuild-std --target "$(uname -m)-unknown-linux-gnu" \
        --no-fail-fast -p drives -p exports -p server --lib -- \
        --skip clients_that_take_nothing_are_left_after_the_grace
}

arm() {
    local target=aarch64-unknown-linux-musl
    "$root/scripts/setup.sh" prebuilt
    have_target "$target"
    # Rust's own linker suffices, because no part of the program is in C.
    local -x RUSTFLAGS="-C linker=rust-lld -C link-self-contained=yes -C target-feature=+crt-static"
    local -x CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static
    timeout 1200 cargo build "${cargo_lock_options[@]}" -p fullstripe --target "$target"
    qemu-aarch64-static "$built/$target/debug/fullstripe" --version
    tests 1 timeout 900 cargo test "${cargo_lock_options[@]}" -p engine --lib --target "$target" -- xor
}

parts=("$@")
if [[ ${#parts[@]} -eq 0 ]]; then parts=(shuttle miri threads arm); fi
for part in "${parts[@]}"; do
    case $part in
    shuttle | build_shuttle | miri | threads | arm) ;;
    *) die "unknown part '$part': use shuttle, build_shuttle, miri, threads or arm." ;;
    esac
done
for part in "${parts[@]}"; do
    say "== $part"
    # In a process of its own, so that an error anywhere ends it.
    (set -e; "$part")
done
say "passed: ${parts[*]}"
