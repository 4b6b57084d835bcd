"""The block device itself: what it says of itself, what trims and zeroes do to it, and how it is given up."""
import os
import pathlib
import subprocess

from interop.requirement import require

from ..case import Case

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/security.md")
MIB = 1 << 20
CREATE = """
    create {level} 384m "{drives}"
    serve "{drives}"
    attach vol0 0"""
# The device's own words for what the server promises, in the same order.
OWN_WORDS = """
    echo "size $(blockdev --getsize64 $device)"
    echo "block $(blockdev --getss $device)"
    queue=/sys/block/${device##*/}/queue
    case $(cat $queue/write_cache) in "write back") echo "flush yes" ;; *) echo "flush no" ;; esac
    if [ "$(cat $queue/discard_max_bytes)" -gt 0 ]; then echo "trim yes"; else echo "trim no"; fi"""

# What NBD cannot say of a device, and ublk can.
UBLK_LIMITS = """
    for limit in rotational fua physical_block_size minimum_io_size optimal_io_size; do
        echo "$limit $(cat /sys/block/$(basename $(device_of 0))/queue/$limit)"
    done"""


def is_what_is_promised(bench):
    """The device has the promised properties, and stores what is written; stopped, the array is clean on every drive."""
    bench.write("content", bench.bytes(4 * MIB))
    bench.run(CREATE.format(level=5, drives="0 1 2 3"))
    said = bench.run("device=$(device_of 0)\npromised vol0 > /host/promised" + OWN_WORDS)
    promised = bench.read("promised").decode().strip()
    require(said == promised, f"the server promises {promised!r}, the device says {said!r}")
    for words in (f"size {384 * MIB}", f"block {bench.sector_bytes}", "flush yes"):
        require(words in said.splitlines(), f"{words!r} is expected of the volume, the device says {said!r}")
    if bench.way == "ublk":
        limits = bench.run(UBLK_LIMITS).splitlines()
        # A row of three chunks is no power of two, so the best length is a chunk.
        require(limits == ["rotational 0", "fua 1", "physical_block_size 4096", f"minimum_io_size {64 << 10}",
                           f"optimal_io_size {64 << 10}"], f"the limits of the device are {limits}")
        said = "\n".join([said, *limits])
    bench.run("""
        device=$(device_of 0)
        dd if=/host/content of=$device bs=256k conv=fsync
        fullstripe examine $(drive 0 1 2 3) > /host/served
        detach 0
        attach vol0 0
        dd if=$device of=/host/found bs=256k count=16 iflag=direct
        detach 0
        stop "$(drive 0 1 2 3)" """)
    require(bench.read("found") == bench.read("content"), "the device does not store what is written")
    require(b"state normal, dirty" in bench.read("served"), "drives that are being written to are not marked dirty")
    return said.replace("\n", ", ")


def ranges(chunk=64 << 10):
    """Ranges in the first 6 MiB of a volume: offset and length, from one sector to many stripes, aligned and not."""
    return [(4096, 4096), (chunk, chunk), (3 * chunk + 4096, 2 * chunk), (MIB + 8192, 2 * MIB + 4096), (4 * MIB, MIB)]


def cleared(zeroes):
    """Ranges are discarded, or zeroed, between others that must stay."""
    option = "-z" if zeroes else ""

    def run(bench):
        content = bytearray(bench.bytes(6 * MIB))
        bench.write("content", content)
        bench.run(CREATE.format(level=5, drives="0 1 2 3") + "\ndd if=/host/content of=$device bs=256k conv=fsync")
        bench.run("\n".join(f"blkdiscard -f {option} -o {offset} -l {length} $(device_of 0)" for offset, length in ranges()))
        bench.run("""
            sync
            echo 3 > /proc/sys/vm/drop_caches
            dd if=$(device_of 0) of=/host/found bs=256k count=24 iflag=direct
            fullstripe scrub vol0 --wait
            detach 0
            stop "$(drive 0 1 2 3)" """)
        found = bytearray(bench.read("found"))
        sectors = [offset + at for offset, length in ranges() for at in range(0, length, 512)]
        zeros = sum(not any(found[at: at + 512]) for at in sectors)
        require(not zeroes or zeros == len(sectors), f"{len(sectors) - zeros} of {len(sectors)} sectors are not zero")
        for offset, length in ranges():
            content[offset: offset + length] = found[offset: offset + length] = bytes(length)
        require(len(found) == len(content) and found == content, "bytes beside the ranges have changed")
        return f"{zeros} of {len(sectors)} sectors read zero, their neighbours are untouched"
    return run


def trim_reaches_drives(bench):
    """What is trimmed occupies no space of the drives any more."""
    bench.write("content", bench.bytes(16 * MIB))
    bench.run(CREATE.format(level=5, drives="0 1 2 3") + "\ndd if=/host/content of=$device bs=1M conv=fsync")
    before = sum(bench.stored_bytes(number) for number in range(4))
    bench.run("blkdiscard -f -o 0 -l 16M $(device_of 0); detach 0; stop \"$(drive 0 1 2 3)\"")
    freed = before - sum(bench.stored_bytes(number) for number in range(4))
    require(freed >= 16 * MIB, f"16 MiB were trimmed, and the drives have become {freed} bytes smaller")
    return f"{freed >> 20} MiB freed"


ORDERED = """
    absent() {{ [ -z "$(left_over)" ] || fail "something is left: $(left_over)"; }}
    # refused WORDS COMMAND...: fails unless the program refuses, and says these words.
    refused() {{
        words=$1
        shift
        ! fullstripe "$@" > /run/said 2>&1 || fail "$* was not refused: $(cat /run/said)"
        grep -qF "$words" /run/said || fail "$* says: $(cat /run/said)"
    }}
    detach_twice() {{ fullstripe detach vol0; absent; refused 'volume vol0 is no block device' detach; }}
    create 5 384m "0 1 2 3"
    serve "0 1 2 3"
    absent
    fullstripe attach --as {kind} | tee /run/attached
    refused 'volume vol0 is /dev/fullstripe/vol0 already' attach vol0
    fullstripe status | grep -qx /dev/fullstripe/vol0
    fullstripe status --json | grep -qF '"node": "{node}"'
    $(grep -o 'mkfs.ext4 .*' /run/attached) -F -E nodiscard
    mount_fs ext4 /dev/fullstripe/vol0 /mnt
    refused 'volume vol0 is in use by the file system mounted at /mnt' detach vol0
    touch /mnt/written
    sync
    umount /mnt
    detach_twice
    fullstripe attach vol0 --as {kind} > /run/again
    check_fs ext4 /dev/fullstripe/vol0
    detach_twice
    # A device that nothing uses ends with the server.
    fullstripe attach vol0 --as {kind} > /run/again
    stop
    absent"""
# And one may be made when the server starts.
AT_START = """
    serve "0 1 2 3" --ublk
    check_fs ext4 /dev/fullstripe/vol0
    stop
    [ -z "$(left_over)" ] || fail "something is left: $(left_over)" """


def by_order(kind, node, then=""):
    """The server makes and removes devices while it serves, and keeps one that is in use."""
    def run(bench):
        said = bench.run(ORDERED.format(kind=kind, node=node) + then, 120).splitlines()
        hints = [line.strip() for line in said if line.startswith("  mkfs.")]
        require(hints == ["mkfs.ext4 -b 4096 -E stride=16,stripe_width=48 /dev/fullstripe/vol0",
                          "mkfs.xfs -d su=64k,sw=3 /dev/fullstripe/vol0"], f"file systems are told to fit by {hints}")
        return "made, kept while in use, removed"
    return run


# The server's user is not root, and may use the drives but make no block device.
OF_A_USER = """
    create 5 384m "0 1 2 3"
    chmod 666 $members
    # Here only root may look into the root folder.
    chmod 755 /
    mkdir -m 700 /run/user
    chown 1000:1000 /run/user
    export FULLSTRIPE_SOCKET=/run/user/api.sock XDG_STATE_HOME=/run/user
    as_root=$(which fullstripe)
    fullstripe() {{ /sbin/setpriv --reuid 1000 --regid 1000 --clear-groups "$as_root" "$@"; }}
    fullstripe serve --memory 32m $members > /run/serve.log 2>&1 &
    until grep -q '^serving' /run/serve.log; do
        kill -0 $! || fail "the server did not start: $(cat /run/serve.log)"
        sleep 0.1
    done
    ! "$as_root" attach --as {kind} > /run/said 2>&1 || fail "the device was made: $(cat /run/said)"
    cat /run/said
    [ -z "$(left_over)" ] || fail "something is left: $(left_over)"
    healthy
    fullstripe stop --wait
    wait
    rm -r /run/user"""


def without_permission(kind, words):
    """A server that may not make devices says so, and goes on serving."""
    def run(bench):
        said = bench.run(OF_A_USER.format(kind=kind))
        require(words in said, f"{words!r} is expected, and it says {said!r}")
        return "refused, and the array is served"
    return run


# A client has its thread before it has proved its identity.
CLIENT_WITH_TLS = """
    cp -r /host/tls /run
    create 5 384m "0 1 2 3"
    serve "0 1 2 3" --nbd tcp:127.0.0.1:10810 --tls /run/tls
    (sleep 8 | nc 127.0.0.1 10810 > /dev/null 2>&1) &
    client=$!
    sleep 2
    memory_without_io $(pidof fullstripe) | tee /run/looked
    grep -q nbd-tls /run/looked || fail "the client has no thread"
    wait $client || :
    stop
    rm -r /run/tls"""


def client_with_tls(bench):
    """The thread between a client with TLS and its shard is on the write path, as far as memory goes."""
    lines = pathlib.Path(PAGE).read_text().split("\n```sh\n")[1].split("\n```")[0]
    subprocess.run(["sh", "-ec", lines], cwd=bench.share, check=True, capture_output=True, timeout=60)
    bench.run(CLIENT_WITH_TLS)
    return "its thread is marked"


def cases():
    return [
        Case("orders", "memory for a client with TLS", client_with_tls),
        Case("orders", "attach by a server that is not root's", without_permission(
            "ublk", "ublk devices need root: /dev/ublk-control cannot be opened (Permission denied"), way="ublk"),
        Case("orders", "attach by a server that is not root's", without_permission(
            "nbd", "NBD devices need the capability CAP_SYS_ADMIN: run the server as root"), way="kernel_nbd"),
        Case("orders", "attach and detach", by_order("ublk", "/dev/ublkb0", AT_START), way="ublk"),
        Case("orders", "attach and detach", by_order("nbd", "/dev/nbd0"), way="kernel_nbd"),
        Case("device", "RAID 5 of 4, as promised", is_what_is_promised),
        Case("device", "RAID 5 of 4, 4 KiB sectors, as promised", is_what_is_promised, sector_bytes=4096),
        Case("device", "blkdiscard -z", cleared(zeroes=True)),
        Case("device", "blkdiscard", cleared(zeroes=False)),
        Case("device", "a trim reaches the drives", trim_reaches_drives),
    ]
