"""What cases have in common in which something happens to an array while a mounted file system on it is being written to."""

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
