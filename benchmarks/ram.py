"""Members in RAM, where every byte is moved: full stripes compared with the machine's roofline and with SPDK."""
import spdk
from common import Aim, Column, Comparison, bench, kernel_rates

CHUNK = 65536
SHARE = "of the cold roofline"
RATIO = "ratio"
K_IOPS = "ours, k IOPS"
HEALTHY = "of the healthy rate"


def roofline(members, copied, computed):
    """Bytes of data per second at which one core can compute parity and copy all chunks:
    1 / ((m / (m - 1)) (1 / C + 1 / X)), where C is bytes copied and X is bytes touched by parity, both per second.
    `copied` and `computed` say what is in the cache."""
    def measure():
        copy = kernel_rates("stream", CHUNK, copied, 0.2)[0]
        xor = kernel_rates(f"xor:{members - 1}", CHUNK, computed, 0.2)[0]
        return {"copy": copy, "xor": xor, "bytes_per_s": (members - 1) / members / (1 / copy + 1 / xor)}
    return measure


def moved(*shares):
    """Bytes of requests per second at which one core moves what 4 KiB requests move, without an array. `shares` are
    kernels and the share of the requests that each stands for."""
    def measure():
        seconds = sum(share / kernel_rates(kernel, 4096, "cold", 0.2)[0] for kernel, share in shares)
        return {"bytes_per_s": 1 / seconds}
    return measure


def comparison(options):
    table = Comparison("ram", "Members in RAM, one core:", options, [
        Column("ours, GB/s", lambda r: r["ours"]["bytes_per_s"] / 1e9),
        Column(K_IOPS, lambda r: r["ours"]["iops"] / 1e3),
        Column("roofline, cold", lambda r: r["cold"]["bytes_per_s"] / 1e9),
        Column("roofline, cached source", lambda r: r["cached"]["bytes_per_s"] / 1e9),
        Column(HEALTHY, lambda r: r["ours"]["iops"] / r["healthy"]["iops"], 2),
        Column(SHARE, lambda r: r["ours"]["bytes_per_s"] / r["cold"]["bytes_per_s"], 2),
        Column("SPDK, GB/s", lambda r: r["SPDK"]["bytes_per_s"] / 1e9),
        Column(RATIO, lambda r: r["ours"]["bytes_per_s"] / r["SPDK"]["bytes_per_s"], 2)])
    seconds = options.seconds
    # Eight members of 256 MiB are more than SPDK's memory here holds.
    for count, member, blocks in ((4, "ram:256m", 65536), (8, "ram:64m", 16384)):
        size = CHUNK * (count - 1)
        table.row(f"RAID 5 of {count}, full stripes of {size >> 10} KiB, QD 8",
                  Aim(SHARE, least=0.9), Aim(RATIO, least=1.0),
                  ours=bench(seconds, level=5, member=member, count=count, rw="write", bs=size, qd=8),
                  cold=roofline(count, "cold", "cold"), cached=roofline(count, "cached-source", "warm"),
                  SPDK=spdk.bdevperf(seconds, "malloc", count, "raid5f", "write", size, 8, blocks))
    for level, peer in ((0, "raid0"), (1, "raid1")):
        count = 2 if level == 1 else 4
        for rw in ("randread", "randwrite"):
            table.row(f"RAID {level} of {count}, 4 KiB {rw[4:]}, QD 64", Aim(RATIO, least=1.0),
                      ours=bench(seconds, level=level, member="ram:256m", count=count, rw=rw, qd=64),
                      SPDK=spdk.bdevperf(seconds, "malloc", count, peer, rw, depth=64))
    reads = bench(seconds, level=5, member="ram:256m", count=4, qd=64)
    table.row("RAID 5 of 4, 4 KiB read, QD 64", Aim(RATIO, least=1.0), ours=reads, cold=moved(("read", 1)),
              SPDK=spdk.bdevperf(seconds, "malloc", 4, "raid5f", "randread", depth=64))
    table.row("RAID 5 of 4, 4 KiB read, degraded, QD 64", Aim(HEALTHY, least=0.8), healthy=reads,
              ours=bench(seconds, level=5, member="ram:256m", count=4, qd=64, failed=1),
              cold=moved(("read", 0.75), ("reconstruct:3", 0.25)))
    table.row("RAID 5 of 4, 4 KiB write, QD 32", Aim(K_IOPS, least=1000),
              ours=bench(seconds, level=5, member="ram:256m", count=4, rw="randwrite", qd=32),
              cold=moved(("small-write", 1)))
    table.note("Rooflines, GB/s: parity and copies of whole chunks by our kernels, in the same round; for 4 KiB "
               "requests, what a request copies from and to random places, as a drive would, and its parity. "
               "SPDK's RAID 5 refuses writes of less than a stripe.")
    return table
