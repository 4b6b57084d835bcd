#!/usr/bin/env bash
# Writes docs/scorecard.md: every row of the frozen claims, with a plain calculator's word beside ours,
# and what becomes of each ordering without the mechanism that it names. A quarter of an hour of two cores where nothing is remembered.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/clean_tree.py"
fullstripe=$(release_program)
page=$root/docs/scorecard.md
# A run that does not go through leaves the page as it was.
trap 'rm -f "$page.new"' EXIT

# A heading and what `claims` says, its options after the heading. How far it is goes to standard error.
part() {
    say "fullstripe claims ${*:2}"
    printf '\n## %s\n\n`fullstripe claims %s`\n\n```\n' "$1" "${*:2}"
    "$fullstripe" claims "${@:2}"
    printf '```\n'
}

{
    cat <<'PROSE'
# The scorecard

What the simulator says of five publications' results, row by row, misses included: `make scorecard` writes this page. What
uses, facts and intervals mean is in [claims/README.md](../claims/README.md); why rows are missed is in
[model.md](model.md), "Score of md-2018" and "Score of P and O", which also say what was known when the model's parts were
chosen. V rows are the evidence, and no number was fitted to them. C rows may be fitted to, and are no evidence. The two are never added. Rows of the 99.999th percentile
need `--deep` and are not run here; model.md gives them.
PROSE
    part "V: the evidence, and its orderings without what they name" --mechanisms --only V
    part "C: residuals" --only C
    part "F: rules" --only F
} >"$page.new"
mv "$page.new" "$page"
