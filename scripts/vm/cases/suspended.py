"""The machine is suspended while a file system on an array is in use; and swap lies on an array.

The kernel freezes the server like every other program. Its test of this (`pm_test`) goes as far as that, waits, and wakes up
again; it needs no hardware.
"""
import os

from interop.requirement import require

from ..case import Case
from .killed import ENOUGH, PIECES, SYNCED_ARE_THERE, WRITE, make_pieces

NOTED = "/host/synced"
ATTEMPTS = 6
# The kernel says "busy" after 20 s if a program cannot be frozen, because it waits for something.
FREEZE = """
    echo freezer > /sys/power/pm_test
    echo 2 > /sys/module/suspend/parameters/pm_test_delay
    dmesg -c > /run/dmesg.before"""
BEGIN = """
    create {level} 384m "{drives}"
    serve "{drives}"
    attach vol0 0
    make_fs ext4 $device
    mount_fs ext4 $device /mnt"""
# A thread of the file system that writes its journal just then cannot be frozen either.
SUSPEND = """
    echo mem > /sys/power/state || { echo given up; echo mem > /sys/power/state; } ||
        fail "the kernel gives up to suspend twice: $(dmesg | tail -n 60)" """
# The server and what is mounted are as they were.
UNHARMED = """
    [ ! -e /run/serve.code ] || fail "the server has ended: $(cat /run/serve.log)"
    ! dmesg | grep -e 'I/O error' -e 'EXT4-fs error' -e 'aborted journal' || fail "the kernel has met errors"
    healthy"""
END = """
    umount /mnt
    check_fs ext4 $(device_of 0)
    detach 0
    stop"""


def drives_of(level):
    return "0 1 2 3" if level == 5 else "0 1"


def unsynced(level):
    """Files are written and not synced when the machine is suspended."""
    def run(bench):
        bench.tree("tree", files=12)
        drives = drives_of(level)
        bench.run(BEGIN.format(level=level, drives=drives) + FREEZE)
        count = 0
        for number in range(ATTEMPTS):
            said = bench.run(f"mkdir /mnt/{number}; cp /host/tree/* /mnt/{number}\n" + SUSPEND, 90)
            count += "given up" in said
        bench.run("dmesg | grep 'suspend debug: Waiting' | wc -l | grep -qx " + str(ATTEMPTS) + " || fail \"$(dmesg)\"" + UNHARMED)
        bench.run("umount /mnt; mount_fs ext4 $(device_of 0) /mnt")
        for number in range(ATTEMPTS):
            bench.run(f"same_files /host/tree /mnt/{number}")
        bench.run(f"members=$(drive {drives})" + END)
        return f"suspended {ATTEMPTS} times, and given up {count} times before"
    return run


def written(level):
    """Files are written and synced one by one all the time. A program that waits for the array cannot be frozen, so the kernel may
    give a suspension up; then everything goes on too."""
    def run(bench):
        make_pieces(bench, NOTED)
        drives = drives_of(level)
        bench.run(BEGIN.format(level=level, drives=drives) + FREEZE)
        bench.run(WRITE.format(noted=NOTED), 60)
        count = 0
        for _ in range(ATTEMPTS):
            said = bench.run("if echo mem > /sys/power/state; then echo suspended; else echo given up; fi 2>&1; sleep 1", 60)
            count += "suspended" in said.split()
        bench.run(UNHARMED)
        synced = bench.read(os.path.basename(NOTED)).split()
        require(ENOUGH < len(synced), f"only {len(synced)} pieces were written")
        bench.run("until [ -e /run/writer ]; do sleep 0.2; done", 120)
        synced = bench.read(os.path.basename(NOTED)).split()
        require(len(synced) == PIECES, f"the writer has stopped after {len(synced)} of {PIECES} pieces")
        bench.run("umount /mnt; mount_fs ext4 $(device_of 0) /mnt" + SYNCED_ARE_THERE.format(noted=NOTED), 60)
        bench.run(f"members=$(drive {drives})" + END)
        return f"suspended {count} times of {ATTEMPTS}, {len(synced)} synced files compared"
    return run


def swap(bench):
    """Swap on the array is reported while it is there, and the machine may not hibernate while there is a device."""
    bench.run("""
        create 1 384m "0 1"
        serve "0 1"
        attach vol0 0
        mkswap $device
        swapon $device
        tries=0
        until fullstripe events | grep -q "swap on $device lies on volume vol0 ($device): "; do
            tries=$((tries + 1))
            [ $tries -lt 20 ] || fail "swap is not reported: $(fullstripe events)"
            sleep 1
        done
        fullstripe doctor $(drive 0 1) > /run/said || [ $? = 1 ]
        grep -q "swap: swap on $device lies on $device, which a process serves; .*: swapoff $device" /run/said ||
            fail "doctor says $(cat /run/said)"
        swapoff $device
        code=0
        fullstripe boot may-hibernate 2> /run/said || code=$?
        [ $code = 4 ] && grep -q "volume vol0 is the block device $device" /run/said || fail "$code: $(cat /run/said)"
        fullstripe events | grep -c swap > /run/count
        sleep 5
        [ "$(fullstripe events | grep -c swap)" = "$(cat /run/count)" ] || fail "swap is reported again: $(fullstripe events)"
        detach 0
        fullstripe boot may-hibernate || fail "the machine may not hibernate without a device"
        members=$(drive 0 1)
        stop""", 90)
    return "swap is reported, and hibernation refused"


def cases():
    return [
        *(Case("suspended", "swap on the array", swap, way=way) for way in ("ublk", "kernel_nbd")),
        *(Case("suspended", f"RAID {level}, ext4: files not synced", unsynced(level), way=way)
          for level in (5, 1) for way in ("ublk", "kernel_nbd")),
        *(Case("suspended", f"RAID {level}, ext4: files being synced", written(level), way=way)
          for level in (5,) for way in ("ublk", "kernel_nbd")),
    ]
