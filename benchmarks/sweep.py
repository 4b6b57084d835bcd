"""A sweep of plans on one core and on two: threads of one process, and processes."""
import os

from common import Aim, Column, Comparison, Missing, ROOT, pinned, run, two_core_control, two_cores

PYTHON = ROOT / "target/wheel/tests/bin/python"
# Workers are there before the clock starts: what counts is the rate of a long sweep.
SCRIPT = """
import concurrent.futures, sys, time
import fullstripe
kind, workers, points = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
grid = {"drive": "p4510-2tb", "platform": "epyc-9554p-24", "level": 5, "op": "randread", "bs": "4k",
        "count": range(3, 3 + points // 4), "qd": [1, 2, 4, 8], "threads": 2}
pools = {"threads": concurrent.futures.ThreadPoolExecutor, "processes": concurrent.futures.ProcessPoolExecutor}
with pools[kind](workers) as pool:
    list(pool.map(time.sleep, [0.05] * 2 * workers))
    begun = time.monotonic()
    swept = fullstripe.sweep(grid, executor=pool)
    taken_seconds = time.monotonic() - begun
assert swept.computed == points
print(points / taken_seconds)
"""


def rate(kind, cores, points):
    """Points a second of as many workers as there are cores, on these."""
    return lambda: {"rate": float(run(pinned(cores, PYTHON, "-c", SCRIPT, kind, len(cores), points), timeout_s=600))}


def comparison(options):
    if not os.access(PYTHON, os.X_OK):
        raise Missing("the Python package is not installed there (scripts/wheel.sh test)")
    cores = two_cores()
    points = 24 if options.short else 64
    table = Comparison("sweep", "Points of a sweep computed in a second:", options, [
        Column("one worker", lambda r: r["one"]["rate"]),
        Column("two workers", lambda r: r["two"]["rate"]),
        Column("ratio", lambda r: r["two"]["rate"] / r["one"]["rate"], 2),
        Column("two cores do this much more", lambda r: r["control"]["times"], 2),
        Column("of what two cores can", lambda r: r["two"]["rate"] / r["one"]["rate"] / r["control"]["times"], 2)])
    for kind in ("threads", "processes"):
        table.row(kind, Aim("of what two cores can", least=0.9), one=rate(kind, cores[-1:], points),
                  two=rate(kind, cores, points), control=lambda: {"times": two_core_control()})
    return table
