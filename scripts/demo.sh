#!/usr/bin/env bash
# Builds fullstripe and runs its demonstration. Arguments are passed on to `fullstripe demo`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/setup.sh" demo
"$root/scripts/build.sh"
exec "${CARGO_TARGET_DIR:-$root/target}/release/fullstripe" demo "$@"
