#!/usr/bin/env bash
# Checks what we depend on against deny.toml: licences, sources, duplicates, forbidden dependencies,
# and, where the advisory database can be reached, known vulnerabilities.
#
# Installs cargo-deny into cargo's own folder if it is missing (some minutes, once).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cargo_deny_version=0.20.2

use_toolchain
"$root/scripts/setup.sh" build

if [[ $(cargo deny --version 2>/dev/null) != "cargo-deny $cargo_deny_version" ]]; then
    say "installing cargo-deny $cargo_deny_version (some minutes, once)"
    # Built for a short build, not for speed: it runs for a second.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        timeout 1200 cargo install --quiet --locked cargo-deny --version "$cargo_deny_version" ||
        die "cargo-deny $cargo_deny_version could not be installed: see above."
fi

# deny.toml lists the permitted parents of crates that may not be in the tree yet.
cargo deny "${cargo_lock_options[@]}" check --allow unused-wrapper bans licenses sources

if timeout 60 cargo deny fetch db >/dev/null 2>&1; then
    cargo deny "${cargo_lock_options[@]}" check --disable-fetch advisories
else
    say "advisories: not checked, the advisory database cannot be reached from here."
fi
