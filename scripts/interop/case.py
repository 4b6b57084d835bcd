"""Cases, their outcomes, and the workers that run cases. Each worker has a machine, which it keeps from case to
case."""
import shutil
import string
import time
import traceback

from .bench import Bench
from .requirement import Failed, NotTried


class Case:
    """`run(bench)` is a generator: it yields jobs, receives what they printed, and returns what it found."""

    def __init__(self, group, name, started_by, drives, run, sector_bytes=512, **options):
        self.group = group
        self.name = name
        self.started_by = started_by
        self.drives = drives
        self.run = run
        self.sector_bytes = sector_bytes
        # The size of the drives, and whether CI leaves the case out.
        self.drive_bytes = options.get("drive_bytes")
        self.long = options.get("long", False)


class Outcome:
    """The outcome of a case."""

    def __init__(self, case):
        self.case = case
        self.failed = False
        self.text = ""
        self.fields = 0
        self.seconds = 0.0


class Worker:
    """Runs cases, one after the other. A new machine is booted after a power cut and after a failure.

    mdadm or mdmon hung in 3 of 2,250 cases, on a machine that ran this twice at the same time. A case that cannot do
    what it tests is run once more from its beginning, and its outcome says so. Wrong bytes fail it at once.
    """

    def __init__(self, lab, keep):
        self.lab = lab
        self.keep = keep
        self.guest = None

    def carry_out(self, case):
        begun = time.monotonic()
        outcome = Outcome(case)
        not_tried = self.attempt(case, outcome)
        if not_tried and not self.lab.ended:
            print(f"{case.group}: {case.name} ({case.started_by}) is carried out once more: {not_tried}", flush=True)
            self.attempt(case, outcome)
            outcome.text += "; at the second try"
        outcome.seconds = time.monotonic() - begun
        return outcome

    def attempt(self, case, outcome):
        """Runs the case and fills its outcome. Returns why the case could not do what it tests, or None if it could."""
        not_tried = None
        outcome.failed, outcome.text = False, ""
        size = {"bytes_each": case.drive_bytes} if case.drive_bytes else {}
        bench = Bench(self.lab, string.ascii_lowercase[: case.drives], case.sector_bytes, **size)
        try:
            outcome.text = self.advance(bench, case.run(bench))
        except Exception as error:  # Whatever it is, only this case fails, and the others are run.
            not_tried = error if isinstance(error, NotTried) else None
            outcome.failed = True
            outcome.text = str(error) if isinstance(error, Failed) else traceback.format_exc(limit=-3)
            self.end()
        outcome.fields = bench.fields_compared
        if not self.keep:
            shutil.rmtree(bench.folder, ignore_errors=True)
        return not_tried

    def advance(self, bench, steps):
        """Runs the jobs of a case, and returns what the case returns."""
        heard = None
        while True:
            try:
                job = steps.send(heard)
            except StopIteration as end:
                return end.value or ""
            if self.guest is None:
                self.guest = self.lab.machine.boot()
            heard = self.lab.machine.do(self.guest, dict(zip(bench.letters, bench.paths)), job.script, job.cut)
            if job.cut:
                self.guest = None
            bench.heard(job, heard)

    def end(self):
        if self.guest is not None:
            self.lab.machine.stop(self.guest)
            self.guest = None
