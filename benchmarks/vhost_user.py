"""vhost-user disks compared: the same requests to a volume of null members and to qemu-storage-daemon's null driver."""
import json
import pathlib
import tempfile
import time

from common import Aim, Column, Comparison, CORES, Failed, Missing, PROGRAM, ROOT, need, pinned, run, two_cores
from server import PATIENCE_S, Server

LOAD = ROOT / "blkio/target/release/examples/load"
SIZE_BYTES = 1 << 30
# The longest that the counts of a status are old.
PUBLISHED_S = 5
IOPS, CPU = "IOPS ratio", "CPU ratio"


def ours(folder):
    """The command of our server, its vhost-user socket, and that of its API."""
    api = folder / "api.sock"
    drives = [f"null:{SIZE_BYTES // 2}"] * 2
    return [PROGRAM, "serve", *drives, "--scratch", "0", "--vhost-user", folder, "--socket", api], folder / "scratch.sock", api


def qemu(folder):
    """The same of the peer, which has no API that is needed here. A thread of its own serves the disk."""
    need("qemu-storage-daemon", "qemu-system-common")
    socket = folder / "disk.sock"
    return ["qemu-storage-daemon", "--object", "iothread,id=thread", "--blockdev",
            f"driver=null-co,node-name=disk,size={SIZE_BYTES},read-zeroes=on", "--export",
            f"vhost-user-blk,id=export,node-name=disk,addr.type=unix,addr.path={socket},writable=on,iothread=thread"], socket, None


def status(api):
    """The status of our server, which may still be starting."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return json.loads(run([PROGRAM, "status", "--json", "--socket", api], timeout_s=PATIENCE_S))
        except Failed:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def succeeded(api, kind, requests):
    """Fails unless our server, which has just started, counts this many requests as done. It publishes its counts now and then."""
    until = time.monotonic() + PUBLISHED_S
    while True:
        done = status(api)["counters"][f"{kind}s"]
        if done >= requests:
            return
        if time.monotonic() > until:
            raise Failed(f"{requests - done} of {requests} requests failed")
        time.sleep(0.2)


def served(words, cores, seconds, kind, depth):
    """The load with a fresh server, as a subject."""
    def measure():
        if not LOAD.exists():
            raise Missing("the load is not built: (cd blkio && cargo build --release --example load)")
        server_core, client_core = cores
        with tempfile.TemporaryDirectory(prefix="fullstripe-vhost-user-") as scratch:
            folder = pathlib.Path(scratch)
            command, socket, api = words(folder)
            server = Server(words.__name__, command, socket, server_core, folder)
            try:
                return measured(server, socket, api, client_core, seconds, kind, depth)
            finally:
                server.stop()
    return measure


def measured(server, socket, api, core, seconds, kind, depth):
    """Requests per second, their mean time, and the server's processor time for each."""
    if api:
        status(api)
    before = server.processor_s()
    told = json.loads(run(pinned([core], LOAD, socket, seconds, depth, kind), timeout_s=PATIENCE_S + 2 * seconds))
    used_s = server.processor_s() - before
    # The client cannot tell which of its requests have failed.
    if api:
        succeeded(api, kind, told["requests"])
    iops = told["requests"] / told["seconds"]
    return {"iops": iops, "latency_us": depth / iops * 1e6, "cpu_us": used_s * 1e6 / told["requests"]}


def comparison(options):
    table = Comparison("vhost_user", "A vhost-user disk whose back end does nothing, 4 KiB random, one queue, by libblkio. CPU is the "
                       "server's per request; IOPS ratio is ours over the peer's, CPU ratio the peer's over ours:", options, [
        column for name, head in (("ours", "ours"), ("qemu", "qemu-storage-daemon")) for column in (
            Column(f"{head}, k IOPS", lambda r, n=name: r[n]["iops"] / 1e3),
            Column(f"{head}, CPU us", lambda r, n=name: r[n]["cpu_us"]),
            Column(f"{head}, mean us", lambda r, n=name: r[n]["latency_us"]))] + [
        Column(IOPS, lambda r: r["ours"]["iops"] / r["qemu"]["iops"], 2),
        Column(CPU, lambda r: r["qemu"]["cpu_us"] / r["ours"]["cpu_us"], 2)])
    apart, together = two_cores(), (CORES[-1], CORES[-1])
    for kind in ("read", "write"):
        for depth, cores, words in ((32, apart, "two cores"), (1, apart, "two cores"), (1, together, "one core")):
            table.row(f"{kind}, QD {depth}, {words}", Aim(IOPS, least=1.0), **{
                words_of.__name__: served(words_of, cores, max(1, options.seconds), kind=kind, depth=depth)
                for words_of in (ours, qemu)})
    table.note(f"Two cores: server on {apart[0]}, client on {apart[1]}. Ours is RAID 0 of two null members, with the engine in between; the "
               "peer is its null driver, served by an iothread. With 32 requests in flight the client is as busy as the "
               "server, and limits both.")
    return table
