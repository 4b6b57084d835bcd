#!/usr/bin/env bash
# Makes archives of the program for people without Rust: one file that needs no library of the system it runs on, for
# x86-64 and for 64-bit ARM, each with its manual pages, completions, README and licences.
#
# usage: scripts/prebuilt.sh
#
# They are in target/prebuilt/, with SHA256SUMS. Each program is tried before it is packed: it makes an array on files
# and reads it back, the program for the other processor type in an emulator. This takes about ten minutes of one core.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" prebuilt

built=${CARGO_TARGET_DIR:-$root/target}
archives=$built/prebuilt
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The target with a C library that is linked into the program, so that it needs none of the system's.
target_of() { echo "$1-unknown-linux-musl"; }

# build PROCESSOR. Rust's own linker serves both types, because no part of the program is in C. Names of this machine's
# folders are kept out of messages.
build() {
    local flags="-C linker=rust-lld -C link-self-contained=yes -C target-feature=+crt-static"
    flags+=" --remap-path-prefix=$root=fullstripe --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=registry"
    say "building for $1"
    RUSTFLAGS=$flags CARGO_PROFILE_RELEASE_STRIP=debuginfo \
        cargo build --release "${cargo_lock_options[@]}" -p fullstripe --target "$(target_of "$1")"
}

program_of() { echo "$built/$(target_of "$1")/release/fullstripe"; }

# on PROCESSOR ARGUMENT...: runs the program for this processor type here.
on() {
    local emulator=()
    if [[ $1 != "$(uname -m)" ]]; then emulator=("qemu-$1-static"); fi
    timeout 120 "${emulator[@]}" "$(program_of "$1")" "${@:2}"
}

# try PROCESSOR: checks that the program runs, makes an array and finds it again.
try() {
    local drives=("$scratch/$1"-{0,1,2,3}.img)
    if [[ $(on "$1" --version) != *"$version"* ]]; then die "the program for $1 does not tell its version $version."; fi
    truncate -s 64M "${drives[@]}"
    on "$1" create vol0 --level 5 "${drives[@]}" >"$scratch/said" || die "the program for $1 makes no array: see above."
    on "$1" examine "${drives[@]}" >"$scratch/said"
    grep -q vol0 "$scratch/said" || die "the program for $1 does not find the array it has made."
    rm "${drives[@]}"
}

# pack PROCESSOR
pack() {
    local name=fullstripe-$version-$1-linux shell
    local folder=$scratch/$name
    mkdir -p "$folder/completions"
    cp "$(program_of "$1")" "$root"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT} "$folder/"
    # Manual pages and completions are the same for both: this machine's own program writes them.
    on "$(uname -m)" man "$folder/man" >"$scratch/said"
    for shell in bash fish zsh; do on "$(uname -m)" completions "$shell" >"$folder/completions/fullstripe.$shell"; done
    tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-$(date +%s)}" \
        -c "$name" | gzip -n9 >"$archives/$name.tar.gz"
}

mkdir -p "$archives"
rm -f "$archives"/*.tar.gz
for processor in x86_64 aarch64; do
    have_target "$(target_of "$processor")"
    build "$processor"
    try "$processor"
done
for processor in x86_64 aarch64; do pack "$processor"; done
cd "$archives"
sha256sum ./*.tar.gz | sed 's|\./||' | tee SHA256SUMS
