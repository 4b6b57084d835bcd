"""Lets Linux md judge what is on the drives: each side starts, continues and repairs the other side's arrays.

usage: PYTHONPATH=scripts python3 -m interop [--long] [--only WORD] [--write FILE] [--binary FILE] [--keep] [--list]

Boots user-mode Linux with mdadm, which gets the very files that fullstripe uses (machine.py, guest.py). Data is
compared in full: by md's reads, by fullstripe's reads, and by the scripts' own reader (volume.py). Before md gets the
drives and after it gives them back, `mdadm --examine` and `fullstripe examine` must say the same, field by field
(agree.py).

Prints a table, then the failed cases once more; the last line is 'N passed, N failed'. The exit code is 1 if a case
fails. If the machine lacks a program, the script says which and runs nothing. --long also runs the cases that CI leaves
out; --write puts the table into a file, between two marks.
"""
import argparse
import os
import queue
import sys
import threading
import time
from contextlib import closing

import clean_tree
from lane import leave_out, verdict, working_folder

from . import faulty, table
from .bench import Lab, clients
from .case import Worker
from .cases import all_cases
from .machine import Machine, missing


# Groups with long cases. They are started first, so that all workers finish at about the same time.
LENGTHY = ["cuts", "large", "bad", "bitmap"]


def chosen(options):
    cases = [case for case in all_cases() if options.long or not case.long]
    if options.only:
        cases = [case for case in cases
                 if all(word in f"{case.group}: {case.name} {case.started_by}" for word in options.only.split(","))]
    return cases


def run_all(lab, cases, keep):
    """Yields outcomes as they come. There is one worker more than processors, because cases often wait."""
    waiting, done = queue.Queue(), queue.Queue()
    for case in sorted(cases, key=lambda case: case.group not in LENGTHY):
        waiting.put(case)

    def work():
        worker = Worker(lab, keep)
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return worker.end()
            if lab.ended:
                return
            done.put(worker.carry_out(case))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(len(cases), (os.cpu_count() or 1) + 1))]
    for worker in workers:
        worker.start()
    try:
        for _ in cases:
            yield done.get()
    finally:
        lab.end()
        for worker in workers:
            worker.join(timeout=10)


def processor_state_is_too_large():
    """Whether user-mode Linux panics before its first process, in put_fp_registers. The registers of a processor with
    tiles (AMX) take 8 KiB, and Debian 12's kernel (6.1) has no room for them when it starts a process."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        return " amx_tile" in info.read()


def main():
    parser = argparse.ArgumentParser(prog="interop", description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/fullstripe", help="the fullstripe program to test")
    parser.add_argument("--long", action="store_true", help="all cases")
    parser.add_argument("--only", help="cases whose group, name and side contain all of these comma-separated words")
    parser.add_argument("--write", metavar="FILE", help="put the table into this file")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the drives")
    parser.add_argument("--list", action="store_true", help="list the cases and run none")
    options = parser.parse_args()
    if options.write:
        clean_tree.require()
    cases = chosen(options)
    if options.list:
        print("\n".join(f"{case.group}: {case.name}, {case.started_by}" for case in cases))
        return 0
    lacking = missing() + clients()
    if lacking:
        leave_out(f"{', '.join(lacking)} not found; scripts/setup.sh test installs them")
        return 0
    if processor_state_is_too_large() and not options.only:
        leave_out("user-mode Linux starts no process on a processor with AMX; use another machine, or --only")
        return 0
    if not faulty.possible():
        print("left out: drives that cannot be read in places; they need nbdkit, nbdfuse, fusermount3 and /dev/fuse")
    begun = time.monotonic()
    with working_folder("interop", options.keep) as folder:
        lab = Lab(folder, os.path.abspath(options.binary), Machine(folder))
        outcomes = []
        print(table.HEAD, flush=True)
        with closing(run_all(lab, cases, options.keep)) as carried_out:
            for outcome in carried_out:
                outcomes.append(outcome)
                print(table.line(outcome), flush=True)
        outcomes.sort(key=lambda outcome: cases.index(outcome.case))
        if options.write:
            table.write(options.write, outcomes)
        fields = sum(outcome.fields for outcome in outcomes)
        print(f"{lab.machine.boots} boots, {fields} fields compared, {time.monotonic() - begun:.0f} s")
    return verdict(outcomes, table.line)


if __name__ == "__main__":
    sys.exit(main())
