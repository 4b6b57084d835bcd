# Runs inside user-mode Linux, for /init and for each job: names for what jobs do with md.
#
# A job finds its drives in $d0, $d1, ... and all of them in $drives. What it prints between marks beginning
# with @@ is read by the script outside.

export PATH=/bin:/sbin IMSM_DEVNAME_AS_SERIAL=1 IMSM_NO_PLATFORM=1 MDADM_NO_UDEV=1

# speed KIB: how fast md synchronises, per second.
speed() {
    echo "$1" > /proc/sys/dev/raid/speed_limit_max
    echo "$1" > /proc/sys/dev/raid/speed_limit_min
}

# volume INDEX: the md device of this job's volume with that number, if it runs.
volume() {
    for path in /sys/block/md*; do
        case $(cat $path/md/metadata_version 2> /dev/null) in */$1) ;; *) continue ;; esac
        for drive in $drives; do
            if [ -e $path/slaves/${drive##*/} ]; then basename $path; return; fi
        done
    done
}

# container: the md device of this job's container.
container() {
    for path in /sys/block/md*; do
        [ "$(cat $path/md/metadata_version)" = external:imsm ] || continue
        for drive in $drives; do
            if [ -e $path/slaves/${drive##*/} ]; then basename $path; return; fi
        done
    done
}

# assemble DRIVE...: as drives are found when a machine starts, one after the other.
assemble() {
    for drive in $*; do mdadm -q -I $drive; done
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

# starting MD: what md is about to do, in words: action, resync start, rebuild starts, policy.
starting() {
    echo "STATE $(cat /sys/block/$1/md/sync_action) $(cat /sys/block/$1/md/resync_start)" \
        "$(cat /sys/block/$1/md/consistency_policy)" \
        $(for slot in /sys/block/$1/md/rd*; do cat $slot/recovery_start; done)
}

# writable MD: md starts arrays for reading until somebody writes.
writable() {
    if [ "$(cat /sys/block/$1/md/array_state)" = read-auto ]; then mdadm -q -w /dev/$1; fi
}

# settle: mdmon, which keeps the records, has seen what was done; it loses a failure that follows too fast.
settle() { sleep 0.3; }

idle() { while [ "$(cat /sys/block/$1/md/sync_action)" != idle ]; do sleep 0.02; done; }

# healthy MD: waits until nothing is missing and nothing is being done.
healthy() { while [ "$(cat /sys/block/$1/md/degraded)" != 0 ]; do sleep 0.02; done; idle $1; }

# synchronised MD: what there is to do is done.
synchronised() { writable $1; sleep 0.05; idle $1; }

# check MD: md compares everything.
check() {
    synchronised $1
    echo check > /sys/block/$1/md/sync_action
    idle $1
    echo "MISMATCHES $(cat /sys/block/$1/md/mismatch_cnt)"
}

# sum MD: all that the volume holds.
sum() { echo "SUM $(dd if=/dev/$1 bs=1M 2> /dev/null | md5sum)"; }

# put FILE MD OFFSET_KIB: writes a file of the case's folder there.
put() { dd if=$1 of=/dev/$2 bs=64k seek=$(($3 / 64)) conv=notrunc,fsync 2> /dev/null; }

# examine: what mdadm reads on each drive.
examine() {
    echo "@@EXAMINE"
    mdadm -E $drives 2>&1
    echo "@@"
}

# begin: forgets the names of arrays that other jobs have left running.
begin() {
    speed 2000000
    rm -f /run/mdadm/map /dev/md/*
}

stop_arrays() {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        grep -q ^md /proc/mdstat || break
        mdadm -q -Ss
        sleep 0.1
    done
    while pidof mdmon > /dev/null; do sleep 0.02; done
    sync
}
