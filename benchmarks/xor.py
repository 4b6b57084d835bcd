"""Fullstripe's parity and copy kernels compared with ISA-L's and the C library's."""
import shutil

from common import Aim, CORE, Column, Comparison, Failed, Missing, ROOT, kernel_rates, run

SIZES = [(4096, "4 KiB"), (16384, "16 KiB"), (65536, "64 KiB"), (262144, "256 KiB"), (1048576, "1 MiB")]
SOURCE = ROOT / "benchmarks/isal_speed.c"
PROGRAM = ROOT / "target/benchmarks/isal_speed"


def build():
    """Compiles the measuring program around ISA-L."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Missing("there is no C compiler (scripts/setup.sh bench)")
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    try:
        run([compiler, "-x", "c", "-", "-o", "/dev/null", "-lisal"],
            input="#include <isa-l.h>\nint main(void) { return 0; }\n")
    except Failed as failed:
        raise Missing("ISA-L is not installed (apt: libisal-dev; scripts/setup.sh bench)") from failed
    run([compiler, "-O2", SOURCE, "-o", PROGRAM, "-lisal"])


def ours(*words):
    return lambda: {"rate": kernel_rates(*words)[0]}


def peers(*words):
    return lambda: {"rate": float(run([PROGRAM, *words, CORE]))}


def comparison(options):
    seconds = min(options.seconds, 0.5) / 2
    table = Comparison("xor", "Parity of four sources (bytes touched) and copies (bytes copied), GB/s:", options, [
        Column("ours", lambda r: r["ours"]["rate"] / 1e9),
        Column("ISA-L, or memcpy", lambda r: r["peer"]["rate"] / 1e9),
        Column("ratio", lambda r: r["ours"]["rate"] / r["peer"]["rate"], 2)])
    has_peer = True
    try:
        build()
    except Missing as missing:
        table.note(f"Not measured: ISA-L and memcpy: {missing}.")
        has_peer = False
    for kernel, name, aims in (("xor:4", "parity", [Aim("ratio", least=1.0)]), ("copy", "copy", [])):
        for cache in ("warm", "cold"):
            for length, size in SIZES[::2] if options.short else SIZES:
                words = (kernel, length, cache, seconds)
                table.row(f"{name}, {size}, {cache}", *aims, ours=ours(*words),
                          peer=peers(*words) if has_peer else None)
    return table
