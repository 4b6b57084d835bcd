#!/usr/bin/env python3
"""Torture with real programs: faults hit the drives and the server of arrays under load, and every byte is checked.

usage: scripts/torture/main.py [--rounds N] [--seed S] [--short] [--binary FILE]

Each round follows from its seed alone, which is printed first: level, drives (files, loop devices, files on
FUSE), data threads, load, and faults. Three kinds of rounds alternate (seed modulo 4):

  0, 2  block load: a client that remembers every acknowledged write (3 connections, 20 requests in flight on
        each) on one half, fio with verification (3 connections, 66 requests in flight together) on the other; drives
        fail, shrink, hang and vanish, spares take over, drives come back; the server is killed with -9
        and started again, sometimes in the middle of a rebuild
  1     a file system, ext4 or xfs, with files that are synchronised one by one; a drive is hurt, the server
        killed; what was synchronised must be there, and fsck must find nothing
  3     memory is short: server and hog share little memory (cgroup v2 or v1), with a file system on the volume; the
        hog dirties pages and takes the remaining memory. Without CAP_SYS_RESOURCE the server cannot tell the kernel not
        to wait for its own I/O, and then the hog is alone in the group; without cgroups the hog has a ulimit. The
        output says which of these was used

At the end of each round no data may be missing, a scrub must find nothing, and the server must end in order.
Each round has a time limit, and processes are ended by their numbers. All rounds but block rounds over files need root;
the output says what is missing. A round that fails prints its seed and the command that repeats it. The last line is
'N passed, N failed'; the exit code is 1 if a round failed.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from disk import Disk, Files, Group, hog_rounds, protect, start_hog  # noqa: E402
from lab import MIB, Lab, Server, end_process, find_program, tied  # noqa: E402
from ledger import Failed, Ledger  # noqa: E402

ROUND_SECONDS = 240
PROGRAMS = ["setpriv", "fio", "nbdkit", "nbdfuse", "fusermount3", "losetup", "mkfs.ext4", "e2fsck", "mkfs.xfs",
            "xfs_repair"]
SHAPES = [(1, 2), (5, 3), (5, 4), (10, 4)]
VERIFY = [["--verify=crc32c"], ["--verify=md5"], ["--verify=xxhash"], ["--verify=sha1"],
          ["--verify=pattern", "--verify_pattern=0xdeadbeef"]]


class Round:
    """One array and its faults."""

    def __init__(self, lab, seed, short, kinds, work):
        self.lab, self.seed, self.short, self.work = lab, seed, short, work
        size = SIZES[work]
        self.chance = random.Random(f"torture {seed}")
        self.level, self.members = self.chance.choice(SHAPES)
        self.shards = self.chance.choice([1, 2])
        self.drives = [lab.drive(number, self.chance.choice(kinds), size) for number in range(self.members + 1)]
        self.in_use = list(self.drives[: self.members])
        self.spares = list(self.drives[self.members :])
        options = []
        if self.level != 1:
            options += ["--chunk", self.chance.choice(["16k", "64k", "128k"])]
        protections = lab.protections()
        if self.level == 5:
            options += ["--write-hole", self.chance.choice(protections)]
        elif "bitmap" in protections and self.chance.random() < 0.5:
            options += ["--write-hole", "bitmap"]
        self.options = options
        self.said = []
        self.server = None
        lab.create(self.level, self.in_use, options)

    def tell(self, words):
        self.said.append(words)

    def state(self):
        """The server's state, for the message of a failure."""
        if self.server is None or self.server.process.poll() is not None:
            return "; no server runs"
        try:
            status = self.server.status()
        except (Failed, ValueError) as error:
            return f"; the server does not say its state: {error}"
        errors = {name: count for name, count in status["counters"].items() if "errors" in name}
        volume = status["volumes"][0]
        # There may be thousands of events about single blocks.
        rare = [one for one in self.server.events if one["kind"] not in ("unrecoverable", "read-repaired")]
        events = [one["text"] for one in rare[-8:]]
        return f"; volume {volume['state']}, job {volume['job']}, {errors}, last events {events}"

    def describe(self):
        kinds = ",".join(drive.kind for drive in self.drives)
        return f"RAID {self.level} of {self.members} ({kinds}) {' '.join(self.options)} --shards {self.shards}"

    def serve(self, cgroup=None, stale=()):
        more = ["--shards", str(self.shards), "--deadline", str(DEADLINE_SECONDS[self.work])]
        server = Server(self.lab, [*stale, *self.in_use, *self.spares], more, cgroup)
        protect(server)
        self.server = server

    def start(self, cgroup=None):
        self.serve(cgroup)
        for spare in self.spares:
            self.server.order("add-spare", spare.spec, "--force", check=False)

    def hurt(self):
        """Hurts a drive, waits until it has failed, and returns the drive and how it was hurt."""
        victim = self.chance.choice(self.in_use)
        way = self.chance.choice(victim.ways())
        self.tell(f"{way} D{victim.number}")
        since = len(self.server.events)
        victim.hurt(way)
        if way == "fail":
            self.server.order("fail", f"D{victim.number}")
        self.server.wait_event("member-failed", "", 40, since)
        # If the server crashed before that, the array would need this drive at its next start.
        self.server.wait_event("failure-recorded", "", 40, since)
        self.in_use.remove(victim)
        return victim, way, since

    def rebuilt(self, since):
        """Waits until a spare has taken the drive's place."""
        self.server.wait_event("job-ended", "rebuild finished", 60, since)
        self.in_use += self.spares
        self.spares = []
        self.server.wait_optimal()

    def back(self, victim, way):
        """Brings the drive that was hurt back, with its content, as a spare."""
        victim.mend(way)
        self.server.order("remove", f"D{victim.number}", check=False)
        self.server.order("add-spare", victim.spec, "--force")
        self.spares.append(victim)
        self.tell(f"D{victim.number} is back as a spare")

    def crash(self):
        """Kills the server. The caller starts it again."""
        self.tell("kill -9")
        for drive in self.drives:
            # The kernel keeps a process alive whose I/O hangs.
            drive.release()
        self.server.kill()
        self.lab.wait_released(self.in_use + self.spares)

    def file_system(self):
        """The kind of file system; xfs needs 300 MiB."""
        kind = self.chance.choice(["ext4", "xfs"])
        return kind if self.server.volume()["size_bytes"] > 310 * MIB else "ext4"

    def may_crash_degraded(self):
        """Whether a crash while degraded is allowed: a RAID 5 without a log refuses to start after it."""
        return self.level != 5 or "log" in self.options

    def finish(self):
        self.server.wait_optimal()
        self.server.order("scrub", "data", "--wait")
        self.server.stop()


def fio(lab, server, chance, low, size, seconds):
    """Starts fio, which writes and verifies a part of the volume again and again."""
    jobs, depth = 3, 22
    part = size // jobs // (64 << 10) * (64 << 10)
    verify = chance.choice(VERIFY)
    words = [find_program("fio"), "--ioengine=nbd", "--thread", "--group_reporting", "--output-format=terse",
             "--name=torture", f"--uri={server.uri()}", f"--numjobs={jobs}", f"--offset={low}",
             f"--offset_increment={part}", f"--size={part}", f"--iodepth={depth}", "--verify_fatal=1",
             "--do_verify=1", f"--rw={chance.choice(['randwrite', 'write'])}", f"--randseed={chance.randrange(1 << 30)}",
             chance.choice(["--bs=4k", "--bs=16k", "--bsrange=4k-64k"]), "--time_based", f"--runtime={seconds}", *verify]
    process = subprocess.Popen(tied(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, cwd=lab.folder)
    lab.on_exit(lambda: end_process(process))
    return process


def fio_ends_well(process):
    try:
        said, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired as error:
        raise Failed("fio does not come to its end") from error
    if process.returncode != 0:
        raise Failed(f"fio ends with {process.returncode}: {said[-800:]}")


def block_round(this):
    """See the module's prose: kinds 0 and 2."""
    lab, chance, short = this.lab, this.chance, this.short
    this.start()
    size = this.server.volume()["size_bytes"]
    half = size // 2 // MIB * MIB
    blocks = min(half // 4096, 2048 if short else 8192)
    ledger = Ledger(this.seed, 0, blocks, 3, 20)
    ledger.start(this.server.nbd, "data")
    tester = fio(lab, this.server, chance, half, min(half, (6 if short else 24) * MIB), 2 if short else 8)
    ledger.wait_for(200, 60)
    victim, way, since = this.hurt()
    if this.may_crash_degraded() and chance.random() < 0.5:
        # In the middle of the rebuild, or just after it.
        fio_ends_well(tester)
        tester = None
        this.crash()
        ledger.crashed()
        this.in_use += this.spares
        this.spares = []
        # The content of that drive is old, and must not be read.
        stale = [victim] if way in ("fail", "hang") and chance.random() < 0.5 else []
        if stale:
            this.tell(f"D{victim.number} is there again")
        this.serve(stale=stale)
        ledger.verify(this.server.nbd, "data")
        this.server.wait_optimal()
        ledger.start(this.server.nbd, "data")
    else:
        this.rebuilt(since)
    ledger.wait_for(200, 60)
    this.back(victim, way)
    if tester:
        fio_ends_well(tester)
    if not short or chance.random() < 0.5:
        victim, way, since = this.hurt()
        this.rebuilt(since)
        this.back(victim, way)
    ledger.wait_for(200, 60)
    this.crash()
    ledger.crashed()
    this.serve()
    # The content must be right as soon as it is served, whether or not a resync has got there.
    ledger.verify(this.server.nbd, "data")
    this.server.wait_optimal()
    ledger.start(this.server.nbd, "data")
    ledger.wait_for(200, 60)
    ledger.stop()
    ledger.verify(this.server.nbd, "data")
    this.finish()
    return f"{ledger.writes} writes"


def files_round(this):
    """See the module's prose: kind 1."""
    chance = this.chance
    this.start()
    kind = this.file_system()
    this.tell(kind)
    disk = Disk(this.lab, this.server, kind, make=True)
    files = Files(this.seed, 4)
    for _ in range(1 if this.short else 3):
        files.start(disk.mounted_at)
        files.wait_for(10, 60)
        victim, way, since = this.hurt()
        files.wait_for(20, 60)
        if not this.may_crash_degraded() or chance.random() < 0.5:
            this.rebuilt(since)
            this.back(victim, way)
            victim = None
        files.before_kill()
        this.crash()
        files.stop(crashed=True)
        if victim:
            this.in_use += this.spares
            this.spares = []
        disk.tear()
        this.serve()
        disk = Disk(this.lab, this.server, kind, make=False)
        files.verify(disk.mounted_at)
        disk.check()
        disk.mount()
        this.server.wait_optimal()
        if victim:
            this.back(victim, way)
    disk.check()
    disk.tear()
    this.finish()
    return f"{files.written} files written"


def memory_round(this):
    """See the module's prose: kind 3."""
    group = Group(this.lab)
    this.start(group if group.with_server else None)
    kind = this.file_system()
    this.tell(f"{kind}, {group.words}")
    disk = Disk(this.lab, this.server, kind, make=True)
    files = Files(this.seed, 2)
    files.start(disk.mounted_at)
    end = time.monotonic() + (1 if this.short else 12)
    hogs = wrote = 0
    while time.monotonic() < end:
        hog = start_hog(this.lab, group, disk.mounted_at, 1 if this.short else 6)
        try:
            hog.wait(60)
        except subprocess.TimeoutExpired as error:
            raise Failed("the hog can neither write nor be killed: memory and the volume wait for each other") from error
        hogs += 1
        wrote += hog_rounds(this.lab)
        if this.server.process.poll() is not None:
            raise Failed(f"the server has ended: {this.server.words()}")
    # The other user of the volume must still make progress.
    files.wait_for(5, 60)
    victim, way, since = this.hurt()
    this.rebuilt(since)
    files.stop()
    files.verify(disk.mounted_at)
    victim.mend(way)
    disk.check()
    disk.tear()
    this.finish()
    return f"{hogs} hogs wrote {wrote} times, {files.written} files written"


# Sizes of a drive. xfs needs 300 MiB: two drives of files_round's size are enough, or three of memory_round's.
SIZES = {block_round: 64 * MIB, files_round: 168 * MIB, memory_round: 112 * MIB}
# mkfs trims everything, and for each chunk a hole is punched into a file. A thousand of these requests queue up at one
# file, and each may take the kernel some milliseconds.
DEADLINE_SECONDS = {block_round: 2, files_round: 10, memory_round: 10}


def one_round(seed, short, binary, kinds, work):
    """Runs the round of a seed, prints its result, and returns whether it passed."""
    folder = tempfile.mkdtemp(prefix="fullstripe-torture-")
    lab = Lab(folder, binary)
    said, began = "", time.monotonic()
    this = None
    try:
        signal.alarm(ROUND_SECONDS)
        this = Round(lab, seed, short, kinds, work)
        said = work(this)
        holds = True
    except (Failed, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        said, holds = f"{type(error).__name__}: {error}{this.state() if this else ''}", False
    finally:
        signal.alarm(0)
        told_to_end = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for drive in this.drives if this else []:
            drive.release()
        troubles = lab.clean()
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGTERM, told_to_end)
    if troubles and holds:
        said, holds = f"cannot clean up: {troubles}", False
    what = f"{this.describe()}; {'; '.join(this.said)}" if this else "no array"
    print(f"seed {seed}: {'holds' if holds else 'FAILED'}, {time.monotonic() - began:.1f} s: {what}: {said}", flush=True)
    return holds


def interrupted(*_):
    raise KeyboardInterrupt


def too_long(*_):
    raise Failed(f"the round takes more than {ROUND_SECONDS} s")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="number of rounds (10)")
    parser.add_argument("--seed", type=int, help="seed of the first round; by default the time")
    parser.add_argument("--short", action="store_true", help="short rounds of about ten seconds")
    parser.add_argument("--binary", help="the program to test; by default target/release/fullstripe")
    return parser.parse_args()


def main():
    options = arguments()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    binary = os.path.abspath(options.binary or os.path.join(root, "target/release/fullstripe"))
    if not os.access(binary, os.X_OK):
        sys.exit(f"{binary} is missing: 'make build' makes it.")
    missing = [program for program in PROGRAMS if find_program(program) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} missing: 'make setup' installs what the tests need.")
    is_root, has_fuse = os.geteuid() == 0, os.access("/dev/fuse", os.R_OK | os.W_OK)
    kinds = ["file"] + ["loop"] * is_root + ["fuse"] * has_fuse
    if not is_root or not has_fuse:
        print("without root and /dev/fuse there are block rounds only, over " + ", ".join(kinds))
    works = [block_round, files_round, block_round, memory_round]
    first = options.seed if options.seed is not None else int(time.time())
    signal.signal(signal.SIGALRM, too_long)
    # So that mounts are removed.
    signal.signal(signal.SIGTERM, interrupted)
    passed = failed = 0
    for seed in range(first, first + options.rounds):
        work = works[seed % 4] if is_root and has_fuse else block_round
        print(f"seed {seed}: {work.__name__.replace('_', ' ')}", flush=True)
        if one_round(seed, options.short, binary, kinds, work):
            passed += 1
        else:
            failed += 1
            more = " --short" if options.short else ""
            print(f"again: scripts/torture/main.py --rounds 1 --seed {seed}{more}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
