"""Sweeps: many arrays, one point each, computed by any number of workers.

`sweep` combines the values of a grid, asks for the key of each point, and gives what its store does not have yet to an
executor. A point depends on nothing but its arguments and on what these name, so results are the same on one worker and
on many, in any order. Each result goes to the store as it comes, so an aborted sweep loses only the points that were
being computed.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._frame import Row, frame
from ._progress import bar
from ._reading import read
from ._store import Store
from .functions import PathText, as_json
from .reports import PlanPoint

if TYPE_CHECKING:
    import pandas

Grid = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""Values by argument, where a list, tuple or range is varied; or the arguments of each point, one by one."""


@dataclass(frozen=True)
class SweepRow:
    """A point of a sweep."""

    arguments: dict[str, Any]
    """What was asked."""
    point: PlanPoint | None
    """Its figures; None if there are none."""
    left_out: str | None = None
    """Why there are none: the rule that such an array breaks, or what is not modelled."""


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep, in the order of its grid: the last argument varies fastest."""

    rows: list[SweepRow]
    computed: int
    """Points that were computed."""
    recalled: int
    """Points that the store had already."""

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each point: its arguments, figures, limits and sizing, and why it was left out. Needs pandas."""
        rows: list[Row] = []
        for row in self.rows:
            figures = row.point.row() if row.point else {"left_out": row.left_out}
            rows.append({**row.arguments, **figures})
        return frame(rows)


class Stopped(RuntimeError):
    """A sweep ended before all its points were computed. Those that were are in its store, if it has one."""


@dataclass(frozen=True)
class _Answer:
    """What a worker says of a point: its report as JSON, or why there is none."""

    key: str
    report: str | None
    left_out: str | None


def sweep(
    grid: Grid, *, executor: Executor | None = None, store: PathText | None = None
) -> Sweep:
    """Plans many arrays, one point each.

    Args:
        grid: Arguments of `plan`. A list, tuple or range is varied, all combinations of them; other values are the same
            for all points. Each point has one `level` and one `op`. Or an iterable of such arguments, one for each point.
        executor: Computes the points: any executor of `concurrent.futures`, Dask's `Client.get_executor()` too. Unless
            given, a thread for each core of this machine. Workers need this package, the same version of it, and the
            files that arguments name.
        store: A file that keeps results. If it is there already, its results are taken and the rest is computed: so a
            sweep goes on where it was stopped, and a larger one computes only what is new.

    Impossible arrays are rows with a reason instead of figures.

    Raises:
        Error: An argument is unknown or malformed, or a worker had another program or other files.
        Stopped: An executor or a worker failed.
    """
    asked = [(arguments, as_json(arguments)) for arguments in _combined(grid)]
    keys = [_native.point_key(text) for _, text in asked]
    to_compute = {key: text for (_, text), (key, _) in zip(asked, keys) if key is not None}
    opened = nullcontext() if store is None else Store(os.fspath(store))
    with opened as kept:
        answers = {} if kept is None else _recalled(kept, to_compute)
        recalled = len(answers)
        missing = {key: text for key, text in to_compute.items() if key not in answers}
        for answer in _computed(missing, executor):
            if kept is not None:
                kept.keep(answer.key, to_compute[answer.key], answer.report, answer.left_out)
            answers[answer.key] = answer
    rows = [
        _row(arguments, answers.get(key) if key else None, reason)
        for (arguments, _), (key, reason) in zip(asked, keys)
    ]
    return Sweep(rows=rows, computed=len(missing), recalled=recalled)


def _combined(grid: Grid) -> Iterator[dict[str, Any]]:
    if not isinstance(grid, Mapping):
        yield from (dict(arguments) for arguments in grid)
        return
    axes = [value if _is_varied(value) else [value] for value in grid.values()]
    for values in itertools.product(*axes):
        yield dict(zip(grid, values))


def _is_varied(value: Any) -> bool:
    is_text = isinstance(value, (str, bytes, os.PathLike))
    return not is_text and (isinstance(value, Sequence) or hasattr(value, "tolist") and bool(value.ndim))


def _recalled(kept: Store, wanted: Mapping[str, str]) -> dict[str, _Answer]:
    return {
        key: _Answer(key, report, left_out)
        for key, report, left_out in kept.recall()
        if key in wanted
    }


def _row(arguments: dict[str, Any], answer: _Answer | None, reason: str | None) -> SweepRow:
    if answer is None:
        return SweepRow(arguments, None, reason)
    if answer.report is None:
        return SweepRow(arguments, None, answer.left_out)
    return SweepRow(arguments, read(PlanPoint, answer.report))


def _compute(key: str, arguments: str) -> _Answer:
    """Computes a point. Runs on a worker."""
    try:
        there, report = _native.point(arguments)
    except _native.Error as why:
        # The arguments were understood where the sweep began; so this point has no figures, or a file is missing here.
        there = _native.point_key(arguments)[0] or ""
        _check_key(key, there)
        return _Answer(key, None, str(why))
    _check_key(key, there)
    return _Answer(key, report, None)


def _check_key(key: str, there: str) -> None:
    if key != there:
        raise _native.Error(
            "a worker has another version of fullstripe, or other content in a file that the arguments name: "
            "install the same version everywhere, and give workers the same files"
        )


def _computed(points: Mapping[str, str], executor: Executor | None) -> Iterator[_Answer]:
    """The answers to all points, by key, as they come."""
    if not points:
        return
    with bar("sweeping") as progress, _threads_or(executor) as workers:
        futures = _submitted(points, workers)
        told: set[Future[_Answer]] = set()
        try:
            for future in as_completed(futures):
                told.add(future)
                yield future.result()
                progress(len(told), len(futures))
        except GeneratorExit:
            raise
        except BaseException as why:
            # What has been computed meanwhile is not lost.
            for future in futures:
                if future not in told and future.done() and not _has_failed(future):
                    yield future.result()
            if isinstance(why, (_native.Error, KeyboardInterrupt)):
                raise
            raise Stopped(
                f"a worker failed: {type(why).__name__}: {why}; call sweep again with the same store, and it goes on"
            ) from why
        finally:
            for future in futures:
                future.cancel()


def _has_failed(future: "Future[_Answer]") -> bool:
    return future.cancelled() or future.exception() is not None


def _submitted(points: Mapping[str, str], workers: Executor) -> list["Future[_Answer]"]:
    futures: list[Future[_Answer]] = []
    for key, text in points.items():
        try:
            futures.append(workers.submit(_compute, key, text))
        except RuntimeError as why:
            for future in futures:
                future.cancel()
            raise Stopped(f"the executor takes no more work: {why}") from why
    return futures


@contextmanager
def _threads_or(executor: Executor | None) -> Iterator[Executor]:
    """The executor, or threads of our own, which end with the block."""
    if executor is not None:
        yield executor
        return
    # The compiled half computes without Python's lock, so threads keep all cores busy.
    threads = ThreadPoolExecutor(max_workers=os.cpu_count(), thread_name_prefix="fullstripe")
    try:
        yield threads
    finally:
        threads.shutdown(cancel_futures=True)
