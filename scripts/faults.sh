#!/usr/bin/env bash
# Runs histories of faults with fresh seeds, each twice, in virtual time.
#
# usage: scripts/faults.sh [COUNT]
#
# COUNT is the number of seeds (3000). The first seed is derived from the time, or in CI from the code, and printed. For
# a seed that fails, the command that repeats it is printed. Seeds that failed once are kept in
# crates/sim/kept_seeds.txt and are part of `make test`. The output about each kind of history begins with its verdict;
# the last line is the verdict on all.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

count=${1:-3000}
[[ $count =~ ^[1-9][0-9]{0,6}$ ]] || die "COUNT is '$count': a number from 1 to 9999999 is wanted."
fullstripe=$(release_program)

first=$(($(fresh_seed) * 10000))
failed=()

# histories WORDS COUNT [OPTION...]: runs histories of one kind, under a heading with WORDS.
histories() {
    local words=$1 seeds=$first..$((first + $2))
    printf '\n== %s: seeds %s\n' "$words" "$seeds"
    "$fullstripe" sim faults "${@:3}" --seeds "$seeds" --twice || failed+=("$words")
}

histories "faults within what the array has to survive, and beyond" "$count"
histories "drives that come back while the array serves" $((count / 10 + 1)) --mode returning
histories "more shapes of arrays, drives that differ, more kinds of faults" $((count / 4 + 1)) --mode wide
histories "the same, with more faults than the array has to survive" $((count / 4 + 1)) --mode wide-beyond
# Wrong bytes that follow from lies are counted; anything else that goes wrong is a failure.
histories "drives that lie" $((count / 10 + 1)) --mode lying

printf '\n== whether the same happens in this build as in the tests: a hash of some predictions\n'
"$fullstripe" sim digest || failed+=("the hash of predictions")

printf '\n'
if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
echo "all histories of all kinds hold"
