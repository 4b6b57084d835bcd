"""Cases that share a machine: each goes on until it needs md, then one boot does the jobs of all of them."""
import shutil
import string
import subprocess
import time
import traceback

from .bench import Bench
from .requirement import Failed

DRIVES_MAX = 16


class Case:
    """`run(bench)` is a generator: it yields jobs, is sent what they printed, and returns what it found."""

    def __init__(self, group, name, started_by, drives, run, sector_bytes=512, **options):
        self.group = group
        self.name = name
        self.started_by = started_by
        self.drives = drives
        self.run = run
        self.sector_bytes = sector_bytes
        # How large drives are, how long the power stays on after the last job, whether CI leaves it out.
        self.drive_bytes = options.get("drive_bytes")
        self.then_wait = options.get("then_wait", 0.0)
        self.long = options.get("long", False)
        # In a machine of its own, so that nothing happens between its last command and the end of the power.
        self.alone = options.get("alone", False)


class Outcome:
    """What became of a case."""

    def __init__(self, case):
        self.case = case
        self.failed = False
        self.text = ""
        self.fields = 0


def batches(cases):
    """Cases in the given order, as many together as a machine has places for drives."""
    together, used = [], 0
    for case in cases:
        if case.alone:
            yield [case]
            continue
        if used + case.drives > DRIVES_MAX:
            yield together
            together, used = [], 0
        together.append(case)
        used += case.drives
    if together:
        yield together


class Batch:
    """See the module's prose."""

    def __init__(self, lab, cases, keep):
        self.lab = lab
        self.keep = keep
        self.seconds = 0.0
        letters = iter(string.ascii_lowercase)
        self.running = []
        for case in cases:
            size = {"bytes_each": case.drive_bytes} if case.drive_bytes else {}
            bench = Bench(lab, [next(letters) for _ in range(case.drives)], case.sector_bytes, **size)
            self.running.append((Outcome(case), bench, case.run(bench)))

    def run(self):
        begun = time.monotonic()
        outcomes = [outcome for outcome, _, _ in self.running]
        jobs = [(entry, self.advance(entry, None)) for entry in self.running]
        while True:
            jobs = [(entry, job) for entry, job in jobs if job is not None]
            if not jobs:
                break
            drives = {letter: path for (_, bench, _), _ in jobs for letter, path in zip(bench.letters, bench.paths)}
            then_wait = max(entry[0].case.then_wait for entry, _ in jobs)
            texts = self.lab.machine.boot(drives, [(job.script, job.cut) for _, job in jobs], then_wait)
            jobs = [(entry, self.advance(entry, (job, text))) for (entry, job), text in zip(jobs, texts)]
        for outcome, bench, _ in self.running:
            outcome.fields = bench.fields_compared
            if not self.keep:
                shutil.rmtree(bench.folder)
        self.seconds = time.monotonic() - begun
        return outcomes

    def advance(self, entry, heard):
        """Lets a case go on; its next job, or nothing when it has ended."""
        outcome, bench, steps = entry
        try:
            if heard is None:
                return next(steps)
            job, text = heard
            if isinstance(text, Failed):
                raise text
            bench.heard(job, text)
            return steps.send(text)
        except StopIteration as end:
            outcome.text = end.value or ""
        except (Failed, subprocess.SubprocessError, OSError, KeyError, IndexError) as error:
            outcome.failed = True
            outcome.text = str(error)
            if not isinstance(error, Failed):
                outcome.text = traceback.format_exc(limit=-3)
        return None
