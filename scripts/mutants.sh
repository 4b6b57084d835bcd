#!/usr/bin/env bash
# Changes functions that keep data safe, one at a time, and shows which changes no test notices. For the options see
# scripts/mutants/main.py.
#
# Installs cargo-mutants into cargo's own folder if it is missing (some minutes, once).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" test
cargo_tool mutants 27.1.0

MUTANTS_SEED=$(fresh_seed)
export MUTANTS_SEED
exec "$root/scripts/mutants/main.py" "$@"
