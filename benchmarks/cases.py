"""The cases whose instructions benchmarks/gate counts and benchmarks/profile shows by function."""

RANDOM = {"bs": "4k", "qd": 32}
STRIPES = {"rw": "write", "bs": "192k", "qd": 8}
NULL, RAM = "null:64g", "ram:8m"

# Name: number of requests of the shorter run, and the options of `bench`.
CASES = {
    **{f"raid{level}-{name}-null": (50_000 if level != 5 else 20_000, {"level": level, "member": NULL, "count": count, "rw": rw, **RANDOM})
       for level, count in ((0, 4), (1, 2), (10, 4), (5, 4))
       for name, rw in (("read", "randread"), ("write", "randwrite"))},
    "raid0-read-null-qd1": (30_000, {"level": 0, "member": NULL, "count": 4, "rw": "randread", "bs": "4k", "qd": 1}),
    # More requests outstanding than a core has plans: each request first waits for a free plan.
    **{f"raid{level}-{name}-null-qd4096": (100_000, {"level": level, "member": NULL, "count": 4, "rw": f"rand{name}", "bs": "4k", "qd": 4096})
       for level, name in ((0, "read"), (0, "write"), (10, "write"))},
    "raid5-stripe-null": (2_000, {"level": 5, "member": NULL, "count": 4, **STRIPES}),
    "raid5-read-degraded-null": (20_000, {"level": 5, "member": NULL, "count": 4, "failed": 1, **RANDOM}),
    "raid5-write-ram": (10_000, {"level": 5, "member": RAM, "count": 4, "rw": "randwrite", **RANDOM}),
    "raid5-write-log-ram": (10_000, {"level": 5, "member": RAM, "count": 4, "rw": "randwrite", "write-hole": "log", **RANDOM}),
    "raid5-stripe-ram": (1_000, {"level": 5, "member": RAM, "count": 4, **STRIPES}),
    "raid5-read-degraded-ram": (10_000, {"level": 5, "member": RAM, "count": 4, "failed": 1, **RANDOM}),
}


def words(options, requests):
    """Arguments of the program for `requests` requests of a case."""
    return ["bench", *(f"--{name}={value}" for name, value in options.items()), f"--requests={requests}", "--json"]
