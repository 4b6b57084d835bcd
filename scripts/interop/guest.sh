# Runs inside user-mode Linux, for /init and for each job: names for what jobs do with md.
#
# A job finds its drives in $d0, $d1, ... and all of them in $drives. What it prints between marks beginning
# with @@ is read by the script outside. A process costs some ten milliseconds here, so that what is done often, like
# looking whether md is ready, is left to the shell itself.

export PATH=/bin:/sbin IMSM_DEVNAME_AS_SERIAL=1 IMSM_NO_PLATFORM=1 MDADM_NO_UDEV=1

# look FILE: the first word of its first line goes into $word, what follows into $rest.
look() { word=; rest=; read -r word rest 2> /dev/null < "$1"; }

# pause: a moment of 20 ms.
pause() { read -r -t 0.02 word <> /pause; }

# md_says ATTRIBUTE WORD: whether md says that of this job's volume.
md_says() { look /sys/block/$md/md/$1; [ "$word" = "$2" ]; }

until_md() { until md_says "$@"; do pause; done; }

while_md() { while md_says "$@"; do pause; done; }

# speed KIB: how fast md synchronises, per second.
speed() {
    echo "$1" > /proc/sys/dev/raid/speed_limit_max
    echo "$1" > /proc/sys/dev/raid/speed_limit_min
}

# has_drive PATH: whether the array with that path in /sys has a drive of this job.
has_drive() {
    for drive in $drives; do
        if [ -e $1/slaves/${drive##*/} ]; then return; fi
    done
    return 1
}

# volume INDEX: the md device of this job's volume with that number, if it runs.
volume() {
    for path in /sys/block/md*; do
        look $path/md/metadata_version
        case $word in */$1) ;; *) continue ;; esac
        if has_drive $path; then echo ${path##*/}; return; fi
    done
}

# container: the md device of this job's container.
container() {
    for path in /sys/block/md*; do
        look $path/md/metadata_version
        if [ "$word" = external:imsm ] && has_drive $path; then echo ${path##*/}; return; fi
    done
}

# assemble DRIVE...: as drives are found when a machine starts, one after the other.
assemble() {
    for found in $*; do mdadm -q -I $found; done
    md=$(volume 0)
    if [ -z "$md" ]; then
        echo "NOT ASSEMBLED"
        exit 1
    fi
    detail $md
}

# detail MD: what md itself thinks of the volume.
detail() {
    echo "@@DETAIL $1"
    mdadm --detail /dev/$1
    echo "@@"
}

# starting MD: what md is about to do, in words: action, resync start, policy, rebuild starts.
starting() {
    state=STATE
    for file in sync_action resync_start consistency_policy rd*/recovery_start; do
        for path in /sys/block/$1/md/$file; do
            look $path
            state="$state $word"
        done
    done
    echo "$state"
}

# writable MD: md starts arrays for reading until somebody writes.
writable() {
    look /sys/block/$1/md/array_state
    if [ "$word" = read-auto ]; then mdadm -q -w /dev/$1; fi
}

# settle: mdmon, which keeps the records, has seen what was done; it loses a failure that follows too fast.
settle() { sleep 0.3; }

# idle MD: md has ended what it synchronised, and mdmon knows. The end leaves the array in `write-pending`, with reads
# waiting, until mdmon has looked once more; now and then nothing tells it to. The order to be idle does.
idle() {
    until look /sys/block/$1/md/sync_action && [ $word = idle ]; do pause; done
    looks=0
    while look /sys/block/$1/md/array_state && [ $word = write-pending ]; do
        pause
        looks=$((looks + 1))
        if [ $((looks % 25)) = 0 ]; then echo idle > /sys/block/$1/md/sync_action; fi
    done
}

# recorded MD: what md has rebuilt is no longer said to be under way in the drives' records. mdmon writes that some
# time after md has ended, and may have to be told; whoever compares finds out if it never does.
recorded() {
    looks=0
    while mdadm -E $drives 2> /dev/null | grep -q 'Migrate State : rebuild' && [ $looks -lt 25 ]; do
        sleep 0.2
        looks=$((looks + 1))
        if [ $((looks % 5)) = 0 ]; then echo idle > /sys/block/$1/md/sync_action; fi
    done
}

# rebuilt MD: waits until nothing is missing and nothing is being done, and that is on record. `speed 10` comes before
# what makes md begin: mdmon is less likely to miss the end of a rebuild whose beginning it has seen.
rebuilt() {
    until md_says sync_action recover || md_says degraded 0; do pause; done
    settle
    speed 2000000
    until md_says degraded 0; do pause; done
    idle $1
    recorded $1
}

# synchronised MD: what there is to do is done; md takes a moment to begin.
synchronised() { writable $1; pause; pause; pause; idle $1; }

# mismatches MD: how many sectors did not match in md's last check.
mismatches() { look /sys/block/$1/md/mismatch_cnt; echo "MISMATCHES $word"; }

# check MD: md compares everything.
check() {
    synchronised $1
    if ! echo check > /sys/block/$1/md/sync_action; then echo "NOT CHECKED"; return; fi
    idle $1
    mismatches $1
}

# sum MD: all that the volume holds, in a file beside the job's script; the sum is computed outside.
sum() {
    sums=$((sums + 1))
    cat /dev/$1 > $0.sum$sums
    echo "SUM $0.sum$sums"
}

# put FILE MD OFFSET_KIB: writes a file of the case's folder there.
put() { dd if=$1 of=/dev/$2 bs=64k seek=$(($3 / 64)) conv=notrunc,fsync 2> /dev/null; }

# examine: what mdadm reads on each drive.
examine() {
    echo "@@EXAMINE"
    mdadm -E $drives 2>&1
    echo "@@"
}

# begin: forgets the names of arrays of other jobs, and what a mdmon that died has left.
begin() {
    speed 2000000
    rm -f /run/mdadm/* /dev/md/*
}

# one_is FILE...: whether one of these files is there.
one_is() {
    for file in "$@"; do
        if [ -e "$file" ]; then return; fi
    done
    return 1
}

# mdmon_runs: whether one of those that have left their number is alive; a number stays behind when mdmon dies.
mdmon_runs() {
    for file in /run/mdadm/*.pid; do
        look $file
        if [ -n "$word" ] && [ -e /proc/$word ]; then return; fi
    done
    return 1
}

# stop_arrays: mdadm finds arrays busy while mdmon is at something, so more than once. mdmon goes with its container.
stop_arrays() {
    tries=0
    while [ $tries -lt 100 ] && one_is /sys/block/md*/md/array_state; do
        mdadm -q -Ss
        if one_is /sys/block/md*/md/array_state; then pause; pause; pause; pause; pause; fi
        tries=$((tries + 1))
    done
    if [ $tries = 100 ]; then echo "NOT STOPPED"; cat /proc/mdstat; fi
    tries=0
    while mdmon_runs && [ $tries -lt 3000 ]; do pause; tries=$((tries + 1)); done
    sync
}

# who_hangs: what md was at when a job did not end, and where each process waits.
who_hangs() {
    cat /proc/mdstat
    for path in /sys/block/md*/md; do
        for file in array_state sync_action sync_completed degraded; do
            look $path/$file
            echo "$path/$file: $word $rest"
        done
    done
    for process in /proc/[0-9]*; do
        read -r name < $process/comm
        case $name in
            sh | cat | mdadm | mdmon | losetup | md*)
                while read -r field word rest; do
                    if [ "$field" = State: ]; then echo "$name ${process##*/}: $word $rest"; fi
                done < $process/status
                cat $process/stack ;;
        esac
    done 2> /dev/null
}
