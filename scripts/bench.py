#!/usr/bin/env python3
"""Runs `fullstripe bench` over levels, members and operations and prints Markdown tables.

usage: scripts/bench.py [TIME]     time per point, like 2s (the default) or 500ms

The tables of docs/performance.md are this script's output. Every point measures the load generator, a bare
member and the array in turns, several rounds, and gives medians; see `fullstripe bench --help`.
"""
import json
import os
import subprocess
import sys

TIME = sys.argv[1] if len(sys.argv) > 1 else "2s"
PROGRAM = os.environ.get("FULLSTRIPE", "target/release/fullstripe")
# Slow enough that one core is far from busy, so that the members are the limit.
THROTTLED = "null:64g,read-iops=20k,write-iops=10k"


def bench(level: int, member: str, count: int, operation: str, *more: str) -> dict:
    command = [PROGRAM, "bench", "--level", str(level), "--member", member, "--count", str(count),
               "--rw", operation, "--time", TIME, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def against_members() -> None:
    print(f"Against the roofline; members `{THROTTLED}`, queue depth 32 a member, chunk 64 KiB, one shard:\n")
    print("| level | members | operation | IOPS | roofline | efficiency | member commands per request | cores |")
    print("|---|---|---|---|---|---|---|---|")
    for level, counts in ((0, (1, 4, 8, 12)), (1, (2,)), (10, (4, 8, 12)), (5, (3, 4, 8, 12))):
        for count in counts:
            for name, operation, more in operations(level, count):
                got = bench(level, THROTTLED, count, operation, "--qd", str(32 * count), *more)
                print(f"| RAID {level} | {count} | {name} | {number(got['iops'])} | {number(got['roofline_iops'])} "
                      f"| {100 * got['efficiency']:.1f} % | {got['member_ios']:.2f} | {got['cores']:.2f} |", flush=True)


def operations(level: int, count: int) -> list:
    small = ["--bs", "4k"]
    points = [("4 KiB random read", "randread", small), ("4 KiB random write", "randwrite", small)]
    if level == 5:
        points.append(("full-stripe write", "write", ["--bs", f"{64 * (count - 1)}k"]))
        points.append(("4 KiB random read, degraded", "randread", [*small, "--failed", "1"]))
    return points


def cost() -> None:
    print("\nWhat the engine costs: one shard on one core, chunk 64 KiB, four members (RAID 1: two):\n")
    print("| level | members | operation | IOPS | GB/s | ns per request | of it RAID | allocations per request |")
    print("|---|---|---|---|---|---|---|---|")
    points = [(level, "null:64g", op, ["--bs", "4k", "--qd", "128"]) for level in (0, 1, 10, 5)
              for op in ("randread", "randwrite")]
    points += [(5, "ram:256m", "randwrite", ["--bs", "4k", "--qd", "32"]),
               (5, "ram:256m", "write", ["--bs", "192k", "--qd", "8"]),
               (5, "ram:256m", "randread", ["--bs", "4k", "--qd", "32", "--failed", "1"])]
    for level, member, operation, more in points:
        got = bench(level, member, 2 if level == 1 else 4, operation, *more)
        raid = got["raid_ns_per_io"]
        degraded = ", degraded" if "--failed" in more else ""
        print(f"| RAID {level} | `{member}` | {operation} {more[1]}{degraded} | {number(got['iops'])} "
              f"| {got['bytes_per_s'] / 1e9:.2f} | {got['ns_per_io']:.0f} | {raid:.0f} "
              f"| {got['allocations_per_request']:.6f} |", flush=True)


against_members()
cost()
