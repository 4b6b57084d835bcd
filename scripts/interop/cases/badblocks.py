"""The bad-block log: one side finds what the other has recorded, answers with errors where no other member has the
data, and removes an entry from the record when its blocks are written.
"""
import os
import re
import subprocess

from .. import faulty
from ..case import Case
from ..bench import LIMIT_SECONDS, pattern
from ..requirement import require
from ..volume import MIB
from .common import (
    REDUNDANT, SLOTS, md_create, md_size, order, overwrite, require_consistent, require_sum, said, words)

MD_SIZE_MIB = 6
SECTOR = 512
BLOCK = 4096
# Sectors of a member: a range that is bad in one slot, and in two rows ranges that are bad in two slots, so that their
# data is lost.
ALONE = (1050, 20)
BOTH = [(4096, 16), (8192, 8)]

# What mdadm reads of the log on each drive, and what the kernel knows of the bad blocks of a running array.
BAD = """
for drive in $drives; do
    echo "@@BAD $drive"
    mdadm --examine-badblocks $drive 2> /dev/null
    echo "@@"
done
"""
KNOWN = """
for drive in $drives; do
    list=/sys/block/$md/md/dev-${drive##*/}/bad_blocks
    if [ -e $list ]; then echo "KNOWN $drive" $(cat $list); fi
done
"""
# Reads the whole volume, with zeros in place of blocks that cannot be read.
SALVAGE = """
dd if=/dev/$md of=%s bs=4096 conv=noerror,sync 2> /dev/null
sync
"""


def require_same_log(bench, text, count):
    """The log that mdadm prints for each drive equals the log that fullstripe reads there: `count` ranges in all."""
    ours = recorded(bench)
    listed = re.findall(r"^@@BAD (\S+)\n(.*?)^@@", text, flags=re.MULTILINE | re.DOTALL)
    require(listed, f"the job did not end: {said(text)}")
    for drive, lines in listed:
        theirs = sorted((int(at), int(length)) for at, length in re.findall(r"(\d+) for (\d+) sectors", lines))
        bench.fields_compared += 1
        require(theirs == ours.get(drive, []), f"{drive}: mdadm lists {theirs}, we {ours.get(drive)}")
    found = sum(len(ranges) for ranges in ours.values())
    require(found == count, f"{found} ranges are on record, and not {count}: {ours}")


def recorded(bench):
    """Bad sectors of each drive by the newest record, with adjacent ranges joined."""
    record = bench.record()
    found = {}
    for entry in record["bad_blocks"]:
        ranges = found.setdefault(record["disks"][entry["row"]]["serial"], [])
        ranges.append((entry["offset_bytes"] // SECTOR, entry["length_bytes"] // SECTOR))
    return {serial: sorted(ranges) for serial, ranges in found.items()}


def lost(volume, slots, begin, end):
    """Bytes of the volume that are lost if the members' bytes from `begin` to `end` are bad in all `slots` (for RAID 1
    and 10 a pair)."""
    found = []
    for row in range(begin // volume.chunk, -(-end // volume.chunk)):
        first, last = max(begin, row * volume.chunk), min(end, (row + 1) * volume.chunk)
        data = volume.data_slots(row)
        for column, slot in enumerate(data):
            if slot in slots:
                at = (row * len(data) + column) * volume.chunk - row * volume.chunk
                found.append((at + first, at + last))
    return found


def span(place):
    """The first sector, and the one after the last."""
    return place[0], place[0] + place[1]


def without(data, ranges):
    """`data` with zeros in place of the blocks that these ranges touch."""
    for begin, end in ranges:
        begin, end = begin // BLOCK * BLOCK, -(-end // BLOCK) * BLOCK
        data = overwrite(data, bytes(end - begin), begin)
    return data


def we_salvage(bench, server):
    """Reads everything through fullstripe, with zeros in place of errors."""
    target = os.path.join(bench.folder, "salvaged")
    command = ["qemu-img", "convert", "--salvage", "-q", "-f", "raw", "-O", "raw", server.uri("vol"), target]
    subprocess.run(command, check=True, timeout=LIMIT_SECONDS, capture_output=True)


def require_salvaged(who, bench, data, ranges):
    with open(os.path.join(bench.folder, "salvaged"), "rb") as file:
        found = file.read()
    wanted = without(data, ranges)
    wrong = [at for at in range(0, len(data), BLOCK) if found[at : at + BLOCK] != wanted[at : at + BLOCK]]
    require(not wrong and len(found) == len(data),
            f"{who} other bytes than there are, or no error, at {wrong[:9]}; lost are {ranges}")


def written(data, place, seed):
    return overwrite(data, pattern(seed, place[1] - place[0]), place[0])


def row_of(volume, begin):
    """The bytes of the volume in the row that contains the members' byte `begin`."""
    length = len(volume.data_slots(0)) * volume.chunk
    at = begin // volume.chunk * length
    return at, at + length


# Simulates a failed write: mdmon has to record the bad blocks before md continues.
RECORD = """
echo "%d %d" > /sys/block/$md/md/dev-${drive##*/}/unacknowledged_bad_blocks
"""


def mds(level):
    """md records bad blocks and writes some; fullstripe reads the rest and writes it; md reads that."""
    pair = (0, 2) if level == 5 else (0, 1)

    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        data = pattern(3, md_size(level, len(slots), MD_SIZE_MIB))
        marks = [(0, ALONE)] + [(slot, place) for place in BOTH for slot in pair]
        script = md_create(level, slots, MD_SIZE_MIB)
        script += f"idle $md\nput {bench.file('data', data)} $md 0\n"
        script += "until_md array_state clean\n"
        script += "".join(f"drive=$d{slots[slot]}\n{RECORD % place}" for slot, place in marks)
        # mdmon checks the array when it is written to.
        script += "dd if=/dev/$md of=/dev/$md bs=4096 count=1 conv=notrunc,fsync 2> /dev/null\n"
        text = yield bench.job(f"{script}settle\n{KNOWN}stop_arrays\n{BAD}")
        require("NOT CREATED" not in text, said(text))
        require_same_log(bench, text, len(marks))
        volume = bench.volume()
        gone = [lost(volume, pair, *(at * SECTOR for at in span(place))) for place in BOTH]
        lost_bytes = sum(end - begin for part in gone for begin, end in part)
        rows = [row_of(volume, at * SECTOR) for at, _ in [ALONE, *BOTH]]
        old, data = data, written(written(data, rows[0], 4), rows[2], 4)
        salvaged = bench.file("salvaged", b"")
        script = f"assemble $drives\n{KNOWN}"
        for at, end in (rows[0], rows[2]):
            name = bench.file(f"row{at}", data[at:end])
            script += f"put {name} $md {at >> 10} && echo WRITTEN {at} || echo REFUSED {at}\n"
        # Drops the kernel's cache, which holds what md could not write.
        script += f"settle\nblockdev --flushbufs /dev/$md\n{SALVAGE % salvaged}"
        text = yield bench.job(f"{script}stop_arrays\n{BAD}")
        require(f"WRITTEN {rows[0][0]}\n" in text, f"md does not write what one slot lacks: {said(text)}")
        refused = f"REFUSED {rows[2][0]}\n" in text
        require(refused == (level == 5), f"md writes what two slots lack, or does not: {said(text)}")
        if refused:
            # Nothing of it was written: the block next to the lost ones in the same row is unchanged.
            for begin, end in lost(volume, range(len(slots)), *(at * SECTOR for at in span(BOTH[1]))):
                data = overwrite(data, old[begin:end], begin)
        else:
            gone = gone[:1]
        require_salvaged("md reads", bench, data, sum(gone, []))
        require_same_log(bench, text, len(gone) * len(pair))
        with bench.serve() as server:
            for number, row in enumerate(rows[1 : 1 + len(gone)]):
                we_salvage(bench, server)
                require_salvaged("we read", bench, data, sum(gone[number:], []))
                data = written(data, row, 5)
                server.write(data[slice(*row)], row[0])
            require(server.read() == data, "we read other bytes when all is written")
            server.scrub()
        text = yield bench.job(f"assemble $drives\nsum $md\ncheck $md\nstop_arrays\n{BAD}")
        require_sum(text, data)
        require_consistent(text)
        require_same_log(bench, text, 0)
        who = "md refuses to write them, we do" if refused else "md writes them, and we"
        return f"{len(marks)} ranges, {lost_bytes} bytes lost until they are written: {who}"

    return run


def ours(level):
    """fullstripe rebuilds from a drive with an unreadable block; md honours the record of it, and fullstripe does
    too."""
    bad, lost_slot = 2 * MIB + 8 * BLOCK, 1

    def run(bench):
        spare = len(bench.paths) - 1
        slots = order(spare, SLOTS)
        bench.create("vol", level, *(["--chunk", "64k"] if level != 1 else []), drives=slots)
        data = pattern(1, bench.volume().size)
        with bench.serve(drives=slots) as server:
            server.write(data)
            server.order("fail", bench.names[slots[lost_slot]])
        left = [drive for drive in slots if drive != slots[lost_slot]]
        with faulty.unreadable(bench.paths[left[0]], bad, bad + SECTOR) as shown:
            specs = [f"{shown},serial={bench.names[left[0]]}", *bench.specs(left[1:])]
            with bench.serve_specs(specs) as server:
                server.order("add-spare", bench.spec(spare))
                server.order("rebuild", "--wait", "vol")
        volume = bench.volume()
        require(all(volume.in_sync), f"it is not rebuilt: {volume.report}")
        gone = lost(volume, (0, lost_slot), bad, bad + BLOCK)
        row = row_of(volume, bad)
        salvaged = bench.file("salvaged", b"")
        script = f"""
assemble {words([*left, spare])}
{KNOWN}
sum $md
writable $md
mdadm -q -f /dev/$md $d{left[0]}
while_md degraded 0
settle
{SALVAGE % salvaged}
stop_arrays
{BAD}
"""
        text = yield bench.job(script, drives=[*left, spare])
        # The sectors are only recorded as bad: with all drives there md can read everything.
        require_sum(text, data)
        require_same_log(bench, text, 1)
        require_salvaged("md reads", bench, data, gone)
        drives = [*left[1:], spare]
        with bench.serve(drives=drives) as server:
            we_salvage(bench, server)
            require_salvaged("we read", bench, data, gone)
            # What the other drive lacks cannot be rebuilt.
            server.order("add-spare", "--force", bench.spec(left[0]))
            server.order("rebuild", "--wait", "vol")
            we_salvage(bench, server)
            require_salvaged("rebuilt, we read", bench, data, gone)
            data = written(data, row, 6)
            server.write(data[slice(*row)], row[0])
            require(server.read() == data, "we read other bytes when it is written")
            server.scrub()
        drives = [*left, spare]
        text = yield bench.job(f"assemble {words(drives)}\nsum $md\ncheck $md\nstop_arrays\n{BAD}", drives=drives)
        require_sum(text, data)
        require_same_log(bench, text, 0)
        require_consistent(text)
        return f"{sum(b - a for a, b in gone)} bytes lost until they are written"

    return run


def cases():
    for level, members in REDUNDANT.items():
        name = f"RAID {level}, bad blocks on record"
        if faulty.possible():
            yield Case("bad", name, "ours", members + 1, ours(level), long=level != 5)
        yield Case("bad", name, "md's", members, mds(level), long=level != 5)
