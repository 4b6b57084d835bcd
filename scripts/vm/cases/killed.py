"""The server is killed while a mounted file system is being written to: what was synced is there afterwards.

The kernel's NBD device does not connect again. It is given up, and attached anew to the next server.
"""
from interop.requirement import require

from ..case import Case

PIECES = 400
# How many pieces are acknowledged before the server is killed.
ENOUGH = 25
# Copies pieces one by one, each to the drives (fsync), and notes outside of the array, in the file `noted`, each that has
# succeeded.
WRITER = """
    number=0
    while [ $number -lt {pieces} ]; do
        dd if=/host/pieces/$number of=/mnt/$number bs=64k conv=fsync 2> /run/dd.log || break
        echo $number >> {noted}
        number=$((number + 1))
    done
    cat /run/dd.log
    echo ended > /run/writer"""

# Begins to write, and waits until enough has been synced.
WRITE = f"""
    rm -f {{noted}} /run/writer
    touch {{noted}}
    setsid sh /host/writer > /run/writer.log 2>&1 &
    until [ $(wc -l < {{noted}}) -ge {ENOUGH} ]; do
        [ ! -e /run/writer ] || fail "the writer ended: $(cat /run/dd.log)"
        sleep 0.1
    done"""
SYNCED_ARE_THERE = """
    while read -r number; do
        cmp /host/pieces/$number /mnt/$number || fail "piece $number was synced, and differs"
    done < {noted}"""
NOTED = "/run/synced"


def make_pieces(bench, noted):
    """Makes the pieces and the writer."""
    for number in range(PIECES):
        bench.write(f"pieces/{number}", bench.bytes(bench.random.randrange(1, 150_000)))
    bench.write("writer", WRITER.format(pieces=PIECES, noted=noted).encode())


def killed(level, drives, kind):
    def run(bench):
        make_pieces(bench, NOTED)
        bench.run(f"""
            create {level} 384m "{drives}"
            serve "{drives}"
            attach vol0 0
            make_fs {kind} $device
            mount_fs {kind} $device /mnt
            {WRITE.format(noted=NOTED)}
            kill -9 $(cat /run/serve.pid)""", 90)
        told = bench.run(f"""
            until [ -e /run/serve.code ]; do sleep 0.1; done
            [ "$(cat /run/serve.code)" = 137 ] || fail "the server was not killed: $(cat /run/serve.log)"
            sleep 3
            if [ -e /run/writer ]; then
                echo "gives errors at once"
            else
                echo "waits until it is given up, then gives errors"
            fi
            abandon 0
            tries=0
            until [ -e /run/writer ]; do
                tries=$((tries + 1))
                [ $tries -lt 100 ] || fail "the writer waits, although the device is given up"
                sleep 0.1
            done
            cat /run/writer.log
            cp {NOTED} /host/synced
            umount /mnt || umount -l /mnt
            gone 0""")
        synced = bench.read("synced").split()
        require(ENOUGH <= len(synced) < PIECES, f"{len(synced)} pieces were written: the server was not killed in between")
        bench.run(f"""
            serve "{drives}"
            attach vol0 0
            mount_fs {kind} $device /mnt
            {SYNCED_ARE_THERE.format(noted=NOTED)}
            umount /mnt
            check_fs {kind} $device
            fullstripe scrub vol0 --wait
            healthy
            detach 0
            stop""", 120)
        return f"the device {told.splitlines()[0]}; {len(synced)} synced files compared"
    return run


def cases():
    return [
        Case("killed", "RAID 5 of 4, ext4", killed(5, "0 1 2 3", "ext4")),
        Case("killed", "RAID 1 of 2, xfs", killed(1, "0 1", "xfs")),
    ]
