"""Two volumes on one set of drives."""
import re

from ..case import Case
from ..bench import pattern
from ..requirement import require
from ..volume import MIB
from .common import (
    SLOTS, md_size, order, overwrite, require_sum,
    require_volume, said, words)

DRIVE_BYTES = 16 * MIB
FIRST_MIB = 3
PART = (MIB, 256 << 10)

JUDGE_BOTH = """
assemble $drives
sum $md
%s
md=$(volume 1)
[ -n "$md" ] || echo "NOT ASSEMBLED"
detail $md
starting $md
sum $md
%s
"""


def check(level):
    return "check $md" if level else ""


def ours(first, second):
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        names = ["first", "second"]
        for name, level in zip(names, (first, second)):
            size = ["--size", f"{md_size(level, len(slots), FIRST_MIB)}"] if name == "first" else []
            bench.create(name, level, *size, drives=slots)
        data = [pattern(1 + at, bench.volume(at).size) for at in (0, 1)]
        with bench.serve() as server:
            for name, content in zip(names, data):
                server.write(content, volume=name)
        part = pattern(5, PART[1])
        put = f"put {bench.file('part', part)} $md {PART[0] >> 10}"
        text = yield bench.job(JUDGE_BOTH % (f"{check(first)}\n{put}", f"{check(second)}\n{put}"))
        for at, level in enumerate((first, second)):
            require_sum(text, data[at])
            data[at] = overwrite(data[at], part, PART[0])
            require_volume(bench, data[at], at)
        require(text.count("MISMATCHES 0\n") == sum(1 for level in (first, second) if level), said(text))
        for name, content in zip(names, data):
            require_both_served(bench, name, content)
        return f"{len(data[0]) >> 20} and {len(data[1]) >> 20} MiB"

    return run


def require_both_served(bench, name, content):
    with bench.serve() as server:
        require(server.text().count("optimal") == 2, f"not optimal: {server.text()}")
        require(server.read(name) == content, f"we read other bytes of {name}")
        if bench.volume(["first", "second"].index(name)).level:
            server.scrub(name)


def mds(first, second):
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        data = [pattern(3 + at, md_size(level, len(slots), FIRST_MIB - at)) for at, level in enumerate((first, second))]
        script = f"mdadm -q -C /dev/md/c -e imsm -n{len(slots)} {words(slots)} -R\n"
        for at, (name, level) in enumerate(zip(("first", "second"), (first, second))):
            chunk = "-c64" if level != 1 else ""
            script += f"""
mdadm -q -C /dev/md/{name} -l{level} -n{len(slots)} {chunk} --size={FIRST_MIB - at}M {words(slots)} -R
md=$(volume {at})
if [ -z "$md" ]; then echo "NOT CREATED"; exit 1; fi
{"idle $md" if level else ""}
put {bench.file(name, data[at])} $md 0
"""
        text = yield bench.job(script)
        require("NOT CREATED" not in text, said(text))
        part = pattern(6, PART[1])
        for at, name in enumerate(("first", "second")):
            require_volume(bench, data[at], at)
            require_both_served(bench, name, data[at])
            with bench.serve() as server:
                server.write(part, PART[0], name)
            data[at] = overwrite(data[at], part, PART[0])
            require_volume(bench, data[at], at)
        text = yield bench.job(JUDGE_BOTH % (check(first), check(second)))
        require_sum(text, data[0])
        require_sum(text, data[1])
        require(text.count("MISMATCHES 0\n") == sum(1 for level in (first, second) if level), said(text))
        return f"{len(data[0]) >> 20} and {len(data[1]) >> 20} MiB"

    return run


# md gets the remaining drives: prints which volumes it runs, and the state of the second one.
LEFT = """
for found in %s; do mdadm -q -I $found; done
for at in 0 1; do
    md=$(volume $at)
    word=none
    if [ -n "$md" ]; then look /sys/block/$md/md/array_state; fi
    echo "VOLUME $at $word"
done
sum $md
put %s $md %d
"""


def require_waiting(bench, data, drives=None, options=()):
    """fullstripe serves the second volume, and says what the first one waits for."""
    with bench.serve(*options, drives=drives) as server:
        require("not serving first" in server.text(), f"not told of the first: {server.text()}")
        require(server.read("second") == data, "we read other bytes of second")
    return server.text()


def both_again(bench, data):
    """The drive is back: the first volume trusts it, the second is rebuilt onto it, and md finds both in order."""
    require("--trust-returned-drive" in require_waiting(bench, data[1]), "we do not say how to start the first")
    with bench.serve("--trust-returned-drive") as server:
        for name, content in zip(["first", "second"], data):
            require(server.read(name) == content, f"we read other bytes of {name}")
        server.order("rebuild", "--wait", "second")
        server.scrub("second")
    level = bench.volume(1).level
    text = yield bench.job(JUDGE_BOTH % ("", check(level)))
    for at, content in enumerate(data):
        require_sum(text, content)
        require_volume(bench, content, at)
    require(text.count("MISMATCHES 0\n") == 1, said(text))


def ours_lost(level):
    """fullstripe continues with the second volume only, so does md, and then the drive is back."""
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        left = slots[:-1]
        bench.create("first", 0, "--size", f"{md_size(0, len(slots), FIRST_MIB)}", drives=slots)
        bench.create("second", level, drives=slots)
        data = [pattern(1 + at, bench.volume(at).size) for at in (0, 1)]
        part = pattern(5, PART[1])
        with bench.serve() as server:
            for name, content in zip(["first", "second"], data):
                server.write(content, volume=name)
        with bench.serve("--degraded", drives=left) as server:
            require("not serving first" in server.text(), f"not told of the first: {server.text()}")
            server.write(part, 0, "second")
        data[1] = overwrite(data[1], part, 0)
        put = bench.file("part", part), PART[0] >> 10
        text = yield bench.job(LEFT % (words(left), *put), drives=left)
        require_sum(text, data[1])
        data[1] = overwrite(data[1], part, PART[0])
        first = re.search(r"VOLUME 0 (\S+)", text)[1]
        require(first in ("none", "inactive"), f"md runs a RAID 0 that lacks a drive: {said(text)}")
        yield from both_again(bench, data)
        return "md starts the second only, too; then both with the drive"

    return run


def mds_lost(level):
    """md fails a drive in the second volume and continues; then fullstripe gets both volumes."""
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        data = [pattern(3 + at, md_size(of, len(slots), FIRST_MIB - at)) for at, of in enumerate((0, level))]
        part = pattern(6, PART[1])
        chunk = "-c64" if level != 1 else ""
        script = f"""
mdadm -q -C /dev/md/c -e imsm -n{len(slots)} {words(slots)} -R
mdadm -q -C /dev/md/first -l0 -n{len(slots)} -c64 --size={FIRST_MIB}M {words(slots)} -R
put {bench.file("first", data[0])} $(volume 0) 0
mdadm -q -C /dev/md/second -l{level} -n{len(slots)} {chunk} --size={FIRST_MIB - 1}M {words(slots)} -R
md=$(volume 1)
idle $md
put {bench.file("second", data[1])} $md 0
mdadm -q -f /dev/$md $d{slots[-1]}
while_md degraded 0
put {bench.file("part", part)} $md {PART[0] >> 10}
"""
        yield bench.job(script)
        data[1] = overwrite(data[1], part, PART[0])
        yield from both_again(bench, data)
        return "md marks the drive failed in the second only; then both with the drive"

    return run


def cases():
    for level, drives in ((5, 4), (1, 2)):
        name = f"RAID 0 and RAID {level}, a drive lost and back"
        yield Case("volumes", name, "ours", drives, ours_lost(level), drive_bytes=DRIVE_BYTES)
        yield Case("volumes", name, "md's", drives, mds_lost(level), drive_bytes=DRIVE_BYTES)
    for first, second, drives in [(0, 5, 4), (10, 0, 4), (5, 10, 4), (1, 0, 2)]:
        name = f"RAID {first} and RAID {second} on the same drives"
        yield Case("volumes", name, "ours", drives, ours(first, second), drive_bytes=DRIVE_BYTES, long=first == 10)
        yield Case("volumes", name, "md's", drives, mds(first, second), drive_bytes=DRIVE_BYTES,
                   long=first in (5, 1))
