#!/usr/bin/env bash
# Checks the dependencies against deny.toml: licences, sources, duplicates, forbidden dependencies, and known
# vulnerabilities if the advisory database can be reached.
#
# Installs cargo-deny into cargo's own folder if it is missing (some minutes, once).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

use_toolchain
"$root/scripts/setup.sh" build
cargo_tool deny 0.20.2

# deny.toml lists the permitted parents of crates that need not be in the tree.
cargo deny "${cargo_lock_options[@]}" check --allow unused-wrapper bans licenses sources

if timeout 60 cargo deny fetch db >/dev/null 2>&1; then
    cargo deny "${cargo_lock_options[@]}" check --disable-fetch advisories
else
    say "advisories: not checked, the advisory database cannot be reached from here."
fi
