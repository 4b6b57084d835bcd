"""DRBD above arrays of two virtual machines: the kernel copies every write to the other machine, and either may fail.

The machines have one network cable between them. On the first, a file system is written to through DRBD, while first its
own server is killed and served again, and then the other machine's, until DRBD gives that machine up. When it is back, it
is brought up to date, and the first machine loses its power for good. The second one has everything.
"""
import os
import shutil
import tempfile

from interop.machine import find_program
from interop.requirement import require

from ..bench import Bench
from ..case import Case
from .load import READ_AGAIN, no_errors

# Of Debian's package drbd-utils. The kernel's DRBD is version 8.4, for which that has a program of its own.
PROGRAMS = {"drbdsetup": "/lib/drbd/drbdsetup-84", "drbdmeta": "drbdmeta"}
DRIVES = "0 1 2 3"
# The load lasts longer than both ends of a server.
MIB, MIB_PER_SECOND = 80, 1
# After 3 s without an answer a request of the other machine is late, and after twice that time the machine is given up.
LATE_TENTHS, LATE_TIMES = 30, 2
# How long the other machine has for its first word on a new connection. DRBD's own half a second is short for an emulated machine
# on a busy one: once the two did not find each other again.
PING_TENTHS = 50
# drbd: prints what DRBD says of its device. until_drbd WORDS: waits until it says them.
STATES = """
    drbd() { grep '^ 0:' /proc/drbd; }
    until_drbd() {
        tries=0
        until drbd | grep -q "$1"; do
            tries=$((tries + 1))
            [ $tries -lt 200 ] || fail "DRBD does not say $1: $(drbd)"
            sleep 0.5
        done
    }"""
SERVED = """
    serve "{drives}"
    [ "$(device_of 0)" = /dev/ublkb0 ] || fail "the volume is $(device_of 0) now" """
BEGIN = """
    modprobe virtio_net
    ip addr add 10.9.0.{own}/24 dev eth0
    ip link set eth0 up
    modprobe drbd usermode_helper=/bin/true
    mkdir -p /var/lock
    create 5 192m "{drives}"
    serve "{drives}"
    attach vol0 0
    /host/drbdmeta 0 v08 $device internal create-md --force
    /host/drbdsetup new-resource r0
    /host/drbdsetup new-minor r0 0 0
    /host/drbdsetup attach 0 $device $device internal
    /host/drbdsetup connect r0 10.9.0.{own}:7788 10.9.0.{other}:7788 --protocol=C --timeout={late} --ko-count={times} --ping-timeout={ping}"""
WRITTEN = """
    until_drbd 'cs:Connected'
    /host/drbdsetup primary 0 --force
    until_drbd 'ds:UpToDate/UpToDate'
    make_fs ext4 /dev/drbd0
    mount_fs ext4 /dev/drbd0 /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}"""
KILLED = """
    kill -9 $(cat /run/serve.pid)
    until [ -e /run/serve.code ]; do sleep 0.1; done
    [ "$(cat /run/serve.code)" = 137 ] || fail "the server ended otherwise: $(cat /run/serve.log)" """
OWN_SERVER_IS_KILLED = """
    load_runs""" + KILLED + """
    sleep 2""" + SERVED + """
    sleep 2
    load_runs
    drbd | grep -q 'cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate' || fail "DRBD has noticed: $(drbd)" """
GOES_ON_ALONE = """
    until_drbd 'ds:UpToDate/DUnknown'
    load_runs
    load_ends
    drbd | grep -q 'ds:UpToDate/DUnknown' || fail "the other machine is not given up: $(drbd)"
    same_files /host/tree /mnt/kept"""
BOTH_AGAIN = """
    until_drbd 'cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate'
    echo after > /mnt/written
    sync
    dmesg > /host/dmesg"""
THE_OTHER_HAS_ALL = """
    until_drbd 'ds:UpToDate/DUnknown'
    /host/drbdsetup primary 0
    mount_fs ext4 /dev/drbd0 /mnt
    [ "$(cat /mnt/written)" = after ] || fail "what was written last is not there"
    same_files /host/tree /mnt/kept""" + READ_AGAIN.format(folder="/mnt", mib=MIB) + """
    umount /mnt
    check_fs ext4 /dev/drbd0
    /host/drbdsetup disconnect 10.9.0.2:7788 10.9.0.1:7788
    /host/drbdsetup secondary 0
    /host/drbdsetup detach 0
    fullstripe scrub vol0 --wait
    healthy
    detach 0
    stop "$(drive {drives})" """.format(drives=DRIVES)


def boot(case, machine, cable, number):
    """A guest that has one end of the cable; the first one's QEMU makes it."""
    place = tempfile.mkdtemp(prefix="guest.", dir=machine.folder)
    os.mkdir(os.path.join(place, "host"))
    is_first = "on" if number == 1 else "off"
    guest = machine.boot_in(place, 512, more=[
        "-netdev", f"stream,id=net,server={is_first},addr.type=unix,addr.path={cable}",
        "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:00:00:0{number}"])
    bench = Bench(guest, case)
    for name, path in PROGRAMS.items():
        found = find_program(path)
        require(found, f"{path} is missing: apt install drbd-utils")
        shutil.copy(found, os.path.join(bench.share, name))
    return bench


def carried_out(first, second):
    for bench, own, other in ((first, 1, 2), (second, 2, 1)):
        bench.run(BEGIN.format(own=own, other=other, drives=DRIVES, late=LATE_TENTHS, times=LATE_TIMES,
                               ping=PING_TENTHS), 120)
    first.tree("tree", files=12)
    shutil.copytree(os.path.join(first.share, "tree"), os.path.join(second.share, "tree"))
    first.run(STATES + WRITTEN.format(mib=MIB, rate=MIB_PER_SECOND), 200)
    first.run(STATES + OWN_SERVER_IS_KILLED.format(drives=DRIVES), 120)
    second.run(KILLED)
    first.run(STATES + GOES_ON_ALONE, 300)
    second.run(SERVED.format(drives=DRIVES))
    first.run(STATES + BOTH_AGAIN, 150)
    no_errors(first)


def drbd(case, machine):
    cable = os.path.join(machine.folder, "cable")
    first = boot(case, machine, cable, 1)
    try:
        second = boot(case, machine, cable, 2)
        try:
            carried_out(first, second)
            machine.stop(first.guest)
            said = second.run(STATES + THE_OTHER_HAS_ALL, 200).splitlines()
        finally:
            machine.stop(second.guest)
    finally:
        machine.stop(first.guest)
    compared = next(line for line in said if line.endswith("files compared"))
    return f"either server was killed, the load went on; the other machine has all, {compared}"


def cases():
    return [Case("drbd", "RAID 5 of 4 on two machines, ext4", drbd, way="ublk", by_name=True, boots=True)]
