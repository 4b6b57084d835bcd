"""The writer died or the power was cut in the middle of writes: the other side restores redundancy."""
import os
import subprocess
import time

from ..case import Case
from ..bench import pattern
from ..difference import require_content, require_no_wrong_rows
from ..log import newest_units, spoil_logged_parity
from ..requirement import require
from ..volume import MIB
from .common import (
    FOUND, JUDGE, LEVELS, SLOTS, md_create, md_size, order, require_at_rest, require_consistent,
    require_served, require_sum, said, words)

SECTOR = 512
WRITES_BEFORE_DEATH = 200
PATIENCE_SECONDS = 30
MD_SIZE_MIB = 6
# The byte that the dying writer writes, until it dies.
NEW = 0x5A
# Rows whose redundancy is overwritten before the other side gets the drives: a resync has to visit every row.
SPOILED_ROWS = [1, 7]


def die_in_writes(bench, server, sizes, at, length=None):
    """Kills the server while fio writes from `at` on, at most `length` bytes."""
    before = server.status()["counters"]["writes"]
    with open(os.path.join(bench.folder, "fio.log"), "w") as out:
        writer = subprocess.Popen(
            ["fio", "--name=w", "--ioengine=nbd", f"--uri={server.uri('vol')}", "--rw=randwrite",
             f"--bsrange={sizes}", "--iodepth=32", f"--offset={at}", f"--buffer_pattern={NEW}", "--time_based",
             "--runtime=20", *([f"--size={length}"] if length else [])],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=bench.folder)
        end = time.monotonic() + PATIENCE_SECONDS
        while server.status()["counters"]["writes"] < before + WRITES_BEFORE_DEATH and time.monotonic() < end:
            time.sleep(0.02)
        server.kill()
        try:
            writer.wait(timeout=20)
        except subprocess.TimeoutExpired:
            writer.kill()
            writer.wait()


def require_old_or_new(found, old, new, at, most=None):
    """Everything before `at` is unchanged; from `at` on, each sector is old or new."""
    require(found[:at] == old[:at], "what was flushed is not there")
    count = 0
    for sector in range(at, len(found), SECTOR):
        part = slice(sector, sector + SECTOR)
        if found[part] != old[part]:
            require(found[part] == new[part], f"the sector at byte {sector} is neither old nor new")
            count += 1
    require(count > 10 or most == 0, f"only {count} sectors were written")
    return count


def spoil(volume):
    for row in SPOILED_ROWS:
        volume.write(volume.redundant_slot(row), row * volume.chunk, pattern(9, 4096))


def ours(level, policy=(), sizes="4k-64k"):
    def run(bench):
        chunk = ["--chunk", "64k"] if level != 1 else []
        bench.create("vol", level, *policy, *chunk)
        volume = bench.volume()
        old, new = pattern(1, volume.size), bytes([NEW]) * volume.size
        at = volume.size // 2 & -MIB
        with bench.serve() as server:
            server.write(old)
            die_in_writes(bench, server, sizes, at)
        if level:
            require(bench.volume().report["dirty"], "the record says clean")
            spoil(volume)
        content = bench.volume().content()
        text = yield bench.job(JUDGE % words(order(len(bench.paths), FOUND)) if level else "assemble $drives\nsum $md")
        if level:
            require("STATE resync " in text or "STATE idle 0" in text, f"md does not resync: {said(text)}")
            require_consistent(text)
        require_sum(text, content)
        written = require_old_or_new(bench.volume().content(), old, new, at)
        volume = bench.volume()
        report = volume.report
        require_no_wrong_rows(volume, f"; dirty {report['dirty']}, migration {report['migration']}, after {said(text)}")
        require_served(bench, content)
        return f"{written} sectors written before the end" + (", resynchronised" if level else "")

    return run


# The job ends in the middle of these writes, and the power is cut.
WRITER = """
(
    seed=7; count=0
    while true; do
        seed=$(( (seed * 1103515245 + 12345) & 0x7fffffff ))
        at=$(( %d + (seed >> 8) %% %d )); length=$(( (seed >> 4) %% %d + 1 ))
        dd if=%s of=/dev/$md bs=4096 skip=$at seek=$at count=$length conv=fsync,notrunc 2> /dev/null &
        count=$((count + 1))
        if [ $((count %% 8)) = 0 ]; then wait; echo $count > /tmp/written; fi
    done
) > /dev/null 2>&1 &
until look /tmp/written && [ $word -ge %d ]; do pause; done
echo WRITING
"""
MD_WRITES_BEFORE_DEATH = 40


def md_dies(bench, level, policy, blocks):
    """Yields the job after which md's array is dirty; returns the content before it, what was written, and where."""
    slots = order(len(bench.paths), SLOTS)
    size = md_size(level, len(slots), MD_SIZE_MIB)
    old, new = pattern(3, size), pattern(5, size)
    at = size // 2
    writer = WRITER % (at // 4096, (size - at) // 4096 - blocks, blocks, bench.file("new", new),
                       MD_WRITES_BEFORE_DEATH)
    wait = "idle $md" if level else ""
    script = md_create(level, slots, MD_SIZE_MIB, policy=policy)
    script += f"{wait}\nput {bench.file('old', old)} $md 0\nsync\n" + writer
    text = yield bench.job(script, cut=True)
    require("WRITING" in text, said(text))
    return old, new, at


def mds(level, policy=""):
    def run(bench):
        old, new, at = yield from md_dies(bench, level, policy, 16)
        volume = bench.volume()
        if level:
            require(volume.report["dirty"], "the record says clean")
            spoil(volume)
        content = volume.content()
        written = require_old_or_new(content, old, new, at)
        with bench.serve() as server:
            if level:
                server.order("rebuild", "--wait", "vol")
                server.scrub()
            require(server.read() == content, "we read other bytes")
        require_no_wrong_rows(bench.volume())
        text = yield bench.job(JUDGE % "$drives" if level else "assemble $drives\nsum $md")
        require_sum(text, content)
        if level:
            require_at_rest(text)
            require_consistent(text)
        return f"{written} sectors written before the end" + (", resynchronised" if level else "")

    return run


def ours_logged(sizes):
    def run(bench):
        bench.create("vol", 5, "--chunk", "64k")
        volume = bench.volume()
        old, new = pattern(1, volume.size), bytes([NEW]) * volume.size
        at = 4 * MIB
        with bench.serve() as server:
            server.write(old)
            die_in_writes(bench, server, sizes, at)
        torn = sum(not is_whole for _, is_whole in newest_units(volume))
        spoiled = spoil_logged_parity(volume)
        require(spoiled > 0, "nothing was in the log")
        require(volume.wrong_rows(), "nothing is wrong, so nothing would be proven")
        content = bench.volume().content()
        require_old_or_new(content, old, new, at)
        yield from md_starts_replayed(bench, content, torn)
        return f"{spoiled} logged writes spoiled" + (f", {torn} units torn: resynchronised" if torn else "")

    return run


def md_starts_replayed(bench, content, torn=0):
    """md starts the array without a resync, and all rows are right. md may resync if units are `torn`: kill -9 cuts a
    long write to a file in memory between two pages. md does not trust a torn log then, and neither does fullstripe."""
    text = yield bench.job(JUDGE % words(order(len(bench.paths), FOUND)))
    require("STATE idle none ppl" in text or (torn and "STATE resync " in text), f"md resyncs, or keeps no log: {said(text)}")
    require_consistent(text)
    require_sum(text, content)
    volume = bench.volume()
    require_no_wrong_rows(volume)
    require_content(volume, content, "the volume holds something else now")
    require(not volume.report["dirty"] and volume.report["migration"] is None, "the record is not clean")
    require(volume.report["write_hole_policy"].startswith("log on"), "the policy has gone")


def mds_logged(blocks):
    def run(bench):
        old, new, at = yield from md_dies(bench, 5, "--consistency-policy=ppl", blocks)
        volume = bench.volume()
        spoiled = spoil_logged_parity(volume)
        require(spoiled > 0, "nothing was in the log")
        content = volume.content()
        written = require_old_or_new(content, old, new, at)
        require(volume.report["dirty"], "the record says clean")
        with bench.serve() as server:
            text = server.text()
            require("corrected parity" in text, f"no replay: {text}")
            require("optimal" in text, f"a resync follows: {text}")
        require_no_wrong_rows(bench.volume())
        require_content(bench.volume(), content, "the volume holds something else now")
        yield from md_starts_replayed(bench, content)
        return f"{written} sectors written, {spoiled} logged writes spoiled; md agrees"

    return run


def mds_logged_and_degraded(bench):
    old, new, at = yield from md_dies(bench, 5, "--consistency-policy=ppl", 1)
    lost = 1
    slots = order(len(bench.paths), SLOTS)
    spoiled = spoil_logged_parity(bench.volume(), lost)
    drives = [drive for drive in range(len(bench.paths)) if drive != slots[lost]]
    with bench.serve("--degraded", drives=drives) as server:
        require("corrected parity" in server.text(), f"no replay: {server.text()}")
        found = server.read()
    written = require_old_or_new(found, old, new, at)
    return f"{written} sectors written, {spoiled} logged writes spoiled, slot {lost} computed"


def cases():
    for level, drives in LEVELS.items():
        policy = ", no log" if level == 5 else ""
        yield Case("dirty", f"RAID {level}{policy}, killed in writes", "ours", drives,
                   ours(level, ["--write-hole", "off"] if level == 5 else []))
    for level, drives in LEVELS.items():
        policy = ", no log" if level == 5 else ""
        yield Case("dirty", f"RAID {level}{policy}, killed in writes", "md's", drives, mds(level))
    yield Case("log", "RAID 5, killed in small writes", "ours", 4, ours_logged("4k-4k"))
    yield Case("log", "RAID 5, killed in all kinds of writes", "ours", 4, ours_logged("4k-256k"))
    yield Case("log", "RAID 5, killed in small writes", "md's", 4, mds_logged(1))
    yield Case("log", "RAID 5, killed in all kinds of writes", "md's", 4, mds_logged(64))
    yield Case("log", "RAID 5, killed, a member lost", "md's", 4, mds_logged_and_degraded)
