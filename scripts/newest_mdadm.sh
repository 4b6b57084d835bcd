#!/usr/bin/env bash
# Runs the interoperability tests with the newest mdadm that the distribution has as a source package, instead of the
# installed one.
#
# usage: scripts/newest_mdadm.sh [OPTION...]
#
# Options are those of `make test-interop`. The source is built in a temporary folder; nothing is installed. If no
# source package is available, the script says so and runs nothing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The suite that gets new versions first, whatever suite this system uses.
suite=unstable
for program in apt-get cc make tar; do
    command -v "$program" >/dev/null || { say "skipped: $program not found"; exit 0; }
done
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
mkdir -p lists/partial cache/archives/partial
from=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
printf 'deb-src %s %s main\n' "$from" "$suite" >list
apt=(apt-get -q -o "Dir::Etc::SourceList=$place/list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$place/lists" -o "Dir::Cache=$place/cache" -o APT::Sandbox::User=root)
if ! timeout 120 "${apt[@]}" update >log 2>&1 || ! timeout 120 "${apt[@]}" source --download-only mdadm >>log 2>&1; then
    say "skipped: no source package of mdadm: $(tail -n 1 log)"
    exit 0
fi
tar -xf mdadm_*.orig.tar.*
mkdir bin
if ! make -C mdadm-*/ -j2 mdadm mdmon CXFLAGS=-DNO_LIBUDEV CWFLAGS= >log 2>&1; then
    tail -n 20 log >&2
    die "mdadm does not build (the end of what make said is above)."
fi
cp mdadm-*/mdadm mdadm-*/mdmon bin
say "judge: $(bin/mdadm --version 2>&1)"
cd "$root"
PATH="$place/bin:$PATH" PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=scripts python3 -m interop "$@"
