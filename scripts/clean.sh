#!/usr/bin/env bash
# Removes what was built, of the workspace and of the fuzz targets. Fuzzing's findings stay.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
cargo clean
cargo clean --manifest-path fuzz/Cargo.toml
