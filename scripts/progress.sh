# shellcheck shell=bash
# Says that long work goes on; meant to be sourced after common.sh, not run.
#
# Gives `waiting_for`.

# Between two lines where nobody sits at a terminal.
quiet_seconds=120

# last_words LOG: what was said last in it, without the colours and carriage returns that it has for terminals.
last_words() {
    tail -c 2000 "$1" | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep . | tail -n 1 || true
}

# goes_on LABEL LOG: says so as long as this script lives: on a terminal in one line that stays in place, elsewhere in a
# dated line now and then.
goes_on() {
    local began=$SECONDS said=$SECONDS gone columns
    columns=$(tput cols 2>/dev/null || echo 80)
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        gone=$((SECONDS - began))
        if [[ -t 2 ]]; then
            printf '\r\033[K%.*s' $((columns - 1)) "$1: $((gone / 60)) min $((gone % 60)) s  $(last_words "$2")" >&2
        elif [[ $((SECONDS - said)) -ge $quiet_seconds ]]; then
            say "$(date '+%F %T')  $1: goes on after $((gone / 60)) min"
            said=$SECONDS
        fi
    done
}

# waiting_for LABEL LOG COMMAND...: runs COMMAND with its output in LOG, says on standard error meanwhile that it goes on,
# and returns its code.
waiting_for() {
    local label=$1 log=$2 teller status=0
    shift 2
    : >"$log"
    goes_on "$label" "$log" &
    teller=$!
    "$@" >"$log" 2>&1 || status=$?
    kill "$teller" 2>/dev/null || true
    wait "$teller" 2>/dev/null || true
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
    return "$status"
}
