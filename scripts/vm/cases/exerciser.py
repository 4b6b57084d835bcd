"""A file system exerciser (fsx) on an array that loses a drive: one file, and many operations of all kinds in random order.

fsx knows what the file has to contain, and compares what each of its reads returns. Its operations are a function of its
seed.
"""
from ..case import Case
from .load import MOUNTED_AGAIN, REBUILT

OPERATIONS = 1000
FILE_BYTES = 24 << 20
# Reads and writes by system call and by mapped memory, and what changes the file's length and its holes.
CONFIGURATION = f"""
flen = {FILE_BYTES}
[opsize]
max = 131072
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
truncate = 2
fsync = 1
fdatasync = 1
punch_hole = 3
sendfile = 2
copy_file_range = 3
posix_fallocate = 2
"""
# A line of the log is an operation, so its length says when half of them are done. Meanwhile the page cache is emptied again
# and again: otherwise most reads would not reach the array.
EXERCISED = """
    create {level} 384m "{drives}"
    serve "{drives}"
    attach vol0 0
    make_fs {kind} $device
    mount_fs {kind} $device /mnt
    rm -f /run/fsx.*
    say_why() {{ fail "fsx with seed {seed}: $1: $(grep -v '^.INFO' /run/fsx.log | head -n 12)"; }}
    # done_with COUNT: waits until so many operations are done.
    done_with() {{
        until [ "$(grep -c '^.INFO' /run/fsx.log)" -ge $1 ]; do
            [ ! -e /run/fsx.code ] || say_why "it ended early"
            echo 1 > /proc/sys/vm/drop_caches
            sleep 0.2
        done
    }}
    (code=0; fsx -v -f /host/fsx.toml -N {operations} -S {seed} -P /run /mnt/file > /run/fsx.log 2>&1 || code=$?
     echo $code > /run/fsx.code) &
    touch /run/fsx.log
    done_with {half}
    fullstripe fail vol0:1
    done_with {most}
    until [ -e /run/fsx.code ]; do sleep 0.1; done
    [ "$(cat /run/fsx.code)" = 0 ] || say_why "it found an error"
    code=0
    fullstripe status --check || code=$?
    [ $code = 3 ] || fail "the array is not degraded after a drive was failed"
    cp /mnt/file /host/file
    sync"""
COMPARED = MOUNTED_AGAIN + """
    cmp /host/file /mnt/file
    umount /mnt
    detach 0
    stop"""


def exercised(level, drives, kind):
    def run(bench):
        seed = bench.random.randrange(1 << 31)
        bench.write("fsx.toml", CONFIGURATION.encode())
        bench.run(EXERCISED.format(level=level, drives=drives, kind=kind, seed=seed, operations=OPERATIONS,
                                   half=OPERATIONS // 2, most=OPERATIONS * 9 // 10), 200)
        after = drives.replace("1", "4")
        bench.run(REBUILT.format(options="", new=4, after=after), 120)
        bench.run(COMPARED.format(kind=kind, after=after), 90)
        compared_bytes = len(bench.read("file"))
        return f"{OPERATIONS} operations with seed {seed}, a drive failed after half of them, {compared_bytes} bytes compared"
    return run


def cases():
    run = exercised(5, "0 1 2 3", "ext4")
    return [Case("exerciser", "RAID 5 of 4, ext4: fsx, a drive is failed", run, built=True)]
