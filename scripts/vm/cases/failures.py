"""A drive fails, or is pulled out, under a mounted file system that is being written to."""
from ..case import Case
from .load import DEGRADED, LOAD_ENDS, REBUILT, begin, compared


def failed(level, drives, kind):
    """A drive is failed by command; the fifth drive takes its place."""
    def run(bench):
        begin(bench, level, drives, kind)
        bench.run("load_runs\nfullstripe fail vol0:1" + DEGRADED + LOAD_ENDS, 120)
        after = drives.replace("1", "4")
        bench.run(REBUILT.format(options="", new=4, after=after), 120)
        return f"rebuilt onto a spare, {compared(bench, kind, after)}"
    return run


def pulled_out(level, drives, kind):
    """A drive is pulled out, put back into its slot, and rebuilt."""
    def run(bench):
        begin(bench, level, drives, kind)
        before = bench.run("load_runs\ndrive 1")
        bench.unplug(1)
        bench.run(DEGRADED + LOAD_ENDS, 120)
        bench.plug(1)
        came_back = bench.run("until (drive 1) 2> /dev/null; do sleep 0.2; done")
        name = came_back.splitlines()[-1]
        bench.run(REBUILT.format(options="--force", new=1, after=drives), 120)
        return f"{before} came back as {name}, rebuilt, {compared(bench, kind, drives)}"
    return run


def cases():
    return [
        Case("failures", "RAID 5 of 4: a drive is failed", failed(5, "0 1 2 3", "ext4")),
        Case("failures", "RAID 10 of 4: a drive is failed", failed(10, "0 1 2 3", "xfs"), long=True),
        Case("failures", "RAID 5 of 4: a drive is pulled out", pulled_out(5, "0 1 2 3", "xfs")),
        Case("failures", "RAID 1 of 2: a drive is pulled out", pulled_out(1, "0 1", "ext4")),
    ]
