"""Serves arrays of emulated NVMe drives in a virtual machine, to the block layer of a real kernel.

usage: PYTHONPATH=scripts python3 -m vm [--long] [--only WORD] [--system KIND] [--story] [--debian 13] [--kernel 6.1]
                                        [--machine arm64] [--binary FILE] [--patience N] [--keep] [--list] [--prepare]

Boots Debian's kernel 6.12 (or 6.1) in QEMU, without hardware support and without root (kernel.py, image.py, machine.py). In the
guest fullstripe serves its drives, a volume becomes a block device of the kernel (attach.py), and file systems,
partitions, LVM and dm-crypt use it, while drives fail and are pulled out (cases). Some cases reboot a Debian with systemd
(system.py): a Debian 12, unless --debian 13 asks for the next one, with its own kernel, mdadm, systemd and udev. Data is
compared in full, byte by byte. With --kernel 6.1, the kernel that Debian 12 installs by itself, what is by ublk elsewhere is by the
kernel's NBD client, and NVMe over TCP, which needs ublk, is left out. With --machine arm64 the machine has 64-bit ARM
processors, and Debian 13's kernel and programs of that type; with arm64-16k the kernel has pages of 16 KiB (machines.py).

Prints a table, then the failed cases once more; the last line is 'N passed, N failed'. The exit code is 1 if a case
fails. If the machine lacks a program, the script says which and runs nothing. Without --long only the cases of CI run
(cases/__init__.py); some long ones only if --only names their group (cases/memory.py), or --story (cases/story.py).
"""
import argparse
import os
import resource
import sys
import time

from interop.requirement import Failed, require
from lane import leave_out, verdict, working_folder

from . import debian, guest, image, kernel, machines, programs, releases
from .case import Worker
from .cases import all_cases, by, short_cases
from .machine import Machine

STORE = os.path.join("target", "vm")
HEAD = f"{'GROUP':<10} {'CASE':<46} {'BY':<10} {'TIME':>6}  OUTCOME"


def line(outcome):
    verdict = "FAILED: " if outcome.failed else "holds: "
    return f"{outcome.case.group:<10} {outcome.case.name:<46} {outcome.case.way:<10} {outcome.seconds:5.1f}s  {verdict}{outcome.text}"


def chosen(options, kind):
    """The cases that are asked for and that this kind of machine can have."""
    return [case for case in asked_for(options) if case.group not in kind.leaves_out]


def asked_for(options):
    if options.story:
        return [case for case in all_cases() if case.group == "story"]
    cases = all_cases() if options.long else short_cases(options.turn)
    words = options.only.split(",") if options.only else []
    cases = [case for case in cases if not case.by_name or any(case.group in word for word in words)]
    if options.system:
        cases = [case for case in cases if case.reboots == (options.system == "debian")]
    return [case for case in cases if all(word in case.full_name() for word in words)]


def without_ublk(cases):
    """The same cases where the kernel has no ublk."""
    turned = [by("kernel_nbd", case) if case.way == "ublk" else case for case in cases if not case.needs_ublk]
    return list({case.full_name(): case for case in turned}.values())


def run_all(machine, cases, release):
    """Prints and returns the outcomes."""
    print(HEAD, flush=True)
    worker, outcomes = Worker(machine, STORE, release), []
    for case in cases:
        outcomes.append(worker.carry_out(case))
        print(line(outcomes[-1]), flush=True)
    return outcomes


def parts(options, kind):
    """What a machine boots, made once: the kernel, the program, and the archive that has the program."""
    found = kernel.fetch(STORE, options.debian, options.kernel, kind)
    print(f"kernel {found.version}", flush=True)
    program = os.path.abspath(options.binary)
    require(os.path.isfile(program), f"{program} is missing: scripts/build.sh --architecture {kind.architecture} makes it")
    return found, program, image.build(found, program, STORE, kind, programs.fetch(STORE, options.debian, kind))


def prepare(options, kind, cases):
    """Makes what the machines of these cases boot."""
    parts(options, kind)
    if any(case.reboots for case in cases):
        debian.build(STORE, options.debian, kind)


def run_in(folder, options, kind, cases):
    """Has everything that lasts only as long as the lane in `folder`. Returns the outcomes."""
    found, program, root = parts(options, kind)
    if not found.has_module("ublk_drv"):
        cases = without_ublk(cases)
    machine = Machine(kind, folder, found, root, program, options.keep)
    begun = time.monotonic()
    try:
        outcomes = run_all(machine, cases, options.debian)
    finally:
        machine.end()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    print(f"{machine.boots} boots, {time.monotonic() - begun:.0f} s, {processor:.0f} s of processor time")
    return outcomes


def parser_of_options():
    parser = argparse.ArgumentParser(prog="vm", description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the fullstripe program to test, if not the one that scripts/build.sh makes for this machine type")
    parser.add_argument("--long", action="store_true", help="all cases")
    parser.add_argument("--turn", type=int, help="of the cases that run without --long, only those of every time and those of this turn")
    parser.add_argument("--only", help="cases whose group and name contain all of these comma-separated words")
    parser.add_argument("--system", choices=["small", "debian"],
                        help="only cases on machines of this kind: with nothing but what a case needs, or a Debian with systemd")
    parser.add_argument("--story", action="store_true", help="only the case that tells an array's first year")
    parser.add_argument("--debian", choices=releases.SUITES, help="the machines' release of Debian")
    parser.add_argument("--kernel", choices=kernel.PACKAGES, default=kernel.DEFAULT, help="the machines' series of kernels")
    parser.add_argument("--machine", choices=machines.KINDS, default=machines.DEFAULT, help="the machines' type")
    parser.add_argument("--patience", type=float, default=1,
                        help="wait this many times as long for the guest, on a machine that does other work too")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the machines: drives, console, jobs")
    parser.add_argument("--list", action="store_true", help="list the cases and run none")
    parser.add_argument("--prepare", action="store_true", help="make what the machines of the cases boot, and run none")
    return parser


def understood(parser):
    """The options and the kind of machine."""
    options = parser.parse_args()
    kind = machines.KINDS[options.machine]
    options.debian = options.debian or kind.releases[0]
    options.binary = options.binary or kind.program
    if options.debian not in kind.releases:
        parser.error(f"machines of type {kind.name} have Debian {', '.join(kind.releases)} only; leave out --debian")
    if options.debian != releases.DEFAULT and options.kernel != kernel.DEFAULT:
        parser.error(f"Debian {options.debian} has no kernel {options.kernel}; leave out --kernel")
    return options, kind


def main():
    options, kind = understood(parser_of_options())
    guest.patience = options.patience
    cases = chosen(options, kind)
    if options.list:
        print("\n".join(case.full_name() for case in cases))
        return 0
    lacking = image.missing(STORE, any(case.built for case in cases), kind)
    if options.debian != kind.releases[0] or any(case.reboots for case in cases):
        lacking += debian.missing(kind, with_firmware=any(case.group == "root" for case in cases))
    if lacking:
        leave_out(f"{', '.join(lacking)} not found; scripts/setup.sh {kind.setup} installs them")
        return 0
    os.makedirs(STORE, exist_ok=True)
    try:
        if options.prepare:
            prepare(options, kind, cases)
            return 0
        with working_folder("vm", options.keep) as folder:
            outcomes = run_in(folder, options, kind, cases)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return verdict(outcomes, line)


if __name__ == "__main__":
    sys.exit(main())
