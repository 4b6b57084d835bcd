"""Two volumes on one set of drives."""
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


def cases():
    for first, second, drives in [(0, 5, 4), (10, 0, 4), (5, 10, 4), (1, 0, 2)]:
        name = f"RAID {first} and RAID {second} on the same drives"
        yield Case("volumes", name, "ours", drives, ours(first, second), drive_bytes=DRIVE_BYTES, long=first == 10)
        yield Case("volumes", name, "md's", drives, mds(first, second), drive_bytes=DRIVE_BYTES,
                   long=first in (5, 1))
