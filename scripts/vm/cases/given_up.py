"""The server is killed under a mounted file system and does not come back: its device is given up, so that programs and the mount end.

What was synced before is on the drives, and is there when the array is served again.

Linux before 6.15 lets no server go on with a ublk device where another one has mapped a queue and ended before it served it. fio
does here what such a server does: it reads what the device offers to its server by mapping it.
"""
from ..case import Case
from .load import begin
from .recovered import KILLED

DRIVES = "0 1 2 3"
GIVEN_UP = """
    members=$(drive {drives})
    node=$(device_of 0)
    load_runs
    ! fullstripe detach vol0 --give-up --yes > /run/said 2>&1 || fail "a device was given up although it is served"
    grep -F "volume vol0 is served as $node" /run/said || fail "it was refused with other words: $(cat /run/said)"
    load_runs
    {end}
    until [ -e /run/serve.code ]; do sleep 0.1; done
    sleep 1
    load_runs{then}
    ! fullstripe detach vol0 --give-up > /run/said 2>&1 || fail "a device was given up without --yes"
    grep -F "this would give up $node of volume vol0" /run/said || fail "it was refused with other words: $(cat /run/said)"
    load_runs
    fullstripe detach vol0 --give-up --yes
    until [ -e /run/fio.code ]; do sleep 0.1; done
    [ "$(cat /run/fio.code)" != 0 ] || fail "a program that used the device has seen no error"
    umount /mnt
    tries=0
    until [ -z "$(left_over)" ]; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || fail "there still is $(left_over)"
        sleep 0.1
    done
    ! fullstripe detach vol0 --give-up --yes > /run/said 2>&1 || fail "it was given up twice"
    grep 'no server has left a block device of volume vol0' /run/said"""
# The kernel has been asked to begin when the server looks for the node.
TAKEN_OVER_IN_PART = """
    refused() {
        ! fullstripe serve --nbd unix:/run/nbd.sock --memory 32m $members > /run/said 2>&1 || fail "it was served: $(cat /run/said)"
        grep -F "$*" /run/said || fail "it was refused with other words: $(cat /run/said)"
    }
    number=$(cat /sys/class/ublk-char/ublkc0/dev)
    rm /dev/ublkc0
    refused '/dev/ublkc0: No such file or directory'
    mknod /dev/ublkc0 c ${number%:*} ${number#*:}
    fio --name=map --ioengine=mmap --filename=/dev/ublkc0 --size=4k --bs=4k --rw=read --invalidate=0 > /run/map.log 2>&1 ||
        fail "the queue was not mapped: $(cat /run/map.log)"
    refused "give the device up with 'fullstripe detach vol0 --give-up'"
    load_runs"""
# The file system's journal is replayed by the mount, so it is checked after that.
SERVED_AGAIN = """
    serve "{drives}"
    [ -z "$(left_over)" ] || fail "the server has taken over $(left_over)"
    attach vol0 0
    mount_fs ext4 $device /mnt
    same_files /host/tree /mnt/kept
    umount /mnt
    check_fs ext4 $device
    detach 0
    fullstripe scrub vol0 --wait
    stop "$(drive {drives})" """


def given_up(then=""):
    def run(bench):
        begin(bench, 5, DRIVES, "ext4", mib=24, rate=1)
        bench.run(GIVEN_UP.format(drives=DRIVES, end=KILLED["end"], then=then), 120)
        said = bench.run(SERVED_AGAIN.format(drives=DRIVES), 120).splitlines()
        return "the mount ended, " + next(line for line in said if line.endswith("files compared"))
    return run


def cases():
    name = "RAID 5 of 4, ext4: given up"
    return [
        Case("recovered", name, given_up(), way="ublk"),
        Case("recovered", name + " where a server ended while it took it over", given_up(TAKEN_OVER_IN_PART), way="ublk",
             needs_ublk=True),
        Case("recovered", name, given_up(), way="kernel_nbd"),
    ]
