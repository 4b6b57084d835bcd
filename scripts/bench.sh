#!/usr/bin/env bash
# Builds what is measured, installs the programs that it is compared with, and runs benchmarks/run.
#
# usage: scripts/bench.sh [OPTION...] NAME...     (see benchmarks/run --help)
#        scripts/bench.sh gate [OPTION...]        (see benchmarks/gate --help)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
if [[ ${1:-} == gate ]]; then
    shift
    "$root/scripts/setup.sh" test
    cargo build --release "${cargo_lock_options[@]}" -p fullstripe
    exec benchmarks/gate "$@"
fi
"$root/scripts/setup.sh" bench
cargo build --release "${cargo_lock_options[@]}" -p fullstripe
cargo build --release "${cargo_lock_options[@]}" -p drives --example kernel_speed --example ublk_modes
cargo build --release "${cargo_lock_options[@]}" -p exports --example front_end
(cd blkio && cargo build --release "${cargo_lock_options[@]}" --example load)
exec benchmarks/run "$@"
