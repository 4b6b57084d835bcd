"""Arrays without one of their members: lost, failed, failed and back again; the other side rebuilds them."""
from ..case import Case
from ..bench import pattern
from ..difference import require_content, require_no_wrong_rows
from ..requirement import require
from ..volume import MIB
from .common import (
    JUDGE, REDUNDANT, SLOTS, md_create, md_size, order, overwrite, require_at_rest, require_consistent, require_rebuilt,
    require_sum, said, words)

MD_SIZE_MIB = 6
LOST_SLOT = 1
# The parts that each side overwrites while the array is degraded.
PARTS = [(1 * MIB, 320 << 10), (2 * MIB + (64 << 10), 448 << 10), (5 * MIB, 256 << 10)]


def part(number):
    return pattern(20 + number, PARTS[number][1])


def written(data, number):
    return overwrite(data, part(number), PARTS[number][0])


def ours_fails_a_drive(bench, level, slots):
    """Makes a degraded array of fullstripe; returns its content."""
    chunk = ["--chunk", "64k"] if level != 1 else []
    bench.create("vol", level, *chunk, drives=slots)
    data = pattern(1, bench.volume().size)
    with bench.serve(drives=slots) as server:
        server.write(data)
        server.order("fail", bench.names[slots[LOST_SLOT]])
        server.write(part(0), PARTS[0][0])
    data = written(data, 0)
    require_content(bench.volume(), data, "the drives do not hold what was written by us")
    return data


def ours(level):
    """fullstripe loses a drive, md continues without it, fullstripe takes a new one, md finds everything in order."""
    def run(bench):
        spare = len(bench.paths) - 1
        slots = order(spare, SLOTS)
        data = ours_fails_a_drive(bench, level, slots)
        left = [drive for drive in slots if drive != slots[LOST_SLOT]]
        name = bench.file("part", part(1))
        script = f"assemble {words(left)}\nstarting $md\nsum $md\nput {name} $md {PARTS[1][0] >> 10}"
        text = yield bench.job(script, drives=left)
        require("STATE idle none" in text, f"md does something: {said(text)}")
        require_sum(text, data)
        data = written(data, 1)
        with bench.serve(drives=left) as server:
            require("degraded" in server.text(), f"not degraded: {server.text()}")
            require(server.read() == data, "we read other bytes")
            server.write(part(2), PARTS[2][0])
            server.order("add-spare", bench.spec(spare))
            server.order("rebuild", "--wait", "vol")
            server.scrub()
        data = written(data, 2)
        text = yield bench.job(JUDGE % words([*left, spare]), drives=[*left, spare])
        require_at_rest(text)
        require_consistent(text)
        require_sum(text, data)
        return f"{len(data) >> 20} MiB; rebuilt by us"

    return run


def ours_returned(level, failed_first):
    """The drive that fullstripe failed is there again when md starts."""
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        data = ours_fails_a_drive(bench, level, slots)
        back = slots[LOST_SLOT]
        left = [drive for drive in slots if drive != back]
        found = [back, *left] if failed_first else [*left, back]
        # md may take a moment to begin.
        script = f"""
speed 10
assemble {words(found)}
sum $md
writable $md
settle
settle
if md_says sync_action recover; then rebuilt $md; fi
look /sys/block/$md/md/degraded
echo DEGRADED $word
"""
        text = yield bench.job(script)
        require_sum(text, data)
        if "DEGRADED 0" in text:
            end = require_rebuilt(bench, data)
            require_no_wrong_rows(bench.volume())
            outcome = f"md rebuilt it{end}"
        else:
            with bench.serve() as server:
                require("degraded" in server.text(), f"md and we disagree: {said(text)}: {server.text()}")
                require(server.read() == data, "we read other bytes")
            outcome = "stays out"
        require_content(bench.volume(), data, "the drives hold something else")
        return outcome

    return run


def md_fails_a_drive(bench, level, slots):
    size = md_size(level, len(slots), MD_SIZE_MIB)
    data = pattern(3, size)
    script = md_create(level, slots, MD_SIZE_MIB)
    script += f"""
idle $md
put {bench.file('data', data)} $md 0
mdadm -q -f /dev/$md $d{slots[LOST_SLOT]}
while_md degraded 0
put {bench.file('part', part(0))} $md {PARTS[0][0] >> 10}
"""
    yield bench.job(script, drives=slots)
    data = written(data, 0)
    require_content(bench.volume(), data, "the drives do not hold what was written by md")
    return data


def mds(level):
    """md loses a drive, fullstripe continues while it is back, md takes a new one, fullstripe finds everything in
    order."""
    def run(bench):
        spare = len(bench.paths) - 1
        slots = order(spare, SLOTS)
        data = yield from md_fails_a_drive(bench, level, slots)
        with bench.serve(drives=slots) as server:
            require("degraded" in server.text(), f"not degraded: {server.text()}")
            require(server.read() == data, "we read other bytes")
            server.write(part(1), PARTS[1][0])
        data = written(data, 1)
        left = [drive for drive in slots if drive != slots[LOST_SLOT]]
        script = f"""
assemble {words(left)}
sum $md
writable $md
settle
speed 10
mdadm -q --add /dev/$(container) $d{spare}
rebuilt $md
check $md
"""
        text = yield bench.job(script, drives=[*left, spare])
        require_sum(text, data)
        require_consistent(text)
        end = require_rebuilt(bench, data, [*left, spare])
        return f"{len(data) >> 20} MiB; stays out when it is back; rebuilt by md{end}"

    return run


def cases():
    for level, members in REDUNDANT.items():
        yield Case("degraded", f"RAID {level}, a drive lost", "ours", members + 1, ours(level))
        yield Case("degraded", f"RAID {level}, a drive lost and back", "md's", members + 1, mds(level))
    for level, members in REDUNDANT.items():
        for failed_first in (False, True):
            when = "first" if failed_first else "last"
            yield Case("degraded", f"RAID {level}, the failed drive back, found {when}", "ours", members,
                       ours_returned(level, failed_first), long=level == 10)
