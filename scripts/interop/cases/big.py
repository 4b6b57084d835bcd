"""Drives and volumes beyond 2 TiB, in sparse files: pieces at both ends and around every multiple of 1 TiB are
compared."""
import hashlib

from ..case import Case
from ..bench import pattern
from ..requirement import require
from ..volume import MIB
from .common import SLOTS, order, said, words

TIB = 1 << 40
DRIVE_BYTES = 3 * TIB
PIECE_BYTES = MIB
LEVELS = {0: (2, 2), 1: (2, 1), 10: (4, 2), 5: (3, 2)}


def places(size):
    """Where pieces are: the first and last MiB, and across every multiple of 1 TiB."""
    borders = [at - PIECE_BYTES // 2 for at in range(TIB, size - MIB, TIB)]
    return [0, *borders, (size - PIECE_BYTES) & -65536]


def pieces(size, seed):
    return [(at, pattern(seed + number, PIECE_BYTES)) for number, at in enumerate(places(size))]


def md_reads(size):
    return "\n".join(
        f"echo PIECE {at} $(dd if=/dev/$md bs=64k skip={at >> 16} count={PIECE_BYTES >> 16} 2> /dev/null | md5sum)"
        for at in places(size))


def md_writes(bench, parts):
    return "\n".join(
        f"put {bench.file(f'piece{number}', data)} $md {at >> 10}" for number, (at, data) in enumerate(parts))


# Makes md compare a window of each member around sector %d.
WINDOW = """
echo %d > /sys/block/$md/md/sync_min
echo %d > /sys/block/$md/md/sync_max
echo check > /sys/block/$md/md/sync_action
until_md sync_completed %d
mismatches $md
echo idle > /sys/block/$md/md/sync_action
"""


def window(level, member_byte):
    # For RAID 10 md counts sectors of the volume.
    sector = (member_byte // 512) * (2 if level == 10 else 1) // 2048 * 2048
    return WINDOW % (sector - 4096, sector + 4096, sector + 4096)


def require_pieces(text, parts):
    for at, data in parts:
        require(f"PIECE {at} {hashlib.md5(data).hexdigest()}" in text, f"md reads other bytes at {at}: {said(text)}")


def require_we_read(bench, server, parts):
    for number, (at, data) in enumerate(parts):
        require(server.read_part(at, len(data)) == data, f"we read other bytes at {at}")


def case(level, made_by_us):
    columns = LEVELS[level][1]

    def run(bench):
        slots = order(len(bench.paths), SLOTS)
        chunk_kib = 64
        script = ""
        if made_by_us:
            chunk = ["--chunk", f"{chunk_kib}k"] if level != 1 else []
            bench.create("vol", level, *chunk, drives=slots)
            size = bench.record()["volumes"][0]["size_bytes"]
            parts = pieces(size, 40)
            with bench.serve() as server:
                for at, data in parts:
                    server.write(data, at)
            script = "assemble $drives\n"
        else:
            component = DRIVE_BYTES - 64 * MIB
            size = component * columns
            parts = pieces(size, 50)
            chunk = f"-c{chunk_kib}" if level != 1 else ""
            # Drives that contain only zeros are in sync.
            clean = "--assume-clean" if level else ""
            script = f"""
mdadm -q -C /dev/md/c -e imsm -n{len(slots)} {words(slots)} -R
mdadm -q -C /dev/md/vol -l{level} -n{len(slots)} {chunk} {clean} --size={component >> 10} {words(slots)} -R
md=$(volume 0)
if [ -z "$md" ]; then echo "NOT CREATED"; exit 1; fi
""" + md_writes(bench, parts)
        check = "synchronised $md\n" + window(level, 5 * TIB // 2) if level else ""
        text = yield bench.job(f"{script}\n{md_reads(size)}\n{check}")
        require_pieces(text, parts)
        require(not level or "MISMATCHES 0\n" in text, f"md finds mismatches: {said(text)}")
        require(bench.record()["volumes"][0]["size_bytes"] == size, "the size is another")
        changed = pieces(size, 60)
        with bench.serve() as server:
            require("optimal" in server.text(), f"not optimal: {server.text()}")
            require_we_read(bench, server, parts)
            for at, data in changed:
                server.write(data, at)
        text = yield bench.job(f"assemble $drives\n{md_reads(size)}\n{check}")
        require_pieces(text, changed)
        require(not level or "MISMATCHES 0\n" in text, f"md finds mismatches: {said(text)}")
        return f"{size / TIB:.1f} TiB, {len(parts)} places"

    return run


def cases():
    for level, (drives, _) in LEVELS.items():
        for made_by_us in (True, False):
            yield Case("large", f"RAID {level} on drives of 3 TiB", "ours" if made_by_us else "md's", drives,
                       case(level, made_by_us), drive_bytes=DRIVE_BYTES, long=level in (0, 10))
