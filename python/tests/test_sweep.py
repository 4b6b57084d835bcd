"""Sweeps: the same results on one worker and on many, resumed after an abort, and honest about what went wrong."""

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import fullstripe
import pytest

SMALL: dict[str, Any] = {
    "drive": ["p4510-1tb", "p4510-2tb"],
    "platform": "epyc-9554p-24",
    "count": range(3, 5),
    "level": [5, 10],
    "op": "randread",
    "bs": "4k",
    "threads": 1,
    "qd": [1, 2],
}
"""16 points, 4 of which are impossible: RAID 10 of three drives."""

TWO_HUNDRED: dict[str, Any] = {
    **SMALL,
    "drive": ["p4510-1tb", "p4510-2tb"],
    "count": range(2, 12),
    "level": [0, 10],
    "qd": [1, 2, 3, 4, 6],
}


class Here(Executor):
    """One worker: this thread."""

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        self.number = 0
        self.before = before

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            self.before(self.number)
            future.set_result(task(*arguments, **named))
        except BaseException as why:
            future.set_exception(why)
        self.number += 1
        return future


@pytest.fixture(scope="module")
def small() -> fullstripe.Sweep:
    """The small sweep, computed on threads."""
    return fullstripe.sweep(SMALL)


def test_a_sweep_has_a_row_for_each_combination_in_order(small: fullstripe.Sweep) -> None:
    varied = ("drive", "count", "level", "qd")
    asked = [tuple(row.arguments[name] for name in varied) for row in small.rows]
    assert asked == list(itertools.product(*(SMALL[name] for name in varied)))
    for row in small.rows:
        if (row.arguments["count"], row.arguments["level"]) == (3, 10):
            assert row.point is None and row.left_out == "RAID 10 needs an even number of drives from 4 to 64"
        else:
            assert row.point and row.point.configuration.setup.count == row.arguments["count"] and row.left_out is None
    assert (small.computed, small.recalled) == (12, 0)
    table = small.to_frame()
    [alone] = fullstripe.plan(**small.rows[0].arguments).points
    assert small.rows[0].point and alone.metrics == small.rows[0].point.metrics
    assert table.shape[0] == 16 and table["iops"].notna().sum() == 12 and table["left_out"].notna().sum() == 4


def test_results_are_the_same_on_one_worker_on_threads_and_on_processes(small: fullstripe.Sweep) -> None:
    assert fullstripe.sweep(SMALL, executor=Here()) == small
    with ProcessPoolExecutor(2) as processes:
        assert fullstripe.sweep(SMALL, executor=processes) == small


def test_two_hundred_points_on_dask_with_a_worker_killed_are_those_of_one_process(tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    expected = fullstripe.sweep(TWO_HUNDRED)
    assert len(expected.rows) == 200
    store = tmp_path / "sweep.jsonl"
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        before = set(client.run(os.getpid).values())
        killed = threading.Thread(target=kill_when_grown, args=(store, min(before)))
        killed.start()
        swept = fullstripe.sweep(TWO_HUNDRED, executor=client.get_executor(), store=store)
        killed.join()
        assert swept == expected
        after = set(client.run(os.getpid).values())
    assert min(before) not in after, "the worker was killed, and another one took its place"


def kill_when_grown(store: Path, process: int) -> None:
    """Kills a process once the store has a fifth of the results."""
    while not store.exists() or store.read_bytes().count(b"\n") < 30:
        threading.Event().wait(0.05)
    os.kill(process, signal.SIGKILL)


def test_an_aborted_sweep_goes_on_where_it_was(tmp_path: Path, small: fullstripe.Sweep) -> None:
    store = tmp_path / "sweep.jsonl"

    def interrupt(number: int) -> None:
        if number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fullstripe.sweep(SMALL, executor=Here(interrupt), store=store)
    kept = len(store.read_text().splitlines()) - 1
    assert kept == 11, "all but the one that was interrupted"
    resumed = fullstripe.sweep(SMALL, executor=Here(), store=store)
    assert (resumed.computed, resumed.recalled) == (12 - kept, kept)
    assert resumed.rows == small.rows
    # A larger sweep computes only what is new.
    larger = fullstripe.sweep({**SMALL, "qd": [1, 2, 3]}, store=store)
    assert (larger.computed, larger.recalled) == (6, 12)


def test_a_torn_last_line_is_computed_again_and_damage_elsewhere_is_told(tmp_path: Path) -> None:
    store = tmp_path / "sweep.jsonl"
    few = {**SMALL, "drive": "p4510-1tb", "level": 5}
    whole = fullstripe.sweep(few, store=store)
    content = store.read_bytes()
    for cut in (1, 100, len(content.splitlines(True)[-1]) - 1):
        store.write_bytes(content[:-cut])
        again = fullstripe.sweep(few, store=store)
        assert (again.computed, again.rows) == (1, whole.rows), cut
    lines = content.splitlines(True)
    store.write_bytes(b"".join([*lines[:3], lines[3][:40] + b"\n", *lines[4:]]))
    with pytest.raises(fullstripe.Error, match=f"line 4 of the store {store} is damaged: remove that line"):
        fullstripe.sweep(few, store=store)
    # A store that was cut within its first line begins anew.
    store.write_bytes(content[:5])
    assert fullstripe.sweep(few, store=store).computed == 4


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    for content in ("iops,count\n1,2\n", "notes", '{"fullstripe_sweep": 99}\n'):
        store = tmp_path / "file"
        store.write_text(content)
        with pytest.raises(fullstripe.Error, match="is no store of a sweep"):
            fullstripe.sweep(SMALL, store=store)
        assert store.read_text() == content
    with pytest.raises(fullstripe.Error, match="cannot open the store"):
        fullstripe.sweep(SMALL, store=tmp_path)


def test_two_sweeps_do_not_share_a_store(tmp_path: Path) -> None:
    store = tmp_path / "sweep.jsonl"

    def another(number: int) -> None:
        with pytest.raises(fullstripe.Error, match="is in use by another sweep"):
            fullstripe.sweep(SMALL, store=store)

    grid = {**SMALL, "drive": "p4510-2tb", "count": 4, "level": 5}
    assert fullstripe.sweep(grid, executor=Here(another), store=store).computed == 2


def test_a_worker_with_another_file_is_refused(tmp_path: Path) -> None:
    """The profile changes after the sweep has asked for keys: as if a worker on another machine had another file."""
    profile = tmp_path / "drive.toml"
    new = "drive new mine --class tlc --read-kiops 600 --write-kiops 100 --read-mb-s 3200 --write-mb-s 2000".split()
    size = "--capacity 2tb --lanes 4 --generation 3".split()
    made = os.spawnv(os.P_WAIT, os.environ["FULLSTRIPE"], ["fullstripe", *new, *size, "-o", str(profile)])
    assert made == 0
    grid = {**SMALL, "drive": str(profile), "count": 4, "level": 5, "qd": 1}

    def change(number: int) -> None:
        text = profile.read_text()
        assert "600" in text
        profile.write_text(text.replace("600", "500"))

    with pytest.raises(fullstripe.Error, match="a worker has another version of fullstripe, or other content in a file"):
        fullstripe.sweep(grid, executor=Here(change))


def test_a_worker_that_dies_stops_the_sweep_and_keeps_what_was_done(tmp_path: Path, small: fullstripe.Sweep) -> None:
    store = tmp_path / "sweep.jsonl"
    with ProcessPoolExecutor(1) as processes:
        dying = threading.Thread(target=kill_when_kept, args=(store, processes))
        dying.start()
        with pytest.raises(fullstripe.Stopped, match="call sweep again with the same store"):
            fullstripe.sweep(SMALL, executor=processes, store=store)
        dying.join()
    resumed = fullstripe.sweep(SMALL, store=store)
    assert resumed.recalled > 0 and resumed.rows == small.rows


def kill_when_kept(store: Path, processes: ProcessPoolExecutor) -> None:
    """Kills the only worker once a result is kept."""
    while not store.exists() or store.read_bytes().count(b"\n") < 3:
        threading.Event().wait(0.01)
    [worker] = processes._processes
    os.kill(worker, signal.SIGKILL)


def test_points_may_be_given_one_by_one_and_alike_points_are_computed_once() -> None:
    point = {**SMALL, "drive": "p4510-2tb", "count": 4, "level": 5, "qd": 1}
    same = {**point, "bs": 4096}
    swept = fullstripe.sweep([point, same, {**point, "level": 10}])
    assert swept.computed == 2 and swept.rows[0].point == swept.rows[1].point


def test_numbers_of_numpy_are_numbers() -> None:
    import numpy

    swept = fullstripe.sweep({**SMALL, "drive": "p4510-2tb", "level": 5, "qd": 1, "count": numpy.arange(3, 5)})
    assert [row.point.configuration.setup.count for row in swept.rows if row.point] == [3, 4]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"drives": "p4510-2tb"}, "there is no argument drives; nearest: "),
        ({"level": None}, "give both level and op"),
        ({"op": None}, "give both level and op"),
        ({"count": "x"}, "count must be a whole number of 0 or more"),
        ({"drive": "p4511-2tb"}, 'drive does not know "p4511-2tb"'),
        ({"rebuilding": True}, "one rebuild_mb_s; give it, 0 for no limit"),
    ],
)
def test_mistakes_are_told_before_anything_is_computed(changed: dict[str, Any], sentence: str) -> None:
    def never(number: int) -> None:
        raise AssertionError("it was computed")

    with pytest.raises(fullstripe.Error, match=sentence):
        fullstripe.sweep({**SMALL, **changed}, executor=Here(never))


@pytest.mark.whole
def test_ten_thousand_points(tmp_path: Path) -> None:
    """Aborted once in the middle, and resumed; the rows of a sample are those of plans."""
    # A process that was started in the background may ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Reads at a demanded rate: of all loads, these take the least time to run.
    grid = {
        **SMALL,
        "drive": [
            *("p4510-1tb", "p4510-2tb", "p4510-4tb", "p4510-8tb", "p3700-1600gb", "960pro-512gb"),
            *("900p-280gb", "900p-480gb", "p4800x-375gb", "p4800x-750gb"),
        ],
        "count": range(2, 22),
        "level": [0, 5, 10],
        "op": ["randread", "read"],
        "bs": ["4k", "16k", "128k"],
        "qd": 64,
        "demand_iops": [1000, 4000, 16000],
    }
    store = tmp_path / "sweep.jsonl"
    stopping = threading.Thread(target=interrupt_when_grown, args=(store, 5000))
    stopping.start()
    with pytest.raises(KeyboardInterrupt):
        fullstripe.sweep(grid, store=store)
    stopping.join()
    kept = store.read_bytes().count(b"\n") - 1
    swept = fullstripe.sweep(grid, store=store)
    assert len(swept.rows) == 10_800
    assert swept.recalled == kept >= 5000
    for row in swept.rows[::1000]:
        if row.point:
            assert fullstripe.plan(**row.arguments).points[0].metrics == row.point.metrics
    print(json.dumps({"rows": len(swept.rows), "computed": swept.computed + swept.recalled}))


def interrupt_when_grown(store: Path, results: int) -> None:
    while not store.exists() or store.read_bytes().count(b"\n") < results:
        threading.Event().wait(1)
    os.kill(os.getpid(), signal.SIGINT)
