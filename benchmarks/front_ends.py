"""Instructions of a request in the front ends alone, without I/O: NBD, ublk and vhost-user."""
import dataclasses
import re
import subprocess

from common import Column, Comparison, Failed, Missing, ROOT, need

PROGRAM = ROOT / "target/release/examples/front_end"
NAMES = ("nbd", "ublk", "vhost-user")
REQUESTS = 32_000


def total(name, kind, requests):
    """Instructions of a whole process."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", str(PROGRAM), name, kind,
               str(requests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    counted = re.search(r"I\s+refs:\s+([0-9,]+)", done.stderr)
    if done.returncode != 0 or counted is None:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return int(counted[1].replace(",", ""))


def counted(name, kind):
    """Instructions of one request, without those of the process's start."""
    def measure():
        need("valgrind", "valgrind")
        if not PROGRAM.exists():
            raise Missing("front_end is not built: cargo build --release -p exports --example front_end")
        return (total(name, kind, 2 * REQUESTS) - total(name, kind, REQUESTS)) / REQUESTS
    return measure


def comparison(options):
    table = Comparison("front_ends", "Instructions of a 4 KiB request in the part of each front end that does no I/O, 32 requests at a time:",
                       dataclasses.replace(options, rounds=1), [Column(name, lambda r, n=name: r[n], 0) for name in NAMES])
    for kind in ("read", "write"):
        table.row(kind, **{name: counted(name, kind) for name in NAMES})
    table.note("NBD's part decodes the request and encodes the reply; what makes a request for the engine of it, and finds memory for "
               "it, belongs to its connection, which does I/O, and is not counted. ublk's part does both, and so does vhost-user's, "
               "which also reads the chain of descriptors and copies the payload.")
    return table
