"""Block devices of a virtual machine's kernel: ublk, the kernel's NBD client, and libublk's null target beside them."""
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import tempfile

from common import Aim, Column, Comparison, Failed, Missing, PROGRAM, ROOT

from vm import image, kernel, releases
from vm.guest import JOB_SECONDS
from vm.machine import Machine
from vm.machines import Pc
from vm.programs import OwnPrograms

STORE = ROOT / "target/vm"
# One server, whose volume is attached in the way that is to be measured. Members without data: what remains is the way
# itself.
SERVE = """
    . /guest.sh
    setsid fullstripe serve --scratch 0 null:1g null:1g --memory 64m --nbd unix:/run/nbd.sock > /run/serve.log 2>&1 &
    until fullstripe status > /run/status 2>&1; do sleep 0.2; done"""
ATTACHED = """
    . /guest.sh
    fullstripe attach --as {kind} > /run/attached
    device=$(readlink -f /dev/fullstripe/*)
    {measure}
    fullstripe detach > /run/detached"""
# libublk's example adds its device and serves it until it is killed.
LIBUBLK = """
    . /guest.sh
    if [ ! -e /run/libublk.pid ]; then
        cp /host/null /run/null
        setsid /run/null add --foreground -q 1 -d 128 > /run/null.log 2>&1 &
        echo $! > /run/libublk.pid
    fi
    tries=0
    until device=$(ls -d /dev/ublkb* 2> /dev/null); do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || fail "libublk's null target makes no device: $(cat /run/null.log)"
        sleep 0.2
    done
    {measure}"""
# Prints ticks of processor time, and has fio's figures in /host/fio.json.
MEASURE = """
    ticks() {{ awk '/^cpu / {{ print $2 + $3 + $4 + $7 + $8 }}' /proc/stat; }}
    before=$(ticks)
    fio --name=load --filename=$device --rw={rw} --bs={bs} --iodepth={depth} --ioengine=libaio --direct=1 --norandommap {more} \\
        --randseed=1 --time_based --runtime={seconds} --output-format=json --output=/host/fio.json
    echo "ticks $(($(ticks) - before))" """
TICK_US = 10_000


class Guest:
    """A virtual machine with a server, booted at its first use and ended with this program."""

    def __init__(self):
        self.cleaning = contextlib.ExitStack()
        atexit.register(self.cleaning.close)
        self.guest = None

    def ready(self):
        """Boots it, unless it runs."""
        if self.guest is None:
            self.boot()

    def begin(self):
        """What is done after booting: a server is started."""
        self.do(SERVE)

    def do(self, script):
        self.ready()
        code, printed = self.guest.do(script, JOB_SECONDS)
        if code != 0:
            raise Failed(f"a job in the virtual machine ended with {code}: {printed.strip()[-300:]}")
        return printed

    def boot(self):
        lacking = image.missing(str(STORE), False, Pc)
        if lacking:
            raise Missing(f"{', '.join(lacking)} not found (scripts/setup.sh vm)")
        STORE.mkdir(parents=True, exist_ok=True)
        found = kernel.fetch(str(STORE), releases.DEFAULT, kernel.DEFAULT, Pc)
        root = image.build(found, str(PROGRAM), str(STORE), Pc, OwnPrograms())
        folder = self.cleaning.enter_context(tempfile.TemporaryDirectory(prefix="fullstripe-devices-"))
        machine = Machine(Pc, folder, found, root, str(PROGRAM), keep=False)
        self.cleaning.callback(machine.end)
        self.guest = machine.boot(512)
        self.begin()

    def share(self):
        """The folder that the guest sees as /host."""
        return pathlib.Path(self.guest.place) / "host"

    def measured(self, script, **load):
        """Runs a script in which fio measures a device, and returns fio's figures."""
        return self.figures(self.do(script.format(measure=MEASURE.format(**{"bs": "4k", "more": "", **load}))), load["rw"])

    def figures(self, printed, rw):
        """fio's figures of a load that a script has measured, which printed this."""
        ticks = next(int(line.split()[1]) for line in printed.splitlines() if line.startswith("ticks "))
        job = json.loads((self.share() / "fio.json").read_text("utf-8"))["jobs"][0]
        of = job["read" if "read" in rw else "write"]
        return {"iops": of["iops"], "p50_us": of["clat_ns"]["percentile"]["50.000000"] / 1e3,
                "processor_us": ticks * TICK_US / of["total_ios"], "requests": of["total_ios"]}


def attached(guest, kind, **load):
    """A volume attached in this way."""
    return lambda: guest.measured(ATTACHED.replace("{kind}", kind), **load)


def libublk(guest, **load):
    """libublk's null target, which answers without doing anything."""
    program = os.environ.get("LIBUBLK_NULL")

    def measure():
        if not program:
            raise Missing("LIBUBLK_NULL names no built example of libublk")
        guest.do(":")
        if not (guest.share() / "null").exists():
            shutil.copy(program, guest.share() / "null")
        return guest.measured(LIBUBLK, **load)
    return measure


def ratio(figure, other):
    return lambda result: result["ublk"][figure] / result[other][figure]


def comparison(options):
    table = Comparison("devices", "A volume of null members (RAID 0 of 2, one data thread) as a block device, 4 KiB, fio, in a "
                       "virtual machine by software emulation: thousands of requests per second, and the guest's processor time "
                       "for each, fio's included:", options, [
        column for kind, name in (("ublk", "ublk"), ("nbd", "nbd"), ("libublk", "libublk's null target")) for column in (
            Column(f"{name}, k IOPS", lambda r, kind=kind: r[kind]["iops"] / 1e3, 2),
            Column(f"{name}, us of processor", lambda r, kind=kind: r[kind]["processor_us"], 0))] + [
        Column("ublk / nbd", ratio("iops", "nbd"), 2),
        Column("ublk / libublk", ratio("iops", "libublk"), 2),
        Column("median latency, ublk / libublk", ratio("p50_us", "libublk"), 2)])
    guest, seconds = Guest(), max(2, round(options.seconds))
    for rw in ("randread", "randwrite"):
        for depth in (1, 32):
            aims = [Aim("ublk / nbd", least=1.0)]
            aims += [Aim("median latency, ublk / libublk", most=1.15)] if depth == 1 else [Aim("ublk / libublk", least=0.9)]
            load = {"rw": rw, "depth": depth, "seconds": seconds}
            table.row(f"{rw[4:]}, QD {depth}", *aims, ublk=attached(guest, "ublk", **load),
                      nbd=attached(guest, "nbd", **load), libublk=libublk(guest, **load))
    table.note("Under software emulation every instruction costs many times what it costs on a processor, and memory is "
               "relatively cheap: ratios between ways can be compared, figures cannot.")
    return table
