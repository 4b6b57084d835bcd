"""What the RAID layer costs: null members, which do nothing, compared with SPDK's RAID over its null members."""
import spdk
from common import Aim, Column, Comparison, bench, once_per_round

OVER_BARE = "ours, ns over bare"
RATIO = "IOPS ratio"
# Level: number of members, SPDK's name, whether SPDK can write 4 KiB at this level.
LEVELS = {0: (4, "raid0", True), 1: (2, "raid1", True), 10: (4, None, False), 5: (4, "raid5f", False)}
# Nanoseconds per request, where there is a target: (level, operation), at queue depth 128.
NS_MOST = {(0, "randread"): 40, (0, "randwrite"): 40, (1, "randread"): 40, (5, "randread"): 40, (1, "randwrite"): 70}


def layer_ns(array, bare):
    """What an array adds to the time of a bare member's request, on a core that is always busy."""
    return 1e9 / array["iops"] - 1e9 / bare["iops"]


def comparison(options):
    table = Comparison("null", "Null members, 4 KiB, one core. Thousands of requests per second and core, and what "
                       "the RAID layer adds to a request of one bare member:", options, [
        Column("ours, k IOPS", lambda r: r["ours"]["iops"] / r["ours"]["cores"] / 1e3),
        Column(OVER_BARE, lambda r: r["ours"]["raid_ns_per_io"]),
        Column("SPDK, k IOPS", lambda r: r["SPDK"]["iops"] / 1e3),
        Column("SPDK, ns over bare", lambda r: layer_ns(r["SPDK"], r["SPDK_bare"])),
        Column(RATIO, lambda r: r["ours"]["iops"] / r["ours"]["cores"] / r["SPDK"]["iops"], 2)])
    bares = {}
    for level, (count, peer, peer_writes) in LEVELS.items():
        for rw in ("randread", "randwrite"):
            for depth in (1, 128) if options.short else (1, 32, 128):
                has_peer = peer and (rw == "randread" or peer_writes)
                if (rw, depth) not in bares:
                    subject = spdk.bdevperf(options.seconds, "null", 1, None, rw, depth=depth)
                    bares[rw, depth] = once_per_round(subject)
                aims = []
                if depth == 1 and has_peer:
                    aims = [Aim(RATIO, least=1.0)]
                if depth == 128 and (level, rw) in NS_MOST:
                    aims = [Aim(OVER_BARE, most=NS_MOST[level, rw])]
                    if rw == "randread":
                        aims.append(Aim(RATIO, least=1.5))
                table.row(
                    f"RAID {level} of {count}, {rw[4:]}, QD {depth}", *aims,
                    ours=bench(options.seconds, level=level, member="null:64g", count=count, rw=rw, qd=depth,
                               completion="polling" if depth == 1 else "interrupt"),
                    SPDK=spdk.bdevperf(options.seconds, "null", count, peer, rw, depth=depth) if has_peer else None,
                    SPDK_bare=bares[rw, depth] if has_peer else None)
    table.note("At queue depth 1 our shard polls, as SPDK always does. SPDK has no RAID 10, and its RAID 5 takes full stripes only.")
    return table
