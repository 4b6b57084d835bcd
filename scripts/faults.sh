#!/usr/bin/env bash
# Runs histories of faults with seeds that nobody has run before, each twice, in virtual time.
#
# usage: scripts/faults.sh [COUNT]
#
# COUNT is the number of seeds (3000). The first one is made of the time, in CI of the code, and printed: a
# seed that fails is run again by the command that comes with it. Seeds that failed once are kept in
# crates/sim/kept_seeds.txt and are part of `make test`.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

count=${1:-3000}
[[ $count =~ ^[1-9][0-9]{0,6}$ ]] || die "COUNT is '$count': a number from 1 to 9999999 is wanted."
fullstripe=$root/target/release/fullstripe
[[ -x $fullstripe ]] || die "$fullstripe is missing: 'make build' makes it."

first=$(($(fresh_seed) * 10000))
say "seeds $first..$((first + count)), each twice"
"$fullstripe" sim faults --seeds "$first..$((first + count))" --twice

# Drives that come back while the array serves.
"$fullstripe" sim faults --mode returning --seeds "$first..$((first + count / 10 + 1))" --twice

# More shapes of arrays, drives that differ, and faults of more kinds, within what is promised and beyond.
"$fullstripe" sim faults --mode wide --seeds "$first..$((first + count / 4 + 1))" --twice
"$fullstripe" sim faults --mode wide-beyond --seeds "$first..$((first + count / 4 + 1))" --twice

# Drives that lie: what comes of that is counted, and nothing else may go wrong.
"$fullstripe" sim faults --mode lying --seeds "$first..$((first + count / 10 + 1))" --twice

# Whatever happens in virtual time, and every figure of it, is the same in this build as in the tests' own.
"$fullstripe" sim digest
