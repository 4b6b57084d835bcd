# shellcheck shell=bash
# Shared by the scripts beside it; meant to be sourced, not run.
#
# Gives `say`, `die`, `root` (the repository's folder), `fresh_seed`, `release_program`,
# `use_toolchain`, `cargo_tool` and `have_target`.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# In CI the lock file is the truth: a build that would change it is an error.
cargo_lock_options=()
# shellcheck disable=SC2034  # used by the scripts that source this
if [[ -n ${CI:-} ]]; then cargo_lock_options=(--locked); fi

# A number for seeds that nobody has run before. In CI it is made of the code: every change is judged by
# seeds of its own, and one state of the code has one verdict. Elsewhere it is the time.
fresh_seed() {
    if [[ -z ${CI:-} ]]; then
        date +%s
    else
        local digest
        digest=$(find "$root/crates" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum)
        printf '%d\n' "0x${digest:0:8}"
    fi
}

# The program that `make build` makes.
release_program() {
    local program=${CARGO_TARGET_DIR:-$root/target}/release/fullstripe
    [[ -x $program ]] || die "$program is missing: 'make build' makes it."
    printf '%s\n' "$program"
}

# The oldest Rust that can build this, as the workspace states it.
oldest_rust() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml"; }

# at_least VERSION MINIMUM: true when VERSION is not older than MINIMUM.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

# Finds a cargo that can build this, or says what is missing; changes into the repository's folder.
#
# rust-toolchain.toml names one exact toolchain. Where rustup can install it, it does so by itself
# at the first call. Where it can't (no network, or automatic installation switched off), an
# installed toolchain that is new enough is used instead, the same release if there is one.
use_toolchain() {
    if ! command -v cargo >/dev/null && [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/cargo ]]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    command -v cargo >/dev/null ||
        die "Rust is missing. Install it with rustup (https://rustup.rs), then run this again."

    local minimum version candidate chosen=
    minimum=$(oldest_rust)
    cd "$root"
    # The output goes to the terminal because the first call may download the toolchain.
    if version=$(RUST_BACKTRACE=0 timeout 900 cargo --version); then
        version=$(awk '{ print $2 }' <<<"$version")
        at_least "$version" "$minimum" ||
            die "cargo is version $version, but this needs $minimum or newer. Install Rust with" \
                "rustup (https://rustup.rs): it takes the version in rust-toolchain.toml by itself."
        return
    fi

    local pinned
    pinned=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    command -v rustup >/dev/null || die "cargo does not run: see its message above."
    while read -r candidate _; do
        version=$(rustc "+$candidate" --version 2>/dev/null | awk '{ print $2 }') || continue
        if [[ $version == *-nightly || $version == *-beta* ]]; then continue; fi
        at_least "$version" "$minimum" || continue
        chosen=$candidate
        if [[ $version == "$pinned" ]]; then break; fi
    done < <(rustup toolchain list)
    [[ -n $chosen ]] ||
        die "Rust $pinned is not installed and could not be fetched, and no installed toolchain is" \
            "$minimum or newer. Run: rustup toolchain install $pinned"
    version=$(rustc "+$chosen" --version | awk '{ print $2 }')
    say "Rust $pinned could not be fetched; using the installed toolchain '$chosen' ($version)."
    export RUSTUP_TOOLCHAIN=$chosen
}

# cargo_tool NAME VERSION: has this version of a subcommand of cargo in cargo's own folder (some minutes, once).
cargo_tool() {
    local name=$1 version=$2
    # cargo finds its subcommands there whether or not the shell does.
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    if [[ $(cargo "$name" --version 2>/dev/null) == "cargo-$name $version" ]]; then return; fi
    say "installing cargo-$name $version (some minutes, once)"
    local quiet=()
    # On a terminal cargo shows how far it is.
    if [[ ! -t 2 ]]; then quiet=(--quiet); fi
    # Built for a short build, not for speed: it mostly waits for cargo, or runs for a second.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        timeout 1200 cargo install "${quiet[@]}" --locked "cargo-$name" --version "$version" ||
        die "cargo-$name $version could not be installed: see above."
}

# have_target TARGET: has Rust's standard library for it.
have_target() {
    if [[ -d $(rustc --print target-libdir --target "$1") ]]; then return; fi
    command -v rustup >/dev/null ||
        die "Rust's standard library for $1 is missing, and there is no rustup to install it."
    say "installing Rust's standard library for $1"
    timeout 600 rustup target add "$1" || die "rustup could not install it: see above."
}
