# Runs inside user-mode Linux, for /init and for each job: functions that jobs use to work with md.
#
# A job finds its drives in $d0, $d1, ... and all of them in $drives. The script outside reads what the job prints
# between marks that begin with @@. Starting a process takes about ten milliseconds here, so frequent actions, such as
# polling md, are done by the shell itself.

export PATH=/bin:/sbin IMSM_DEVNAME_AS_SERIAL=1 IMSM_NO_PLATFORM=1 MDADM_NO_UDEV=1

# look FILE: puts the first word of its first line into $word, and the rest of the line into $rest.
look() { word=; rest=; read -r word rest 2> /dev/null < "$1"; }

# pause: waits 20 ms.
pause() { read -r -t 0.02 word <> /pause; }

# md_says ATTRIBUTE WORD: whether this attribute of the job's volume has this value.
md_says() { look /sys/block/$md/md/$1; [ "$word" = "$2" ]; }

until_md() { until md_says "$@"; do pause; done; }

while_md() { while md_says "$@"; do pause; done; }

# speed KIB: limits md's synchronisation to this many KiB per second.
speed() {
    echo "$1" > /proc/sys/dev/raid/speed_limit_max
    echo "$1" > /proc/sys/dev/raid/speed_limit_min
}

# has_drive PATH: whether the array with this path in /sys contains a drive of the job.
has_drive() {
    for drive in $drives; do
        if [ -e $1/slaves/${drive##*/} ]; then return; fi
    done
    return 1
}

# volume INDEX: prints the md device of the job's volume with this number, if it runs.
volume() {
    for path in /sys/block/md*; do
        look $path/md/metadata_version
        case $word in */$1) ;; *) continue ;; esac
        if has_drive $path; then echo ${path##*/}; return; fi
    done
}

# container: prints the md device of the job's container.
container() {
    for path in /sys/block/md*; do
        look $path/md/metadata_version
        if [ "$word" = external:imsm ] && has_drive $path; then echo ${path##*/}; return; fi
    done
}

# assemble DRIVE...: adds drives one after the other, as when a machine starts and finds them.
assemble() {
    for found in $*; do mdadm -q -I $found; done
    md=$(volume 0)
    if [ -z "$md" ]; then
        echo "NOT ASSEMBLED"
        exit 1
    fi
    detail $md
}

# detail MD: prints md's own report on the volume.
detail() {
    echo "@@DETAIL $1"
    mdadm --detail /dev/$1
    echo "@@"
}

# starting MD: prints what md is about to do: action, resync start, policy, rebuild starts.
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

# writable MD: makes the array writable; md starts arrays read-only until the first write.
writable() {
    look /sys/block/$1/md/array_state
    if [ "$word" = read-auto ]; then mdadm -q -w /dev/$1; fi
}

# settle: waits until mdmon, which writes the records, has noticed the last change; it misses a failure that follows too
# soon.
settle() { sleep 0.3; }

# idle MD: waits until md has ended its synchronisation and mdmon knows that. At its end the array is in
# `write-pending`, where reads wait, until mdmon looks again. Sometimes nothing wakes mdmon; ordering md to be idle
# does.
idle() {
    until look /sys/block/$1/md/sync_action && [ $word = idle ]; do pause; done
    looks=0
    while look /sys/block/$1/md/array_state && [ $word = write-pending ]; do
        pause
        looks=$((looks + 1))
        if [ $((looks % 25)) = 0 ]; then echo idle > /sys/block/$1/md/sync_action; fi
    done
}

# recorded MD: waits until the drives' records no longer say that a rebuild runs. mdmon writes that some time after md
# has ended, and may have to be woken. If it never writes it, the case finds that out when it compares.
recorded() {
    looks=0
    while mdadm -E $drives 2> /dev/null | grep -q 'Migrate State : rebuild' && [ $looks -lt 25 ]; do
        sleep 0.2
        looks=$((looks + 1))
        if [ $((looks % 5)) = 0 ]; then echo idle > /sys/block/$1/md/sync_action; fi
    done
}

# rebuilt MD: waits until no drive is missing, no job runs, and that is on record. A case calls `speed 10` before it
# makes md begin: if mdmon has seen the beginning of a rebuild, it is less likely to miss its end.
rebuilt() {
    until md_says sync_action recover || md_says degraded 0; do pause; done
    settle
    speed 2000000
    until md_says degraded 0; do pause; done
    idle $1
    recorded $1
}

# synchronised MD: waits until md has nothing to synchronise; md takes a moment to begin.
synchronised() { writable $1; pause; pause; pause; idle $1; }

# mismatches MD: prints how many sectors did not match in md's last check.
mismatches() { look /sys/block/$1/md/mismatch_cnt; echo "MISMATCHES $word"; }

# check MD: makes md compare everything.
check() {
    synchronised $1
    if ! echo check > /sys/block/$1/md/sync_action; then echo "NOT CHECKED"; return; fi
    idle $1
    mismatches $1
}

# sum MD: copies the volume into a file beside the job's script, of which the sum is computed outside.
sum() {
    sums=$((sums + 1))
    cat /dev/$1 > $0.sum$sums
    echo "SUM $0.sum$sums"
}

# put FILE MD OFFSET_KIB: writes a file of the case's folder to this offset of the volume.
put() { dd if=$1 of=/dev/$2 bs=64k seek=$(($3 / 64)) conv=notrunc,fsync 2> /dev/null; }

# examine: prints what mdadm reads on each drive.
examine() {
    echo "@@EXAMINE"
    mdadm -E $drives 2>&1
    echo "@@"
}

# begin: removes the names of other jobs' arrays, and the files of an mdmon that died.
begin() {
    speed 2000000
    rm -f /run/mdadm/* /dev/md/*
}

# one_is FILE...: whether one of these files exists.
one_is() {
    for file in "$@"; do
        if [ -e "$file" ]; then return; fi
    done
    return 1
}

# mdmon_runs: whether an mdmon runs whose process number is on file; the file stays when mdmon dies.
mdmon_runs() {
    for file in /run/mdadm/*.pid; do
        look $file
        if [ -n "$word" ] && [ -e /proc/$word ]; then return; fi
    done
    return 1
}

# stop_arrays: stops all arrays, with repeated tries, because arrays are busy while mdmon works. mdmon ends with its
# container.
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

# who_hangs: prints the state of md when a job did not end, and where each process waits.
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
