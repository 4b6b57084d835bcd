"""A drive fails, or is pulled out, under a mounted file system that is being written to."""
from ..case import Case

LOAD = """
    create {level} 384m "{drives}"
    serve "{drives}"
    attach vol0 0
    make_fs {kind} $device
    mount_fs {kind} $device /mnt
    put_files /host/tree /mnt/kept
    load /mnt 12 2"""
# Waits until the array is known to be degraded (exit code 3), while the load goes on, and then for the load's end.
DEGRADED = """
    load_runs
    tries=0
    until code=0; fullstripe status --check > /run/status || code=$?; [ $code = 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 20 ] || fail "the array is not degraded: $(cat /run/status)"
        sleep 0.5
    done
    load_ends
    same_files /host/tree /mnt/kept"""
# The failed drive is let go of, and another one takes its slot.
REBUILT = """
    fullstripe remove vol0:1
    fullstripe add-spare {options} $(drive {new})
    fullstripe rebuild vol0 --wait
    healthy
    fullstripe scrub vol0 --wait
    umount /mnt
    detach 0
    stop "$(drive {after})" """
COMPARED = """
    serve "{after}"
    healthy
    attach vol0 0
    check_fs {kind} $device
    mount_fs {kind} $device /mnt
    same_files /host/tree /mnt/kept
    fio --name=load --directory=/mnt --size=12m --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 \\
        --direct=1 --verify=crc32c --randseed=1 --verify_only=1
    umount /mnt
    detach 0
    stop"""


def compared(bench, kind, after):
    said = bench.run(COMPARED.format(kind=kind, after=after), 120).splitlines()
    return next(line for line in said if line.endswith("files compared"))


def failed(level, drives, kind):
    """A drive is failed by command; the fifth drive takes its place."""
    def run(bench):
        bench.tree("tree", files=12)
        bench.run(LOAD.format(level=level, drives=drives, kind=kind), 90)
        bench.run("load_runs\nfullstripe fail vol0:1" + DEGRADED, 120)
        after = drives.replace("1", "4")
        bench.run(REBUILT.format(options="", new=4, after=after), 120)
        return f"rebuilt onto a spare, {compared(bench, kind, after)}"
    return run


def pulled_out(level, drives, kind):
    """A drive is pulled out, put back into its slot, and rebuilt."""
    def run(bench):
        bench.tree("tree", files=12)
        bench.run(LOAD.format(level=level, drives=drives, kind=kind), 90)
        before = bench.run("load_runs\ndrive 1")
        bench.unplug(1)
        bench.run(DEGRADED, 120)
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
