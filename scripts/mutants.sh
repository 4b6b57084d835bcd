#!/usr/bin/env bash
# Changes functions that keep data safe, one at a time, and shows which changes no test notices. Options and all
# else: scripts/mutants/main.py.
#
# Installs cargo-mutants into cargo's own folder if it is missing (some minutes, once).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cargo_mutants_version=27.1.0

use_toolchain
"$root/scripts/setup.sh" test
# cargo finds its subcommands there whether or not the shell does.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

if [[ $(cargo mutants --version 2>/dev/null) != "cargo-mutants $cargo_mutants_version" ]]; then
    say "installing cargo-mutants $cargo_mutants_version (some minutes, once)"
    # Built for a short build, not for speed: it mostly waits for cargo.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        timeout 1200 cargo install --quiet --locked cargo-mutants --version "$cargo_mutants_version" ||
        die "cargo-mutants $cargo_mutants_version could not be installed: see above."
fi

MUTANTS_SEED=$(fresh_seed)
export MUTANTS_SEED
exec "$root/scripts/mutants/main.py" "$@"
