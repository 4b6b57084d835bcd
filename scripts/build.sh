#!/usr/bin/env bash
# Builds the release binary, target/release/fullstripe.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" build
cargo build --release "${cargo_lock_options[@]}" -p fullstripe
