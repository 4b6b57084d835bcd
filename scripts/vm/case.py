"""Cases, their outcomes, and the worker that runs them one after the other."""
import time
import traceback

from interop.requirement import Failed

from . import debian
from .bench import Bench
from .machine import DRIVE_BYTES
from .system import System, SystemBench


class Case:
    """`run(bench)` returns what it found, in a few words, or raises Failed. With `reboots` it has a machine of its own, which
    runs a Debian with systemd, and its bench is a SystemBench. With `built` it needs a program
    that has to be built (image.py). With `by_name` it runs only when its group is asked for. With `boots` it is `run(case, machine)`, which
    boots a guest of its own. `way` is how volumes become block devices (attach.py). `drive_bytes` is the size of each drive of a
    case with `reboots`. With `needs_ublk` it makes no sense on a kernel without ublk."""

    def __init__(self, group, name, run, sector_bytes=512, reboots=False, built=False, way="nbd", by_name=False, boots=False,
                 drive_bytes=DRIVE_BYTES, needs_ublk=False):
        self.group = group
        self.name = name
        self.run = run
        self.sector_bytes = sector_bytes
        self.reboots = reboots
        self.built = built
        self.way = way
        self.by_name = by_name
        self.boots = boots
        self.drive_bytes = drive_bytes
        self.needs_ublk = needs_ublk

    def full_name(self):
        return f"{self.group}: {self.name} by {self.way}"


class Outcome:
    """The outcome of a case."""

    def __init__(self, case, failed, text, seconds):
        self.case = case
        self.failed = failed
        self.text = text
        self.seconds = seconds


class Worker:
    """Keeps a guest from case to case, and boots a new one for another sector size and after a failure. The disk of
    the cases that reboot is made in the folder `store`, when the first of them needs it, and has this `release` of Debian."""

    def __init__(self, machine, store, release):
        self.machine = machine
        self.store = store
        self.release = release
        self.debian = None
        self.guest = None
        self.sector_bytes = None

    def carry_out(self, case):
        begun = time.monotonic()
        try:
            text, failed = self.run(case), False
        except Exception as error:  # Whatever it is, only this case fails, and the others are run.
            text, failed = str(error) if isinstance(error, Failed) else traceback.format_exc(limit=-3), True
            self.let_go()
        return Outcome(case, failed, text, time.monotonic() - begun)

    def run(self, case):
        if case.boots:
            self.let_go()
            return case.run(case, self.machine)
        return (self.on_its_own if case.reboots else self.on_the_guest)(case)

    def on_the_guest(self, case):
        self.have_guest(case.sector_bytes)
        return case.run(Bench(self.guest, case))

    def on_its_own(self, case):
        self.let_go()
        system = System(self.machine, self.have_debian(), case.sector_bytes, case.drive_bytes)
        try:
            return case.run(SystemBench(system, case))
        finally:
            system.end()

    def have_debian(self):
        """The path of the disk's image. Its versions are printed when it is used first."""
        if self.debian is None:
            self.debian = debian.build(self.store, self.release, self.machine.kind)
            print(f"Debian {self.release}: {debian.versions(self.debian)}", flush=True)
        return self.debian

    def have_guest(self, sector_bytes):
        if self.sector_bytes != sector_bytes:
            self.let_go()
        if self.guest is None:
            self.guest = self.machine.boot(sector_bytes)
            self.sector_bytes = sector_bytes

    def let_go(self):
        if self.guest is not None:
            self.machine.stop(self.guest)
            self.guest = None
