"""How a shard notices completions: it sleeps until woken, polls all the time, or polls for a while and then sleeps."""
import atexit
import contextlib
import os
import pathlib
import tempfile

from common import CORE, Column, Comparison, Missing, bench, need, run
from files import Files, detach

MODES = ("interrupt", "hybrid", "polling")
COUNT = 4


class Loops:
    """Loop devices over files in memory: block devices whose I/O is done by kernel threads. They are attached at their
    first use, because a machine may not have them, and detached at the end."""

    def __init__(self):
        self.cleaning = contextlib.ExitStack()
        atexit.register(self.cleaning.close)
        self.files, self.member = None, None

    def bench(self, seconds, **options):
        """As `common.bench`, with these members."""
        return lambda: bench(seconds, member=self.attached(), **options)()

    def attached(self):
        if self.member is None:
            if os.geteuid() != 0:
                raise Missing("loop devices need root")
            need("losetup", "mount")
            self.files = Files()
            names = pathlib.Path(self.cleaning.enter_context(tempfile.TemporaryDirectory(prefix="fullstripe-loops-")))
            for index, path in enumerate(self.files.paths):
                loop = run(["losetup", "--find", "--show", "--direct-io=on", path]).strip()
                self.cleaning.callback(detach, loop, path)
                (names / f"loop{index}").symlink_to(loop)
            self.member = str(names / "loop{}")
        return self.member


def comparison(options):
    table = Comparison("completion", f"RAID 0 of {COUNT}, 4 KiB, one core, by completion mode: thousands of requests "
                       "per second, cores used, median latency in microseconds:", options, [
        column for mode in MODES for column in (
            Column(f"{mode}, k IOPS", lambda r, mode=mode: r[mode]["iops"] / 1e3),
            Column(f"{mode}, cores", lambda r, mode=mode: r[mode]["cores"], 2),
            Column(f"{mode}, us", lambda r, mode=mode: r[mode]["latency_ns"]["p50"] / 1e3, 1))])
    loops = Loops().bench
    kinds = {f"answers after {us} us": lambda seconds, us=us, **more: bench(
        seconds, member=f"null:64g,latency={us}us", **more) for us in (10, 100)}
    for name, subject in [*kinds.items(), ("loop devices over memory", loops)]:
        for depth in (1, 32):
            for rw in ("randread", "randwrite"):
                table.row(f"{name}, {rw[4:]}, QD {depth}", **{
                    mode: subject(options.seconds, cores=[CORE], level=0, count=COUNT, rw=rw, qd=depth,
                                  completion=mode, overwrite=True) for mode in MODES})
    return table
