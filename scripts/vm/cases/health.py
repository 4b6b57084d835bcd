"""Drives report that they are about to fail, or only hot, under a mounted file system that is being written to.

QEMU's NVMe drives set the bits of their critical warning that a case asks for. The server asks each drive once a minute, so
what follows from a change is waited for longer than that. The array is one of the settings file, because that file says who is
told of problems; its alerts go to a file of the guest.
"""
import json

from interop.requirement import require

from ..case import Case
from .load import LOAD_ENDS, compared

# Bits of the critical warning, by the NVM Express Base Specification.
HOT, UNRELIABLE = 1 << 1, 1 << 2
MEMBERS, SPARE, AFTER = "0 1 2 3", 4, "0 4 2 3"
# So much that the load lasts longer than the server may take to notice, and the copy after that.
MIB, MIB_PER_SECOND = 160, 2
BEGIN = """
    create 5 384m "{members}"
    rm -f /run/alerts
    array_settings 'attach = "off"' "spares = [\\"$(drive {spare})\\"]" '[alerts]' 'exec = "cat >> /run/alerts; echo >> /run/alerts"'
    serve_array data
    attach vol0 0
    make_fs ext4 $device
    mount_fs ext4 $device /mnt
    put_files /host/tree /mnt/kept"""
LOAD = """
    load /mnt {mib} {rate}"""
# Waits for an event, while the load goes on where there is one.
EVENT = """
    tries=0
    until fullstripe events > /run/events && grep -q "{words}" /run/events; do
        {meanwhile}
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "no event says '{words}': $(tail -n 12 /run/events)"
        sleep 1
    done
    fullstripe status > /host/words
    fullstripe status --json > /host/status"""
# Waits until the alert has been given to the command.
ALERT = """
    tries=0
    until grep -q '"kind":"{kind}"' /run/alerts; do
        tries=$((tries + 1))
        [ $tries -lt 30 ] || fail "no alert {kind}: $(cat /run/alerts) $(cat /run/serve.log)"
        sleep 1
    done
    cp /run/alerts /host/alerts"""
# Waits until the copy is complete and the array is well, and compares everything with the parity.
COPIED = """
    tries=0
    until fullstripe events > /run/events && grep -q "replace finished" /run/events; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "the copy has not finished: $(fullstripe status)"
        sleep 1
    done
    healthy"""
ENDS = """
    fullstripe scrub vol0 --wait
    fullstripe events > /run/events
    ! grep -e 'is failed' -e 'did not match' -e 'could not be read' /run/events > /run/errors || fail "$(cat /run/errors)"
    fullstripe status --json > /host/status
    umount /mnt
    detach 0
    stop "$(drive {after})"
    rm -r /etc/fullstripe"""


def begin(bench):
    bench.tree("tree", files=12)
    bench.run(BEGIN.format(members=MEMBERS, spare=SPARE), 90)


def reports(bench, number, bits):
    """From now on a drive has these bits in its critical warning."""
    bench.guest.qmp.order("qom-set", path=f"/machine/peripheral/drive{number}", property="smart_critical_warning", value=bits)


def drive_of(bench, number):
    """A drive as the status that was written last shows it."""
    members = json.loads(bench.read("status"))["members"]
    # A drive that has left the array and came back would be listed twice.
    return [one for one in members if one["serial"] == f"drive{number}"][-1]


def alerts_of(bench, kind):
    lines = [line for line in bench.read("alerts").decode().splitlines() if line]
    return [alert for alert in map(json.loads, lines) if alert["kind"] == kind]


def is_copied(bench):
    """A member reports that it has become unreliable: it is copied to the spare, and leaves the array."""
    begin(bench)
    bench.run(LOAD.format(mib=MIB, rate=MIB_PER_SECOND))
    try:
        # The copy must not be finished before the status is looked at.
        bench.run("fullstripe rate 1m")
        reports(bench, 1, UNRELIABLE)
        name = bench.run("drive 1")
        bench.run(EVENT.format(words=f"{name} reports that it has become unreliable: it is being copied", meanwhile="load_runs"), 150)
        told = drive_of(bench, 1)
        require(told["health"]["warnings"] == ["unreliable"], f"the status says {told}")
        require("it reports that it has become unreliable" in bench.read("words").decode(), "the status does not name the warning")
        bench.run(ALERT.format(kind="drive-failing"), 60)
        alert = alerts_of(bench, "drive-failing")
        require(len(alert) == 1 and alert[0]["severity"] == "critical" and alert[0]["member"] == name, f"the alerts are {alert}")
        require("fullstripe replace" in alert[0]["next"], f"the alert does not say what to do: {alert[0]['next']}")
        bench.run("fullstripe rate unlimited" + COPIED, 150)
        bench.run(LOAD_ENDS, 300)
        bench.run(ENDS.format(after=AFTER), 150)
        gone, new = drive_of(bench, 1), drive_of(bench, SPARE)
        require(gone["state"] == "removed", f"the drive that was copied is {gone['state']}")
        require(new["state"] == "active", f"the spare is {new['state']}")
    finally:
        reports(bench, 1, 0)
    return f"{name} was copied to the spare and left, {compared(bench, 'ext4', AFTER, MIB)}"


def is_hot(bench):
    """A member reports that it is hot: it is warned of, stays where it is, and the warning ends."""
    begin(bench)
    try:
        reports(bench, 2, HOT)
        name = bench.run("drive 2")
        words = f"{name} reports that its temperature is out of bounds"
        bench.run(EVENT.format(words=words, meanwhile=":"), 150)
        told = drive_of(bench, 2)
        require(told["health"]["state"] == "warning", f"the status says {told}")
        bench.run(ALERT.format(kind="drive-hot"), 60)
    finally:
        reports(bench, 2, 0)
    words = f"{name} no longer reports that its temperature is out of bounds"
    bench.run(EVENT.format(words=words, meanwhile=":"), 150)
    told = drive_of(bench, 2)
    require(told["health"]["state"] == "good" and told["state"] == "active", f"the status says {told}")
    bench.run(LOAD.format(mib=12, rate=MIB_PER_SECOND) + LOAD_ENDS, 120)
    bench.run(ENDS.format(after=MEMBERS), 150)
    spare = drive_of(bench, SPARE)
    require(spare["state"] == "spare", f"the spare is {spare['state']}")
    require(not alerts_of(bench, "drive-failing"), "an alert says that the drive fails")
    return f"{name} was warned of and stayed, {compared(bench, 'ext4', MEMBERS, 12)}"


def cases():
    return [
        Case("health", "RAID 5 of 4, ext4: a drive becomes unreliable", is_copied),
        Case("health", "RAID 5 of 4, ext4: a drive is hot", is_hot),
    ]
