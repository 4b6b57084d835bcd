#!/usr/bin/env python3
"""Runs whole lanes by name, and keeps what came of each in docs/lanes.md.

usage: scripts/whole.py [LANE...]     (without a lane: their names and commands)

Continuous integration runs a bounded part of most lanes (.ci/run). A whole lane takes from minutes to hours and is run by
name, before a release and after a change of what it tests. Lanes that take hours are divided into parts with rows of their own,
so that a part can be run in an hour or so. All mutants take many hours, and have a page of their own (docs/mutants.md).

Each run writes its lane's row, also where it fails: the commit, the date, how long it took, and the last line that the lane
printed. A tree with uncommitted changes is refused.

Everything that the lanes print is passed on. Exit code 1 if one of them fails.
"""
import argparse
import datetime
import os
import pathlib
import shlex
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import clean_tree  # noqa: E402
import marked  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "lanes.md"
MARKS = ("<!-- table: scripts/whole.py -->", "<!-- end of table -->")
HEADING = ["| lane | command | commit and date | took | last line |", "|---|---|---|---|---|"]
NEVER = "not yet run by this script"
LANES = {
    "tests": "make test",
    "interop": "make test-interop ARGS=--long",
    "vm-small": "make test-vm ARGS='--long --system small'",
    "vm-debian": "make test-vm ARGS='--long --system debian'",
    "debian-13": "make test-vm ARGS='--debian 13 --long --system debian'",
    "kernel-6.1-small": "make test-vm ARGS='--kernel 6.1 --long --system small'",
    "kernel-6.1-debian": "make test-vm ARGS='--kernel 6.1 --long --system debian'",
    "story": "make test-vm ARGS=--story",
    # Groups of cases that are only run if they are named.
    "memory": "make test-vm ARGS='--long --only memory'",
    "drbd": "make test-vm ARGS='--long --only drbd'",
    "arm64": "make test-vm ARGS='--machine arm64'",
    "arm64-16k": "make test-vm ARGS='--machine arm64-16k'",
    "faults": "make test-faults COUNT=30000",
    "torture": "make torture ROUNDS=100",
    "cuts": "make test-cuts",
    "real-cuts": "make test-real-cuts COUNT=3000",
    "shuttle": "make test-concurrency ARGS=shuttle",
    "miri": "make test-concurrency ARGS=miri",
    "threads": "make test-concurrency ARGS=threads",
    "arm": "make test-concurrency ARGS=arm",
    "planted": "make test-planted",
    "fuzz": "make fuzz SECONDS=5400",
    # Ten thousand points, aborted once.
    "sweep": "scripts/wheel.sh sweep",
    "deb": "make test-deb",
    "deb-arm64": "make test-deb ARGS='--architecture arm64'",
    # Each release and each kind of user; `make test-fresh` runs all four pairs.
    "fresh-12": "make test-fresh ARGS='--release 12 --user sudo'",
    "fresh-13": "make test-fresh ARGS='--release 13 --user root'",
}


def environment():
    """The environment without what `make whole ARGS=LANE` hands to everything below it: each lane's own make would take
    ARGS from there."""
    handed_on = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS", "COUNT", "ROUNDS", "SECONDS", "SEED",
                 "SHARD")
    return {name: value for name, value in os.environ.items() if name not in handed_on}


def run(command):
    """Exit code and last line of a command whose output is passed on."""
    last = ""
    with subprocess.Popen(shlex.split(command), cwd=ROOT, env=environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as running:
        for line in running.stdout:
            print(line, end="", flush=True)
            # What make says of a failure is no news.
            if line.strip() and not line.startswith("make"):
                last = line.strip()
    return running.returncode, last


def in_words(seconds):
    if seconds >= 3600:
        return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min"
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{int(seconds)} s"


def row(lane, when, took, said):
    cell = said.replace("|", "\\|").replace("`", "'")
    return f"| {lane} | `{LANES[lane]}` | {when} | {took} | {cell} |"


def write_row(lane, new):
    """Replaces the lane's row. A lane without one gets one that says so; a row of a lane that is gone goes too."""
    _, table, _ = marked.split(PAGE, *MARKS)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()[3:] if line.startswith("|")}
    rows[lane] = new
    lines = [rows.get(name) or row(name, "", "", NEVER) for name in LANES]
    marked.replace(PAGE, *MARKS, "\n".join([*HEADING, *lines]))


def run_whole(lane):
    """Runs a lane and writes its row; whether it passed."""
    commit = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    begun = time.monotonic()
    print(f"== {lane}: {LANES[lane]}", flush=True)
    code, last = run(LANES[lane])
    when = f"{commit.stdout.strip()}, {datetime.date.today()}"
    said = last if code == 0 else f"**failed with exit code {code}**: {last}"
    write_row(lane, row(lane, when, in_words(time.monotonic() - begun), said))
    return code == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("lanes", nargs="*", metavar="LANE")
    arguments = parser.parse_args()
    if unknown := [lane for lane in arguments.lanes if lane not in LANES]:
        sys.exit(f"error: there is no lane '{unknown[0]}': name some of {', '.join(LANES)}.")
    if not arguments.lanes:
        print("\n".join(f"{lane:18} {command}" for lane, command in LANES.items()))
        return
    clean_tree.require()
    failed = [lane for lane in arguments.lanes if not run_whole(lane)]
    print(f"{len(arguments.lanes) - len(failed)} passed, {len(failed)} failed")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
