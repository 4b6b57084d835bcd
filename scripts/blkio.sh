#!/usr/bin/env bash
# Another project's vhost-user client (the crate blkio) uses volumes of the built program. Needs no root.
#
# usage: scripts/blkio.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
FULLSTRIPE=${FULLSTRIPE:-$root/target/release/fullstripe}
[[ -x $FULLSTRIPE ]] || die "$FULLSTRIPE is missing. Run: make build"
export FULLSTRIPE
cd "$root/blkio"
cargo test --quiet --locked
