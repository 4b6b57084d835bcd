"""Two shards of one array compared with two independent processes with one shard each, running at the same time."""
import concurrent.futures

from common import Aim, Column, Comparison, bench, two_core_control, two_cores

RATIO = "ratio"


def independent(seconds, **options):
    """Two processes, each on a core, at the same time: the sum of their requests per second."""
    def measure():
        half = dict(options, qd=options["qd"] // 2)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(bench(seconds, cores=[core], **half)) for core in two_cores()]
            return {"iops": sum(run.result()["iops"] for run in runs)}
    return measure


def with_control(subject):
    """The figures, and the speed of two cores relative to one, measured just before and after."""
    def measure():
        before = two_core_control()
        figures = subject()
        return {**figures, "control": (before + two_core_control()) / 2}
    return measure


def comparison(options):
    table = Comparison("shards", "Null members, 4 KiB, queue depth 64 a shard, thousands of requests per second. The "
                       "control is what two cores do of work that shares nothing, one core being 1:", options, [
        Column("two shards", lambda r: r["shards"]["iops"] / 1e3),
        Column("two processes", lambda r: r["processes"]["iops"] / 1e3),
        Column(RATIO, lambda r: r["shards"]["iops"] / r["processes"]["iops"], 2),
        Column("control, shards", lambda r: r["shards"]["control"], 2),
        Column("control, processes", lambda r: r["processes"]["control"], 2)])
    two_cores()
    for level, count in ((0, 4), (1, 2), (10, 4), (5, 4), (5, 6)):
        for rw in ("randread", "randwrite"):
            asked = {"level": level, "member": "null:64g", "count": count, "rw": rw, "qd": 128}
            table.row(f"RAID {level} of {count}, {rw[4:]}", Aim(RATIO, least=0.95),
                      shards=with_control(bench(options.seconds, shards=2, **asked)),
                      processes=with_control(independent(options.seconds, **asked)))
    return table
