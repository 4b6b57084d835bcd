"""NBD servers of memory compared: the same fio job with fullstripe, nbdkit and qemu-nbd."""
import json
import pathlib
import tempfile

from common import Aim, Column, Comparison, CORES, Failed, PROGRAM, need, pinned, run, two_cores
from server import PATIENCE_S, Server

SIZE_MIB = 1024
CPU, IOPS, LATENCY = "CPU ratio", "IOPS ratio", "latency ratio"


def server_words(name, folder):
    """The command of a server, its socket, and fio's URI of the export."""
    path = folder / "nbd.sock"
    plain = f"nbd+unix:///?socket={path}"
    if name == "nbdkit":
        need("nbdkit", "nbdkit")
        return ["nbdkit", "-f", "-U", path, "memory", f"{SIZE_MIB}M"], path, plain
    if name == "qemu":
        need("qemu-nbd", "qemu-utils")
        return ["qemu-nbd", "-t", "-e", "16", "-k", path, "--image-opts",
                f"driver=null-co,size={SIZE_MIB << 20}"], path, plain
    drives = [f"ram:{SIZE_MIB // 2 + 8}m"] * 2
    return [PROGRAM, "serve", *drives, "--scratch", "0", "--nbd", f"unix:{path}", "--socket", folder / "api.sock"], \
        path, f"nbd+unix:///scratch?socket={path}"


def fio(server, address, core, seconds, rw, depth, size="4k"):
    """Runs the job; returns fio's figures and the server's processor time per request."""
    before = server.processor_s()
    said = run(pinned([core], "fio", "--name=nbd", "--ioengine=nbd", f"--uri={address}", f"--rw={rw}",
                      f"--bs={size}", f"--iodepth={depth}", "--thread", "--norandommap", "--randrepeat=0",
                      "--time_based", f"--runtime={seconds}", f"--size={SIZE_MIB}M", "--output-format=json"),
               timeout_s=PATIENCE_S + 2 * seconds)
    used_s = server.processor_s() - before
    job = json.loads(said[said.index("{"):])["jobs"][0]
    side = job["read" if "read" in rw else "write"]
    if side["total_ios"] == 0 or job["error"] != 0:
        raise Failed(f"fio did nothing: error {job['error']}")
    return {"iops": side["iops"], "latency_us": side["lat_ns"]["mean"] / 1e3,
            "p99_us": side["clat_ns"]["percentile"]["99.000000"] / 1e3, "cpu_us": used_s * 1e6 / side["total_ios"]}


def served(name, cores, seconds, **job):
    """The job with a fresh server, as a subject."""
    def measure():
        need("fio", "fio")
        server_core, client_core = cores
        with tempfile.TemporaryDirectory(prefix="fullstripe-nbd-") as scratch:
            command, socket, address = server_words(name, pathlib.Path(scratch))
            server = Server(name, command, socket, server_core, pathlib.Path(scratch))
            try:
                # Reading what was never written reads a hole, which costs less.
                fio(server, address, client_core, 0.3, "write", 8, "1m")
                return fio(server, address, client_core, seconds, **job)
            finally:
                server.stop()
    return measure


def better(figures, name, least):
    """The better peer's figure."""
    found = [figures[peer][name] for peer in ("nbdkit", "qemu") if peer in figures]
    return (min if least else max)(found) if found else None


def columns():
    """For each server requests, processor time and latency; then fullstripe compared with the better of the others."""
    made = []
    for name, head in (("ours", "ours"), ("nbdkit", "nbdkit"), ("qemu", "qemu-nbd")):
        made += [Column(f"{head}, k IOPS", lambda r, n=name: r[n]["iops"] / 1e3),
                 Column(f"{head}, CPU us", lambda r, n=name: r[n]["cpu_us"]),
                 Column(f"{head}, mean us", lambda r, n=name: r[n]["latency_us"])]
    return made + [
        Column(IOPS, lambda r: r["ours"]["iops"] / better(r, "iops", least=False), 2),
        Column(CPU, lambda r: better(r, "cpu_us", least=True) / r["ours"]["cpu_us"], 2),
        Column(LATENCY, lambda r: r["ours"]["latency_us"] / better(r, "latency_us", least=True), 2)]


def comparison(options):
    table = Comparison("nbd", "One fio job over a Unix socket, 4 KiB random. CPU is the server's per request; CPU "
                       "ratio is the better peer's over ours, the others ours over the better peer's:", options, columns())
    apart, together = two_cores(), (CORES[-1], CORES[-1])
    for rw in ("randread", "randwrite"):
        for depth, cores, words in ((32, apart, "two cores"), (1, apart, "two cores"), (1, together, "one core")):
            aims = [Aim(CPU, least=1.5), Aim(IOPS, least=1.0)] if depth > 1 else [Aim(LATENCY, most=1.0)]
            table.row(f"{rw[4:]}, QD {depth}, {words}", *aims, **{
                name: served(name, cores, max(1, options.seconds), rw=rw, depth=depth)
                for name in ("ours", "nbdkit", "qemu")})
    table.note(f"Two cores: server on {apart[0]}, fio on {apart[1]}. Ours is RAID 0 of two members in RAM, nbdkit "
               "serves its memory, qemu-nbd its null driver, which moves no bytes; a QD 1 figure on two cores is "
               "mostly the wake-up between them.")
    return table
