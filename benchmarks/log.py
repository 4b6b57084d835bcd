"""What the write-hole log of RAID 5 costs: with members at the speed of a drive, and where memory is the limit."""
from common import Aim, CORE, Column, Comparison, bench
from throttled import MEMBER, READ_IOPS, WRITE_IOPS

SHARE, KEPT = "of the limit", "of the IOPS without a log"
SECONDS_MIN = 1.0


def entries_per_unit(outcome):
    """How many writes share one unit of the log."""
    return outcome["stats"]["log_entries"] / outcome["stats"]["log_units"]


def limit(outcome):
    """The members' limit: data, parity and partial parity are written, and one log header per unit.

    With three members the one remaining chunk is read, with more the old data and the old parity."""
    count = outcome["config"]["count"]
    reads = 1 if count == 3 else 2
    return count / (reads / READ_IOPS + (3 + 1 / entries_per_unit(outcome)) / WRITE_IOPS)


def comparison(options):
    table = Comparison("log", f"RAID 5, 4 KiB random writes, one core; members `{MEMBER}` with QD 64 a member, or RAM "
                       "with QD 32:", options, [
        Column("k IOPS, log", lambda r: r["log"]["iops"] / 1e3),
        Column("k IOPS, no log", lambda r: r["off"]["iops"] / 1e3),
        Column("entries per unit", lambda r: entries_per_unit(r["log"]), 1),
        Column("limit, k IOPS", lambda r: r["log"]["roofline_iops"] and limit(r["log"]) / 1e3),
        Column(SHARE, lambda r: r["log"]["roofline_iops"] and r["log"]["iops"] / limit(r["log"]), 3),
        Column(KEPT, lambda r: r["log"]["iops"] / r["off"]["iops"], 2)])
    seconds = max(SECONDS_MIN, options.seconds)
    for count in [3, 4, 8, 12] if options.short else range(3, 13):
        both = {policy: bench(seconds, level=5, member=MEMBER, count=count, rw="randwrite", qd=64 * count,
                              write_hole=policy) for policy in ("log", "off")}
        table.row(f"throttled, {count} members", Aim(SHARE, least=0.95), **both)
    for count in (4, 8):
        both = {policy: bench(options.seconds, cores=[CORE], level=5, member="ram:256m", count=count, rw="randwrite",
                              qd=32, write_hole=policy) for policy in ("log", "off")}
        table.row(f"RAM, {count} members", Aim(KEPT, least=0.6), **both)
    return table
