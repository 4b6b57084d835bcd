# shellcheck shell=bash
# Shared by the scripts in this folder; sourced, not run.
#
# Defines `say`, `die`, `root` (the repository's folder), `fresh_seed`, `own_architecture`, `wanted_architecture`, `arm_target`,
# `release_program`, `use_toolchain`, `cargo_tool`, `has_crate_program`, `crate_program` and `have_target`.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# In CI the lock file must not change: a build that would change it is an error.
cargo_lock_options=()
# shellcheck disable=SC2034  # used by the scripts that source this
if [[ -n ${CI:-} ]]; then cargo_lock_options=(--locked); fi

# Prints a number for fresh seeds. In CI it is derived from the code: every change is tested with other seeds, and the
# same code always gets the same verdict. Elsewhere it is the time.
fresh_seed() {
    if [[ -z ${CI:-} ]]; then
        date +%s
    else
        local digest
        digest=$(find "$root/crates" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum)
        printf '%d\n' "0x${digest:0:8}"
    fi
}

# Prints this machine's processor type, as Debian calls it.
own_architecture() {
    case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
    esac
}

# wanted_architecture [--architecture NAME]: prints the processor type that a program is wanted for: this machine's own if none is
# named.
wanted_architecture() {
    local own
    own=$(own_architecture)
    if [[ $# -eq 0 ]]; then
        echo "$own"
    elif [[ $# -ne 2 || $1 != --architecture ]]; then
        die "'$*' is not understood here: use --architecture $own or --architecture arm64."
    elif [[ $2 == "$own" || $2 == arm64 ]]; then
        echo "$2"
    else
        die "programs for '$2' cannot be built on this machine, only for $own and arm64: build on a machine of that type."
    fi
}

# Rust's name of 64-bit ARM with Debian's C library.
arm_target=aarch64-unknown-linux-gnu

# release_program [ARCHITECTURE]: prints the path of the program that `make build` or scripts/build.sh makes.
release_program() {
    local folder=release how="'make build' makes it" program
    if [[ ${1:-$(own_architecture)} != "$(own_architecture)" ]]; then
        folder=$arm_target/release
        how="'scripts/build.sh --architecture $1' makes it"
    fi
    program=${CARGO_TARGET_DIR:-$root/target}/$folder/fullstripe
    [[ -x $program ]] || die "$program is missing: $how."
    printf '%s\n' "$program"
}

# Prints the oldest Rust version that can build this, as the workspace states it.
oldest_rust() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml"; }

# at_least VERSION MINIMUM: true if VERSION is not older than MINIMUM.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

# Finds a cargo that can build this, or says what is missing; then changes into the repository's folder.
#
# rust-toolchain.toml names one exact toolchain. If rustup can install it, it does so at the first call. Otherwise (no
# network, or automatic installation switched off) an installed toolchain that is new enough is used, preferably the
# same release.
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

# cargo_tool NAME VERSION: installs this version of a cargo subcommand into cargo's own folder if missing (some minutes,
# once).
cargo_tool() {
    local name=$1 version=$2
    # cargo finds its subcommands there even if that folder is not in PATH.
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    if [[ $(cargo "$name" --version 2>/dev/null) == "cargo-$name $version" ]]; then return; fi
    install_crate "cargo-$name" "$version"
}

# has_crate_program NAME VERSION FOLDER: whether FOLDER/bin has this version of a program.
has_crate_program() { [[ $("$3/bin/$1" --version 2>/dev/null) == "$1 $2" ]]; }

# crate_program NAME VERSION FOLDER: installs it there if missing (some minutes, once).
crate_program() { has_crate_program "$@" || install_crate "$1" "$2" --root "$3"; }

# install_crate CRATE VERSION [OPTION...]
install_crate() {
    local crate=$1 version=$2
    shift 2
    say "installing $crate $version (some minutes, once)"
    local quiet=()
    # On a terminal cargo shows its progress.
    if [[ ! -t 2 ]]; then quiet=(--quiet); fi
    # Optimised for a short build: the tool mostly waits for cargo, or runs for seconds.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        timeout 1200 cargo install "${quiet[@]}" --locked "$crate" --version "$version" "$@" ||
        die "$crate $version could not be installed: see above."
}

# have_target TARGET: installs Rust's standard library for the target if it is missing.
have_target() {
    if [[ -d $(rustc --print target-libdir --target "$1") ]]; then return; fi
    command -v rustup >/dev/null ||
        die "Rust's standard library for $1 is missing, and there is no rustup to install it."
    say "installing Rust's standard library for $1"
    timeout 600 rustup target add "$1" || die "rustup could not install it: see above."
}
