"""Cases, their outcomes, and the worker that runs them one after the other."""
import time
import traceback

from interop.requirement import Failed

from .bench import Bench


class Case:
    """`run(bench)` returns what it found, in a few words, or raises Failed."""

    def __init__(self, group, name, run, sector_bytes=512, long=False):
        self.group = group
        self.name = name
        self.run = run
        self.sector_bytes = sector_bytes
        self.long = long


class Outcome:
    """The outcome of a case."""

    def __init__(self, case, failed, text, seconds):
        self.case = case
        self.failed = failed
        self.text = text
        self.seconds = seconds


class Worker:
    """Keeps a guest from case to case, and boots a new one for another sector size and after a failure."""

    def __init__(self, machine):
        self.machine = machine
        self.guest = None
        self.sector_bytes = None

    def carry_out(self, case):
        begun = time.monotonic()
        try:
            self.have_guest(case.sector_bytes)
            text, failed = case.run(Bench(self.guest, case.sector_bytes, f"{case.group}: {case.name}")), False
        except Exception as error:  # Whatever it is, only this case fails, and the others are run.
            text, failed = str(error) if isinstance(error, Failed) else traceback.format_exc(limit=-3), True
            self.let_go()
        return Outcome(case, failed, text, time.monotonic() - begun)

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
