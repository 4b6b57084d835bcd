# shellcheck shell=bash
# Says that long work goes on; meant to be sourced after common.sh, not run.
#
# Gives `waiting_for`.

# Between two lines where nobody sits at a terminal.
quiet_seconds=120

# goes_on LABEL SECONDS LOG: one line on a terminal, again and again in the same place.
goes_on() {
    local last columns
    # A log has colours and carriage returns of its own; only its last words are wanted.
    last=$(tail -c 2000 "$3" | tr '\r' '\n' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep . | tail -n 1 || true)
    columns=$(tput cols 2>/dev/null || echo 80)
    printf '\r\033[K%.*s' $((columns - 1)) "$1: $(($2 / 60)) min $(($2 % 60)) s  $last" >&2
}

# waiting_for LABEL LOG COMMAND...: runs COMMAND without input and with its output in LOG, and returns its code. Says on
# standard error meanwhile how long it has taken: on a terminal every second, elsewhere in a dated line now and then.
waiting_for() {
    local label=$1 log=$2 pid status=0 began=$SECONDS said=$SECONDS
    shift 2
    "$@" </dev/null >"$log" 2>&1 &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        if [[ -t 2 ]]; then
            goes_on "$label" $((SECONDS - began)) "$log"
        elif [[ $((SECONDS - said)) -ge $quiet_seconds ]]; then
            say "$(date '+%F %T')  $label: goes on after $(((SECONDS - began) / 60)) min"
            said=$SECONDS
        fi
    done
    wait "$pid" || status=$?
    if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
    return "$status"
}
