# shellcheck shell=bash
# Shows that long work continues. Sourced after common.sh, not run.
#
# Defines `waiting_for`.

# Seconds between two lines, if standard error is not a terminal.
quiet_seconds=120

# last_words LOG: prints the last line of the log, without terminal colours and carriage returns.
last_words() {
    tail -c 2000 "$1" | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep . | tail -n 1 || true
}

# goes_on LABEL LOG: shows that work continues, as long as this script lives: on a terminal in one line that stays in
# place, elsewhere in a dated line from time to time.
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

# waiting_for LABEL LOG COMMAND...: runs COMMAND with its output in LOG, shows on standard error that it continues, and
# returns its exit code.
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
