"""Rebuild and scrub of members in RAM without clients, compared with SPDK's rebuild."""
import spdk
from common import Aim, Column, Comparison, bench

RATIO = "ratio"


def rate(outcome):
    """Bytes per second of each member."""
    return outcome.get("rebuild_bytes_per_s") or outcome["scrub_bytes_per_s"]


def comparison(options):
    table = Comparison("rebuild", "GB/s of the new member, or of each member scrubbed, one core, no rate limit:",
                       options, [
        Column("ours", lambda r: rate(r["ours"]) / 1e9),
        Column("SPDK", lambda r: r["SPDK"]["bytes_per_s"] / 1e9),
        Column(RATIO, lambda r: rate(r["ours"]) / r["SPDK"]["bytes_per_s"], 2)])
    # Five members of 256 MiB are more than SPDK's memory here holds.
    for level, count, peer, blocks in ((1, 2, "raid1", 65536), (10, 4, None, 0), (5, 4, "raid5f", 32768)):
        ours = {"level": level, "count": count, "member": "ram:256m"}
        table.row(f"RAID {level} of {count}, rebuild", *([Aim(RATIO, least=1.0)] if peer else []),
                  ours=bench(options.seconds, rw="rebuild", **ours),
                  SPDK=spdk.rebuild(peer, count, blocks) if peer else None)
        table.row(f"RAID {level} of {count}, scrub", ours=bench(options.seconds, rw="scrub", **ours))
    return table
