"""Members with the speed of a drive: which share of the members' limit the array reaches."""
from common import Aim, Column, Comparison, bench

# Slow enough that one core is far from busy, so that the members are the limit.
READ_IOPS, WRITE_IOPS = 20_000, 10_000
MEMBER = f"null:64g,read-iops={READ_IOPS},write-iops={WRITE_IOPS}"
CHUNK_KIB = 64
SHARE = "of the roofline"
CORES = "cores"


# Five rounds of a rebuild, each several times as long as its I/O in flight takes.
SECONDS_MIN, REBUILD_SECONDS_MIN = 1.0, 4.0


def operations(level, count):
    """Names and options of what is measured. A full stripe keeps every member busy by itself."""
    small = {"qd": 64 * count}
    points = [("4 KiB read", {"rw": "randread", **small}), ("4 KiB write", {"rw": "randwrite", **small})]
    if level == 5:
        points.append(("full stripe", {"rw": "write", "bs": f"{CHUNK_KIB * (count - 1)}k", "qd": 32}))
        points.append(("4 KiB read, degraded", {"rw": "randread", "failed": 1, **small}))
    return points


def limit_of_rebuild(outcome):
    """The limit is the new member's writes, because reading the others is faster. In requests of 4 KiB per second, like
    the other rows."""
    return {**outcome, "iops": outcome["rebuild_bytes_per_s"] / 4096, "efficiency":
            outcome["rebuild_bytes_per_s"] / 4096 / WRITE_IOPS, "roofline_iops": WRITE_IOPS}


def comparison(options):
    table = Comparison("throttled", f"Members `{MEMBER}`, queue depth 64 a member, full stripes 32, chunk "
                       f"{CHUNK_KIB} KiB, one shard:",
                       options, [
        Column("IOPS", lambda r: r["ours"]["iops"]),
        Column("roofline", lambda r: r["ours"]["roofline_iops"]),
        Column(SHARE, lambda r: r["ours"]["efficiency"], 3),
        Column("member commands per request", lambda r: r["ours"]["member_ios"], 2),
        Column(CORES, lambda r: r["ours"]["cores"], 2)])
    aims = (Aim(SHARE, least=0.97), Aim(CORES, most=0.3))
    counts = [3, 4, 8, 12] if options.short else list(range(3, 13))
    pairs = [count for count in counts if count % 2 == 0]
    for level, members in ((0, [1, *pairs]), (1, [2]), (10, pairs), (5, counts)):
        for count in members:
            for name, more in operations(level, count):
                table.row(f"RAID {level} of {count}, {name}", *aims,
                          ours=bench(max(SECONDS_MIN, options.seconds), level=level, member=MEMBER, count=count, **more))
    for level, count in [(1, 2), *((5, count) for count in counts)]:
        subject = bench(max(REBUILD_SECONDS_MIN, options.seconds), level=level, member=MEMBER, count=count,
                        rw="rebuild")
        table.row(f"RAID {level} of {count}, rebuild", aims[0],
                  ours=lambda measure=subject: limit_of_rebuild(measure()))
    return table
