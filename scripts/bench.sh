#!/usr/bin/env bash
# Builds what is measured, installs what it is compared with, and runs benchmarks/run.
#
# usage: scripts/bench.sh [OPTION...] NAME...     (see benchmarks/run --help)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" bench
cargo build --release "${cargo_lock_options[@]}" -p fullstripe
cargo build --release "${cargo_lock_options[@]}" -p drives --example kernel_speed
exec benchmarks/run "$@"
