#!/usr/bin/env bash
# Builds the release binary, target/release/fullstripe.
#
# usage: scripts/build.sh [--architecture arm64]     (default: this machine's own processor type)
#
# The program for another processor type is target/aarch64-unknown-linux-gnu/release/fullstripe. Debian's cross compiler links it
# with Debian's C library of that type, as a program that is built on such a machine.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

architecture=$(wanted_architecture "$@")
use_toolchain
options=(--release "${cargo_lock_options[@]}" -p fullstripe)
if [[ $architecture == "$(own_architecture)" ]]; then
    "$root/scripts/setup.sh" build
else
    "$root/scripts/setup.sh" arm64
    have_target "$arm_target"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    options+=(--target "$arm_target")
fi
cargo build "${options[@]}"
