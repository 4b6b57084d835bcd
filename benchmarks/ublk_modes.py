"""Ways of a ublk device to get data from the kernel and give it back: copied by the kernel (ours), or by the program."""
import os
import pathlib
import shutil

from common import Column, Comparison, Missing, ROOT, once_per_round
from devices import MEASURE, Guest

PROGRAM = pathlib.Path(os.environ.get("UBLK_MODES", ROOT / "target/release/examples/ublk_modes"))
# What a device of ours has with `serve --memory 64m` or more, but for a depth of 112.
DEPTH, REQUEST_BYTES_MAX = 64, 512 << 10
COPY = "copy"
# Modes, their names for people, and the directions in which they differ from copy mode.
OTHERS = [
    ("user-copy", "user copy in the ring", ("read", "write")),
    ("user-copy-calls", "user copy by system calls", ("read", "write")),
    ("need-get-data", "NEED_GET_DATA", ("write",)),
]
BEGIN = """
    modprobe ublk_drv
    cp /host/ublk_modes /run/ublk_modes"""
# The device is removed when the program's input ends: with the job, if fio fails.
SERVED = """
    . /guest.sh
    rm -f /run/end /run/served
    mkfifo /run/end
    /run/ublk_modes {mode} {device_depth} {longest} < /run/end > /run/served 2> /run/served.log &
    exec 3> /run/end
    tries=0
    until device=$(grep /dev/ublkb /run/served 2> /dev/null); do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "no device is made: $(cat /run/served.log)"
        sleep 0.1
    done
    {measure}
    exec 3>&-
    wait $! || fail "the device ends: $(cat /run/served.log)"
    grep memory /run/served"""


class ModesGuest(Guest):
    """The virtual machine, with the program that knows the modes in place of a server."""

    def begin(self):
        shutil.copy(PROGRAM, self.share() / "ublk_modes")
        self.do(BEGIN)


def measured(guest, mode, load):
    """A device of this mode is made, measured and removed."""
    def measure():
        if not PROGRAM.exists():
            raise Missing("ublk_modes is not built: cargo build --release -p drives --example ublk_modes")
        printed = guest.do(SERVED.format(mode=mode, device_depth=DEPTH, longest=REQUEST_BYTES_MAX,
                                         measure=MEASURE.format(more="", **load)))
        memory_bytes = next(int(line.split()[1]) for line in printed.splitlines() if line.startswith("memory "))
        return {**guest.figures(printed, load["rw"]), "memory_bytes": memory_bytes}
    return measure


def ratio(figure):
    return lambda result: result["mode"][figure] / result[COPY][figure]


def comparison(options):
    table = Comparison("ublk_modes", f"A ublk device whose program answers at once (one queue, {DEPTH} tags, requests of at most "
                       f"{REQUEST_BYTES_MAX >> 10} KiB), in each mode, fio, in a virtual machine by software emulation. Processor time is the "
                       "guest's for each request, fio's included; memory is the most that the tags have had at a time; ratios are "
                       "to copy mode in the same round:", options, [
        Column("k IOPS", lambda r: r["mode"]["iops"] / 1e3, 2),
        Column("us of processor", lambda r: r["mode"]["processor_us"], 0),
        Column("memory, KiB", lambda r: r["mode"]["memory_bytes"] / 1024, 0),
        Column("IOPS ratio", ratio("iops"), 2),
        Column("processor ratio", ratio("processor_us"), 2)])
    guest, seconds = ModesGuest(), max(2, round(options.seconds))
    for rw in ("read", "write"):
        for size_kib in (4, 128):
            for depth in (1, 32):
                load = {"rw": f"rand{rw}", "bs": f"{size_kib}k", "depth": depth, "seconds": seconds}
                name = f"{rw}, {size_kib} KiB, QD {depth}"
                copy = once_per_round(measured(guest, COPY, load))
                table.row(f"{name}: copy", mode=copy)
                for mode, words, directions in OTHERS:
                    if rw in directions:
                        table.row(f"{name}: {words}", mode=measured(guest, mode, load), **{COPY: copy})
    table.note("Under software emulation every instruction costs many times what it costs on a processor, and memory is "
               "relatively cheap: ratios between modes can be compared, figures cannot.")
    return table
