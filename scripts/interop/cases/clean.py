"""Arrays that were stopped in order, handed over and handed back: every level, every chunk size, both sector sizes."""
from ..case import Case
from ..bench import pattern
from ..requirement import require
from ..volume import MIB
from .common import (
    FOUND, LEVELS, SLOTS, md_create, md_size, order, overwrite, require_at_rest, require_consistent, require_served,
    require_sum, require_volume, said, words)

CHUNKS_KIB = [4, 8, 16, 32, 64, 128]
# The part that the second side overwrites.
PART = (3 * MIB, 2 * MIB + 64 * 1024)
MD_SIZE_MIB = 6

MD_JUDGES = """
assemble %s
starting $md
sum $md
%s
"""


def ours(level, chunk_kib, options=()):
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        chunk = ["--chunk", f"{chunk_kib}k"] if level != 1 else []
        bench.create("vol", level, *chunk, *options, drives=slots)
        size = bench.volume().size
        data = pattern(1, size)
        with bench.serve() as server:
            server.write(data)
        require_volume(bench, data)
        part = pattern(2, PART[1])
        name = bench.file("part", part)
        found = words(order(len(bench.paths), FOUND))
        check = "check $md" if level else ""
        job = bench.job(MD_JUDGES % (found, f"{check}\nput {name} $md {PART[0] >> 10}"))
        text = yield job
        require_sum(text, data)
        if level:
            require_at_rest(text)
            require_consistent(text)
        before, data = data, overwrite(data, part, PART[0])
        require_volume(bench, data, by="md", earlier=[before])
        require_served(bench, data)
        return f"{size >> 20} MiB"

    return run


def mds(level, chunk_kib, policy=""):
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        data = pattern(3, md_size(level, len(slots), MD_SIZE_MIB))
        name = bench.file("data", data)
        wait = "idle $md" if level else ""
        text = yield bench.job(md_create(level, slots, MD_SIZE_MIB, chunk_kib, policy) + f"{wait}\nput {name} $md 0")
        require("NOT CREATED" not in text, said(text))
        require(bench.volume().size == len(data), f"the volume has {bench.volume().size} bytes")
        require_volume(bench, data, by="md")
        part = pattern(4, PART[1])
        require_served(bench, data, more=(PART[0], part))
        before, data = data, overwrite(data, part, PART[0])
        require_volume(bench, data, earlier=[before])
        found = words(order(len(bench.paths), FOUND))
        text = yield bench.job(MD_JUDGES % (found, "check $md" if level else ""))
        require_sum(text, data)
        if level:
            require_at_rest(text)
            require_consistent(text)
        return f"{len(data) >> 20} MiB"

    return run


def cases():
    for level, drives in LEVELS.items():
        for at, chunk_kib in enumerate(CHUNKS_KIB if level != 1 else [64]):
            chunk = f", chunk {chunk_kib} KiB" if level != 1 else ""
            # In CI only two or three chunk sizes of each level.
            long = level != 1 and at in ((1, 2, 3) if level == 5 else (1, 2, 3, 4))
            name = f"RAID {level}{chunk}"
            yield Case("clean", name, "ours", drives, ours(level, chunk_kib), long=long)
            yield Case("clean", name, "md's", drives, mds(level, chunk_kib), long=long)
    for level, drives in LEVELS.items():
        name = f"RAID {level}, sectors of 4096 bytes"
        yield Case("sectors", name, "ours", drives, ours(level, 64), 4096, long=level == 0)
        yield Case("sectors", name, "md's", drives, mds(level, 64), 4096, long=level in (0, 1))
    yield Case("clean", "RAID 5, no log", "ours", 3, ours(5, 64, ["--write-hole", "off"]))
    yield Case("clean", "RAID 5, with a log", "md's", 4, mds(5, 64, "--consistency-policy=ppl"))
