"""A drive is pulled out and another one is put into its place, under a mounted file system that is being written to.

The array is one of the settings file, because that file says what is done with the new drive.
"""
import json

from interop.requirement import require

from ..case import Case
from .health import EVENT
from .load import DEGRADED, LOAD_ENDS, compared

MEMBERS, NEW, AFTER = "0 1 2 3", 9, "0 9 2 3"
MIB, MIB_PER_SECOND = 24, 2
BEGIN = """
    create 5 384m "{members}"
    array_settings 'attach = "off"' '{settings}'
    serve_array data
    attach vol0 0
    make_fs ext4 $device
    mount_fs ext4 $device /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}"""
# Waits until the array is whole again, and compares everything with the parity.
WHOLE = """
    tries=0
    until fullstripe status --check > /run/status; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "the array does not become whole: $(fullstripe status)"
        sleep 1
    done
    fullstripe scrub vol0 --wait
    fullstripe events > /run/events
    ! grep -e 'did not match' -e 'could not be read' /run/events > /run/errors || fail "$(cat /run/errors)"
    fullstripe status --json > /host/status
    umount /mnt
    detach 0
    stop "$(drive {after})"
    rm -r /etc/fullstripe"""
# The first bytes of an ext2 file system that a program goes by.
EXT2 = {1024: b"\1", 1024 + 56: b"\x53\xef"}
IN_BAY = "in the bay of the drive with the serial number drive1, which has failed"


def begin(bench, settings):
    """Begins to write, and pulls out a drive."""
    bench.tree("tree", files=12)
    bench.run(BEGIN.format(members=MEMBERS, settings=settings, mib=MIB, rate=MIB_PER_SECOND), 90)
    bench.unplug(1)
    bench.run(DEGRADED)


def event(bench, words):
    """Waits for an event with these words, a regular expression."""
    bench.run(EVENT.format(words=words, meanwhile=":"), 150)


def end(bench, old):
    """The array is whole, and the drive that was pulled out is in this state. The slot gets its usual drive back."""
    bench.run(LOAD_ENDS, 300)
    bench.run(WHOLE.format(after=AFTER), 200)
    states = {drive["serial"]: drive["state"] for drive in json.loads(bench.read("status"))["members"]}
    wanted = {"drive0": "active", "drive1": old, "drive2": "active", "drive3": "active", f"drive{NEW}": "active"}
    require(states == wanted, f"the drives are {states}")
    result = compared(bench, "ext4", AFTER, MIB)
    bench.unplug(1)
    bench.plug(1)
    bench.run("until (drive 1) 2> /dev/null; do sleep 0.2; done")
    return result


def is_adopted(bench):
    """The settings say that an empty drive is taken: it is, and is rebuilt."""
    begin(bench, 'same_bay = "adopt"')
    bench.plug_new(1, NEW)
    event(bench, f"has appeared, empty, {IN_BAY}: .* rebuilds slot 1 onto it")
    return f"taken without an order, {end(bench, 'removed')}"


def is_asked_for(bench):
    """A drive with a file system is left alone. An empty one waits for the command that the event names."""
    begin(bench, "")
    bench.plug_new(1, NEW, EXT2)
    event(bench, f"has appeared {IN_BAY}; it is not taken: it holds an ext2 file system")
    bench.unplug(1)
    bench.plug_new(1, NEW)
    event(bench, f"has appeared, empty, {IN_BAY}: .fullstripe add-spare")
    typed = bench.run("""
        sed -n 's/.*which has failed: `\\(fullstripe add-spare [^`]*\\)` gives it.*/\\1/p' /run/events > /run/typed
        sh -e /run/typed
        cat /run/typed""")
    return f"left alone with a file system, taken by {typed.splitlines()[-1]}, {end(bench, 'failed')}"


def cases():
    return [
        Case("bays", "RAID 5 of 4, ext4: a new drive is adopted", is_adopted),
        Case("bays", "RAID 5 of 4, ext4: a new drive is asked for", is_asked_for),
    ]
