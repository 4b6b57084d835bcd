#!/usr/bin/env bash
# Removes build results of the workspace and of the fuzz targets. The findings of fuzzing stay.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
cargo clean
cargo clean --manifest-path fuzz/Cargo.toml
