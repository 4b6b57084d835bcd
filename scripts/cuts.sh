#!/usr/bin/env bash
# Cuts the power at every instant of small operations of every level, and judges every state that the cut can leave.
#
# usage: scripts/cuts.sh [OPTION...]
#
# Options are those of `fullstripe sim cuts`: --quick for fewer states, --level, --operation.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fullstripe=$(release_program)
"$fullstripe" sim cuts "$@"
