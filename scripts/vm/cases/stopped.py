"""The server stands still for a while under a mounted file system that is being written to, and then goes on.

A stopped server answers nothing. To the kernel's NBD client that looks like a slow device, and to the server, when it goes
on, all its drives look as if they had not answered for that long. Neither may be taken for a failure.
"""
import json

from interop.requirement import require

from ..case import Case
from .load import begin, compared

# Longer than drives have to answer in, and longer than the 30 s after which the kernel looks at a device's old requests.
PAUSE_SECONDS = 40
DEADLINE_SECONDS = 10
# Fast enough for the server to be at work at any moment.
MIB, MIB_PER_SECOND = 24, 6
STOPPED = """
    # Prints how many requests the kernel's device has completed, and how many wait.
    requests() {{ awk '{{ print $1 + $5, $9 }}' /sys/block/${{device##*/}}/stat; }}
    device=$(device_of 0) server=$(cat /run/serve.pid)
    load_runs
    kill -STOP $server
    sleep 1
    before=$(requests)
    sleep {pause}
    after=$(requests)
    awk '/^State/ {{ print $2 }}' /proc/$server/status > /host/state
    kill -CONT $server
    load_runs
    echo "$before $after" > /host/requests"""
# Afterwards the file system can still be written to: after an error the kernel would have made it read-only.
GOES_ON = """
    load_ends
    same_files /host/tree /mnt/kept
    touch /mnt/written
    sync
    fullstripe status --json > /host/status
    dmesg > /host/dmesg
    umount /mnt
    detach 0
    stop "$(drive {drives})" """
# What the kernel says of a device or a file system that had errors, and of a request that waits long.
ERRORS = ["I/O error", "EXT4-fs error", "EXT4-fs warning", "Connection timed out", "timed out, retrying", "shutting down"]
WAITS = "Possible stuck request"


def stood_still(bench):
    """Fails unless the server was stopped all the time and the load waited for it. Returns how many requests waited."""
    require(bench.read("state").strip() == b"T", "the server was not stopped")
    done, _, done_later, waiting = map(int, bench.read("requests").split())
    require(done == done_later, f"a stopped server has answered {done_later - done} requests")
    require(waiting > 0, "no request waited for the stopped server")
    return waiting


def nobody_is_blamed(bench):
    """Fails if the server counts an error, or holds anything against a drive or the volume."""
    status = json.loads(bench.read("status"))
    blamed = [drive for drive in status["members"] if drive["state"] != "active" or drive["cause"]]
    require(not blamed, f"drives are blamed for the server's own pause: {blamed}")
    volume, = status["volumes"]
    require(volume["state"] == "optimal" and not volume["job"], f"the volume is not as before: {volume}")
    errors = {name: status["counters"][name] for name in ("member_errors", "request_errors", "abandoned")}
    require(not any(errors.values()), f"errors are counted after the pause: {errors}")


def kernel_words(bench, lost):
    """Fails if the kernel tells of errors; where connections are `lost`, it says so. Returns whether it told of requests that
    wait."""
    told = bench.read("dmesg").decode(errors="replace").splitlines()
    errors = [line for line in told if any(words in line for words in ERRORS) and not any(words in line for words in lost)]
    for words in lost:
        require(any(words in line for line in told), f"the kernel does not say '{words}'")
    require(not errors, f"the kernel tells of errors: {errors}")
    return any(WAITS in line for line in told)


def stopped(level, drives, kind, pause=PAUSE_SECONDS, options=f"--deadline {DEADLINE_SECONDS}", lost=()):
    def run(bench):
        begin(bench, level, drives, kind, options, MIB, MIB_PER_SECOND)
        bench.run(STOPPED.format(pause=pause), pause + 30)
        waiting = stood_still(bench)
        bench.run(GOES_ON.format(drives=drives), 120)
        nobody_is_blamed(bench)
        noticed = "and says so" if kernel_words(bench, lost) else "and says nothing"
        if lost:
            said = bench.run("cat /run/serve.log")
            require("they are replaced" in said, f"the server does not say that it replaces connections: {said}")
        found = compared(bench, kind, drives, MIB)
        return f"{waiting} requests wait {pause} s, the kernel waits with them {noticed}, {found}"
    return run


def cases():
    name = f"RAID 5 of 4: the server stops for {PAUSE_SECONDS} s"
    ways = ("nbd", "kernel_nbd", "ublk")
    plain = [Case("stopped", name, stopped(5, "0 1 2 3", "ext4"), way=way) for way in ways]
    # Several connections have a request timeout: the longest answer of a drive and 30 s.
    lost = stopped(5, "0 1 2 3", "ext4", 45, "--deadline 5 --shards 2", ("Connection timed out",))
    return [*plain, Case("stopped", "RAID 5 of 4, 2 shards: until connections are lost", lost, way="kernel_nbd")]
