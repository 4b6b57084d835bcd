"""A drive fails, or is pulled out, under a mounted file system that is being written to."""
import json

from interop.requirement import require

from ..case import Case
from .load import DEGRADED, LOAD_ENDS, MIB, REBUILT, begin, compared

# So much that the load lasts while a drive first fails and then is removed, or while the slot of a machine of type arm64 waits
# for five seconds before it lets go of a drive, as PCI Express asks.
LONGER_MIB = 24
# What the server and the kernel say of a drive that has failed.
TOLD = """
    fullstripe status > /host/words
    fullstripe status --json > /host/status
    dmesg > /host/kernel
    load_runs"""


# Waits until the server has closed a drive that has failed: it promises to do so within two seconds, here it may take
# longer because the processor is emulated.
CLOSED = """
    tries=0
    while ls -l /proc/$(cat /run/serve.pid)/fd | grep -q "{drive}"; do
        tries=$((tries + 1))
        [ $tries -lt 20 ] || fail "the server still has {drive} open"
        sleep 0.5
    done"""


def failed(level, drives, kind):
    """A drive is failed by command; the fifth drive takes its place."""
    def run(bench):
        begin(bench, level, drives, kind)
        bench.run("load_runs\nfullstripe fail vol0:1" + DEGRADED + LOAD_ENDS, 120)
        after = drives.replace("1", "4")
        bench.run(REBUILT.format(options="", new=4, after=after), 120)
        return f"rebuilt onto a spare, {compared(bench, kind, after)}"
    return run


def put_back(bench, drives, kind, before, mib=MIB):
    """Puts a drive that was removed into its slot, and has it rebuilt. `before` is the name that the kernel knew it by.

    The server has closed the removed drive, so the kernel has given up its name, and the drive gets the same name again.
    """
    bench.run(CLOSED.format(drive=before))
    bench.plug(1)
    came_back = bench.run("until (drive 1) 2> /dev/null; do sleep 0.2; done")
    name = came_back.splitlines()[-1]
    require(name == before, f"{before} was closed before it came back, and came back as {name}")
    bench.run(REBUILT.format(options="--force", new=1, after=drives), 120)
    return f"{before} came back under the same name, rebuilt, {compared(bench, kind, drives, mib)}"


def pulled_out(level, drives, kind):
    """A drive is pulled out, put back into its slot, and rebuilt."""
    def run(bench):
        begin(bench, level, drives, kind, mib=LONGER_MIB)
        before = bench.run("load_runs\ndrive 1")
        bench.unplug(1)
        bench.run(DEGRADED + LOAD_ENDS, 120)
        return put_back(bench, drives, kind, before, LONGER_MIB)
    return run


def cause_of_failure(bench, name):
    """Fails unless the kernel saw errors of the drive, and `status` blames this drive and no other. Returns its cause."""
    errors = [line for line in bench.read("kernel").decode(errors="replace").splitlines() if f"dev {name[5:]}," in line]
    require(errors, f"the kernel saw no error of {name}: nothing was tested")
    blamed = [drive for drive in json.loads(bench.read("status"))["members"] if drive["state"] != "active"]
    require([drive["name"] for drive in blamed] == [name], f"{name} gives errors, and the status blames {blamed}")
    require(name in bench.read("words").decode(), f"the status does not name {name}")
    return f"{name} is {blamed[0]['state']}: {blamed[0]['cause']}"


def fails_and_is_removed(level, drives, kind):
    """A drive answers everything with errors, and is then removed under the server that still has it open.

    This is only an approximation of a drive that is pulled out without warning. Such a drive answers nothing, and reads of
    its registers give all ones; QEMU cannot do that, it removes a drive only together with the guest. So the errors come
    first, and the removal finds a drive with which nobody can do anything any more.
    """
    def run(bench):
        begin(bench, level, drives, kind, mib=LONGER_MIB)
        before = bench.run("load_runs\ndrive 1")
        bench.fail_everything(1)
        bench.run(DEGRADED + TOLD)
        cause = cause_of_failure(bench, before)
        bench.unplug(1)
        bench.run(LOAD_ENDS, 120)
        return f"approximates a surprise: {cause}; {put_back(bench, drives, kind, before, LONGER_MIB)}"
    return run


def cases():
    return [
        Case("failures", "RAID 5 of 4: a drive is failed", failed(5, "0 1 2 3", "ext4")),
        Case("failures", "RAID 10 of 4: a drive is failed", failed(10, "0 1 2 3", "xfs")),
        Case("failures", "RAID 5 of 4: a drive is pulled out", pulled_out(5, "0 1 2 3", "xfs")),
        Case("failures", "RAID 1 of 2: a drive is pulled out", pulled_out(1, "0 1", "ext4")),
        Case("failures", "RAID 5 of 4: a drive gives errors, is removed", fails_and_is_removed(5, "0 1 2 3", "ext4")),
    ]
