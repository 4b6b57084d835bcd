"""What cases have in common in which something happens to an array while a mounted file system on it is being written to."""
import json

from interop.requirement import require

# How much fio writes and how fast, unless a case wants it otherwise.
MIB, MIB_PER_SECOND = 12, 2
LOAD = """
    create {level} 384m "{drives}"
    serve "{drives}" {options}
    attach vol0 0
    make_fs {kind} $device
    mount_fs {kind} $device /mnt
    put_files /host/tree /mnt/kept
    load /mnt {mib} {rate}"""
# Waits until the array is known to be degraded (exit code 3), while the load goes on.
DEGRADED = """
    load_runs
    tries=0
    until code=0; fullstripe status --check > /run/status || code=$?; [ $code = 3 ]; do
        tries=$((tries + 1))
        [ $tries -lt 20 ] || fail "the array is not degraded: $(cat /run/status)"
        sleep 0.5
    done"""
# Waits until everything is written and has been read again.
LOAD_ENDS = """
    load_ends
    same_files /host/tree /mnt/kept"""
# A drive takes the place of the one that is missing.
ADDED = """
    fullstripe add-spare {options} $(drive {new})
    fullstripe rebuild vol0 --wait
    healthy
    fullstripe scrub vol0 --wait
    umount /mnt
    detach 0
    stop "$(drive {after})" """
# The failed drive is let go of before.
REBUILT = """
    fullstripe remove vol0:1""" + ADDED
MOUNTED_AGAIN = """
    serve "{after}"
    healthy
    attach vol0 0
    check_fs {kind} $device
    mount_fs {kind} $device /mnt"""
# Reads again what `load` has written to this folder, and checks it.
READ_AGAIN = """
    fio --name=load --directory={folder} --size={mib}m --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 \\
        --direct=1 --verify=crc32c --randseed=1 --verify_only=1 --allow_mounted_write=1"""
COMPARED = MOUNTED_AGAIN + """
    same_files /host/tree /mnt/kept""" + READ_AGAIN.replace("{folder}", "/mnt") + """
    umount /mnt
    detach 0
    stop"""
# What the kernel says of a device or a file system that had errors.
ERRORS = ["I/O error", "EXT4-fs error", "EXT4-fs warning", "shutting down", "corruption"]


def begin(bench, level, drives, kind, options="", mib=MIB, rate=MIB_PER_SECOND):
    """Makes an array and serves it with `options`, and begins to write to a file system on it."""
    bench.tree("tree", files=12)
    bench.run(LOAD.format(level=level, drives=drives, kind=kind, options=options, mib=mib, rate=rate), 90)


def compared(bench, kind, after, mib=MIB):
    """Serves the array anew and compares everything; returns what was compared."""
    said = bench.run(COMPARED.format(kind=kind, after=after, mib=mib), 120).splitlines()
    return next(line for line in said if line.endswith("files compared"))


def no_errors(bench):
    """Fails if the kernel has told of an error of a device or a file system, by what a job has written to /host/dmesg."""
    told = bench.read("dmesg").decode(errors="replace").splitlines()
    errors = [line for line in told if any(words in line for words in ERRORS)]
    require(not errors, f"the kernel tells of errors: {errors}")


def longest_request_s(bench):
    """The longest request of the load, of those that it wrote with and those that it compared with."""
    job = json.loads(bench.read("fio.json"))["jobs"][0]
    return max(job[kind]["clat_ns"]["max"] for kind in ("read", "write")) / 1e9
