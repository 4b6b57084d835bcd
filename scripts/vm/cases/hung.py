"""A drive stops answering under a mounted file system that is being written to, and then the server is killed.

The kernel ends a process only once the process's requests to drives have ended, and lets nobody else have the process's block
devices before. So the pause lasts until the drive answers, or until the kernel gives it up. A device-mapper target stands for such
a drive: while it is suspended, it keeps the requests and answers none.
"""
from ..case import Case
from .load import ADDED, DEGRADED, LOAD_ENDS, compared, no_errors

MIB, MIB_PER_SECOND = 24, 1
BEGIN = """
    below=$(drive 1)
    dmsetup create slow --table "0 $(cat /sys/block/${{below#/dev/}}/size) linear $below 0"
    members="$(drive 0) /dev/mapper/slow $(drive 2 3)"
    fullstripe create vol0 --level 5 --size 384m --chunk 64k $members
    start_serving --deadline 5
    until_serving
    attach vol0 0
    make_fs ext4 $device
    mount_fs ext4 $device /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}
    dmsetup suspend --noflush --nolockfs slow"""
NAMED = """
    fullstripe status > /host/words
    grep slow /host/words || fail "the status does not name the drive: $(cat /host/words)" """
KILLED = """
    before=$(device_of 0)
    load_runs
    kill -9 $(cat /run/serve.pid)
    sleep 5
    [ ! -e /run/serve.code ] || fail "the killed server has ended, although a drive has not answered it"
    why="process $(cat /run/serve.pid) was killed and has not ended, because the kernel waits for /dev/mapper/slow to answer it"
    ! fullstripe status > /run/said 2>&1 || fail "the killed server has answered: $(cat /run/said)"
    grep -F "$why" /run/said || fail "the status says: $(cat /run/said)"
    ! fullstripe serve --nbd unix:/run/nbd.sock --memory 32m $(drive 0 2 3) > /run/said 2>&1 || fail "it was served: $(cat /run/said)"
    grep -F "$why" /run/said || fail "the next server says: $(cat /run/said)"
    ! fullstripe serve --socket /run/other.sock --nbd unix:/run/other --memory 32m $(drive 0 2 3) > /run/said 2>&1 || fail "it was served: $(cat /run/said)"
    echo "with other sockets: $(cat /run/said)"
    load_runs"""
GOES_ON = """
    dmsetup resume slow
    until [ -e /run/serve.code ]; do sleep 0.1; done
    serve "0 2 3" --deadline 5
    [ "$(device_of 0)" = $before ] || fail "the volume was $before and is $(device_of 0) now"
    load_runs"""


def hung(bench):
    bench.tree("tree", files=12)
    bench.run(BEGIN.format(mib=MIB, rate=MIB_PER_SECOND), 90)
    said = bench.run(DEGRADED + NAMED + KILLED + GOES_ON, 120)
    bench.run(LOAD_ENDS + """
    dmesg > /host/dmesg
    dmsetup remove slow""" + ADDED.format(options="--force", new=1, after="0 1 2 3"), 180)
    no_errors(bench)
    return f"said: {said.splitlines()[-1]}; {compared(bench, 'ext4', '0 1 2 3', MIB)}"


def cases():
    return [Case("recovered", "RAID 5 of 4, ext4: a drive hangs, then killed", hung, way=way) for way in ("ublk", "kernel_nbd")]
