#!/usr/bin/env bash
# Builds the program and a Debian package of it, in target/deb, and prints the package's path.
#
# usage: scripts/deb.sh [--architecture arm64]     (default: this machine's own processor type)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

architecture=$(wanted_architecture "$@")
"$root/scripts/build.sh" "$@"
"$root/packaging/deb.sh" "$(release_program "$architecture")" "${CARGO_TARGET_DIR:-$root/target}/deb"
