"""Write-intent bitmaps of several regions: after a crash the other side synchronises the marked regions and no others.

Two rows with spoiled redundancy prove that: one in the marked region, which has to be repaired, and one in another
region, which has to be left alone.
"""
import copy

from ..case import Case
from ..bench import md5, pattern
from ..requirement import require
from ..volume import MIB
from .common import REDUNDANT, SLOTS, order, require_at_rest, said, words
from .crash import MD_WRITES_BEFORE_DEATH, die_in_writes
from .sync import Spoiled

REGION_BYTES = 64 * MIB
REGIONS = 3
# The last region is being written when the crash comes; the other one is at rest.
QUIET, BUSY = 1, REGIONS - 1
PIECE_BYTES = MIB
BITS_OFFSET_BYTES = 12288
NEW_BYTES = 64 << 10


def component_bytes(level):
    """Bytes of the volume on each member. Regions are parts of each member, for RAID 10 parts of the volume."""
    return REGIONS * REGION_BYTES // (2 if level == 10 else 1)


def member_bytes(level):
    return REGION_BYTES // (2 if level == 10 else 1)


def volume_bytes(level):
    return REGION_BYTES * (3 if level == 5 else 1)


def marked(volume):
    """Regions that have a bit on any member."""
    bits = [volume.read(slot, volume.component + BITS_OFFSET_BYTES, 1)[0] for slot in range(volume.members)]
    return [region for region in range(REGIONS) if any(byte >> region & 1 for byte in bits)]


def pieces(level):
    """What is written into each region before the crash: offset and data."""
    return [(region * volume_bytes(level) + 3 * MIB, pattern(70 + region, PIECE_BYTES)) for region in range(REGIONS)]


def busy_range(level):
    """The bytes of the volume that are being written when the crash comes."""
    at = BUSY * volume_bytes(level) + 8 * MIB
    return at, at + 6 * MIB


def region_of(volume, region):
    """A region as if it were the whole volume: the number of rows of a region is a multiple of the number of
    members."""
    length = member_bytes(10 if volume.level == 1 and volume.members > 2 else volume.level)
    part = copy.copy(volume)
    part.start, part.component = volume.start + region * length, length
    return part


def spoil(bench, level):
    """Spoils a row in the busy and a row in the quiet region; returns the latter."""
    first_row = lambda region: region * member_bytes(level) // bench.volume().chunk
    Spoiled(bench, first_row(BUSY) + 5)
    return Spoiled(bench, first_row(QUIET) + 7)


def require_only_marked(bench, spoiled):
    """The busy region has been repaired, the row in the quiet region has not; the row is put right after that."""
    volume = bench.volume()
    require(not region_of(volume, BUSY).wrong_rows(), "the marked region has not been synchronised")
    require(region_of(volume, QUIET).wrong_rows() == [7], "a region without a mark has been synchronised")
    spoiled.volume.write(spoiled.slot, spoiled.at, spoiled.saved)


def md_reads(level):
    places = [at >> 16 for at, _ in pieces(level)]
    return "".join(
        f"echo PIECE {at} $(dd if=/dev/$md bs=64k skip={at} count={PIECE_BYTES >> 16} 2> /dev/null | md5sum)\n"
        for at in places)


def md_reads_busy(level):
    begin, end = busy_range(level)
    return f"echo BUSY $(dd if=/dev/$md bs=1M skip={begin // MIB} count={(end - begin) // MIB} 2> /dev/null | md5sum)\n"


def require_reads(text, parts):
    for at, data in parts:
        require(f"PIECE {at >> 16} {md5(data)}" in text, f"md reads other bytes at {at}: {said(text)}")


def after_the_end(bench, level):
    """Checks that only the busy region is marked, and spoils both rows. Returns the quiet row, and the busy region's
    content."""
    volume = bench.volume()
    require(volume.report["dirty"], "the record says clean")
    require(marked(volume) == [BUSY], f"regions {marked(volume)} are marked, and not {BUSY}")
    busy = region_of(volume, BUSY)
    # A part of the region that contains everything that is being written.
    busy.component = 16 * MIB
    first = BUSY * volume_bytes(level)
    begin, end = busy_range(level)
    return spoil(bench, level), busy.content()[begin - first : end - first]


def ours(level):
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        chunk = ["--chunk", "64k"] if level != 1 else []
        size = REGIONS * volume_bytes(level)
        bench.create("vol", level, "--write-hole", "bitmap", "--size", str(size), *chunk, drives=slots)
        require(bench.volume().component == component_bytes(level), f"the size is another: {bench.volume().report}")
        parts = pieces(level)
        with bench.serve() as server:
            for at, data in parts:
                server.write(data, at)
        with bench.serve() as server:
            begin, end = busy_range(level)
            die_in_writes(bench, server, "4k-64k", begin, end - begin)
        spoiled, busy = after_the_end(bench, level)
        script = "speed 10\nassemble $drives\nstarting $md\nspeed 2000000\nsynchronised $md\n"
        text = yield bench.job(script + md_reads(level) + md_reads_busy(level))
        require("STATE resync " in text or "STATE idle 0" in text, f"md does not resync: {said(text)}")
        require_reads(text, parts)
        require(f"BUSY {md5(busy)}" in text, f"md reads other bytes in the marked region: {said(text)}")
        require_only_marked(bench, spoiled)
        with bench.serve() as server:
            require("optimal" in server.text(), f"not optimal: {server.text()}")
            server.scrub()
        return f"md synchronises region {BUSY} of {REGIONS} only"

    return run


# Waits until md has cleared the bits, which it does after some time.
CLEARED = """
bits() { blockdev --flushbufs $d0; dd if=$d0 bs=1 skip=%d count=1 2> /dev/null | hexdump -e '1/1 "%%d"'; }
while [ $(($(bits) & %d)) != 0 ]; do pause; pause; pause; pause; pause; done
"""
# Writes to random places of one region until the crash.
WRITER = """
(
    seed=7; count=0
    while true; do
        seed=$(( (seed * 1103515245 + 12345) & 0x7fffffff ))
        dd if=%s of=/dev/$md bs=64k seek=$(( %d + (seed >> 8) %% %d )) conv=fsync,notrunc 2> /dev/null
        count=$((count + 1)); echo $count > /tmp/written
    done
) > /dev/null 2>&1 &
until look /tmp/written && [ $word -ge %d ]; do pause; done
echo WRITING
"""


def mds(level):
    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        parts = pieces(level)
        chunk = "-c64" if level != 1 else ""
        put = "\n".join(f"put {bench.file(f'piece{at}', data)} $md {at >> 10}" for at, data in parts)
        begin, end = busy_range(level)
        text = yield bench.job(f"""
mdadm -q -C /dev/md/c -e imsm -n{len(slots)} {words(slots)} -R
mdadm -q -C /dev/md/vol -l{level} -n{len(slots)} {chunk} --bitmap=internal --assume-clean \
    --size={component_bytes(level) >> 10} {words(slots)} -R
md=$(volume 0)
if [ -z "$md" ]; then echo "NOT CREATED"; exit 1; fi
echo 1 > /sys/block/$md/md/bitmap/time_base
{put}
{CLEARED % (component_bytes(level) + BITS_OFFSET_BYTES, (1 << REGIONS) - 1)}
{WRITER % (bench.file("new", pattern(80, NEW_BYTES)), begin >> 16, (end - begin) >> 16, MD_WRITES_BEFORE_DEATH)}
""", cut=True)
        require("WRITING" in text, said(text))
        spoiled, busy = after_the_end(bench, level)
        with bench.serve() as server:
            require(f"marks 1 of {REGIONS} regions" in server.text(), f"no note of it: {server.text()}")
            server.order("rebuild", "--wait", "vol")
            for at, data in parts:
                require(server.read_part(at & -65536, len(data)) == data, f"we read other bytes at {at}")
        require_only_marked(bench, spoiled)
        text = yield bench.job(f"assemble $drives\nstarting $md\n{md_reads(level)}{md_reads_busy(level)}")
        require_at_rest(text)
        require_reads(text, parts)
        require(f"BUSY {md5(busy)}" in text, f"md reads other bytes in the marked region: {said(text)}")
        return f"we synchronise region {BUSY} of {REGIONS} only"

    return run


def cases():
    for level, members in REDUNDANT.items():
        name = f"RAID {level}, bitmap of {REGIONS} regions"
        size = component_bytes(level) + 8 * MIB
        yield Case("bitmap", name, "ours", members, ours(level), drive_bytes=size, long=level != 5)
        yield Case("bitmap", name, "md's", members, mds(level), drive_bytes=size, long=level != 5)
