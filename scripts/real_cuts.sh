#!/usr/bin/env bash
# Cuts the power of the real program again and again, on drives that lose what was not synced (crates/faultfs).
#
# usage: scripts/real_cuts.sh [COUNT [SEED]]
#
# COUNT is the number of cuts (300), in lives of 12 cuts each, two lives at a time. SEED is that of the first life; by
# default it is derived from the time, or in CI from the code. For a life that fails, the command that repeats its
# choices is printed. Which request is in flight when the power is cut depends on the machine, so it may take some
# repetitions. Needs root and /dev/fuse.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

count=${1:-300}
[[ $count =~ ^[1-9][0-9]{0,6}$ ]] || die "COUNT is '$count': a number from 1 to 9999999 is wanted."
seed=${2:-$(($(fresh_seed) * 1000))}
[[ $seed =~ ^[0-9]{1,18}$ ]] || die "SEED is '$seed': a number is wanted."
[[ $EUID -eq 0 ]] || die "cutting the power of drives takes root, for mounts and loop devices: run this as root."
[[ -c /dev/fuse ]] || die "there is no /dev/fuse, which the drives are made of: load the kernel's module fuse."

use_toolchain
"$root/scripts/setup.sh" test
say "$count cuts, lives from seed $seed on"
# The whole workspace is named so that the program is the one that `make test` has built: a package alone may get
# dependencies with fewer features, and is then built once more.
REAL_CUTS_COUNT=$count REAL_CUTS_SEED=$seed cargo test "${cargo_lock_options[@]}" --workspace --test e2e -- \
    real_cuts::lives:: --nocapture
