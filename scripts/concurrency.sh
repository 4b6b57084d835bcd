#!/usr/bin/env bash
# What threads do together, and what processors make of it: each part looks at it in another way.
#
# usage: scripts/concurrency.sh [PART...]     (all of them, if none is named)
#
#   shuttle   claims, mailboxes and whole shards in many orders of their accesses; all orders where they are few
#   miri      claims and mailboxes in random orders, those included that only weak memory has; arenas and pools on the
#             heap, where every pointer is checked (needs a nightly toolchain, which is installed)
#   threads   the tests of data threads, exports and the server under ThreadSanitizer (as miri)
#   arm       the program built for 64-bit ARM, and the tests of its parity code in an emulator
#
# MIRI_SEEDS: how many orders Miri draws for each test (16).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
built=${CARGO_TARGET_DIR:-$root/target}

# nightly COMPONENT: the name of a nightly toolchain that has it; one is installed if there is none.
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

# tests PROGRAMS COMMAND...: runs tests, and fails unless so many programs had at least one of them: a filter that names no
# test would pass as well.
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
    local -x RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=$built/shuttle
    tests 2 timeout 900 cargo test "${cargo_lock_options[@]}" -p engine -p drives --lib -- interleavings
    tests 1 timeout 900 cargo test "${cargo_lock_options[@]}" -p engine --test interleavings
}

miri() {
    local toolchain
    toolchain=$(nightly miri)
    # Miri knows the C library's calls and no others.
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
    # Left out is a test whose grace of 0.4 s is shorter than what its client needs at this speed.
    # The C library's calls, because that is where the sanitizer sees memory come and go.
    local -x RUSTFLAGS="-Zsanitizer=thread --cfg rustix_use_libc" CARGO_TARGET_DIR=$built/threads
    tests 3 timeout 2400 cargo "+$toolchain" test -Zbuild-std --target "$(uname -m)-unknown-linux-gnu" \
        --no-fail-fast -p drives -p exports -p server --lib -- \
        --skip clients_that_take_nothing_are_left_after_the_grace
}

arm() {
    local target=aarch64-unknown-linux-musl
    "$root/scripts/setup.sh" prebuilt
    have_target "$target"
    # Rust's own linker: nothing that the program is made of is in C.
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
    shuttle | miri | threads | arm) ;;
    *) die "unknown part '$part': use shuttle, miri, threads or arm." ;;
    esac
done
for part in "${parts[@]}"; do
    say "== $part"
    # In a process of its own: an error ends it wherever it is.
    (set -e; "$part")
done
say "passed: ${parts[*]}"
