"""`plan`, `predict`, `explain` and `examine`: what the commands of the same names do, as functions."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._progress import bar
from ._reading import read
from .drives import Examined
from .explanations import Explanation
from .reports import Level, Plan, Predictions

PathText = str | os.PathLike[str]


def plan(
    drive: str,
    *,
    platform: str,
    count: int | None = None,
    level: Level | Sequence[Level] | None = None,
    op: str | None = None,
    bs: str | int | None = None,
    threads: int | None = None,
    qd: int | None = None,
    read_pct: int | None = None,
    demand_iops: int | None = None,
    workload: PathText | None = None,
    completion: str | None = None,
    state: str | None = None,
    chunk_kib: int | None = None,
    engine_cores: int | None = None,
    host: str | None = None,
    stack: str | None = None,
    export: str | None = None,
    degraded: bool = False,
    rebuilding: bool = False,
    rebuild_mb_s: int | Sequence[int] | None = None,
    spares: int = 0,
    prices: PathText | None = None,
    annual_failure_percent: float | None = None,
    from_sheet: bool = False,
    as_vroc: str | None = None,
    compare: PathText | None = None,
    provenance: bool = False,
    jobs: int | None = None,
) -> Plan:
    """Predicts what arrays of these drives will do on this platform, what limits them, and what they cost and risk.

    Args:
        drive: The drives, all alike: an id, or a profile or data sheet of your own (PATH or PATH#ID).
        platform: The machine around the drives: an id, or a file of your own.
        count: Number of drives; 4 unless given.
        level: RAID level or levels: 0, 1, 5, 10, or "none" for one drive without RAID. Unless given, those of 0, 5 and
            10 that are possible.
        op: Kind of the requests: randread, randwrite, read, write, randmix, seqmix. Unless given, four usual loads.
        bs: A request, like "4k", or in bytes.
        threads: Threads of clients.
        qd: Requests outstanding per thread.
        read_pct: Reads among the requests of a mix, in percent.
        demand_iops: Requests per second that clients issue, even if the array cannot keep up.
        workload: A file with named loads, in place of `op` and the rest.
        completion: How completed I/O is noticed: interrupt, polled or hybrid.
        state: How the drives were used before: fresh, filled, steady, worn or powered-on.
        chunk_kib: Chunk in KiB; the stack's default unless given.
        engine_cores: Cores that run the engine; 1 unless given.
        host: Operating system and its drivers; linux-6.12 unless given.
        stack: The RAID implementation; fullstripe unless given.
        export: How clients in other processes reach the engine: nbd or ublk.
        degraded: Also with one drive missing.
        rebuilding: Also with a new drive that is being rebuilt.
        rebuild_mb_s: Limits of the rebuild on each drive; 0 is unlimited.
        spares: Drives that stand by.
        prices: A file of your prices.
        annual_failure_percent: Drives of a hundred that fail in a year.
        from_sheet: Plan from the drive's data sheet although there is a profile of it.
        as_vroc: Say also what Intel VROC would take of the arrays: "data" or "boot".
        compare: A file of other setups, planned with the same loads.
        provenance: List also every figure that the plan is computed from.
        jobs: Threads that compute; one for each core unless given. The result does not depend on it.

    Raises:
        Error: Something is unknown, malformed or impossible.
    """
    arguments = {
        **locals(),
        "workload": _text(workload),
        "prices": _text(prices),
        "compare": _text(compare),
    }
    del arguments["jobs"]
    with bar("planning") as progress:
        return read(Plan, _native.plan(as_json(arguments), jobs, progress))


def predict(
    points: PathText | Mapping[str, Any], *, deep: bool = False, jobs: int | None = None
) -> Predictions:
    """Predicts the points of a file, or of data in the same form: `schema`, `setup` and `points` (docs/planning.md).

    Args:
        points: The file, or a mapping with its keys; `schema` is 1 unless given.
        deep: Run long enough for the 99.999th percentile, which takes many times as long.
        jobs: Threads that compute; one for each core unless given. The result does not depend on it.

    Raises:
        Error: The points, or a drive that they name, do not exist, have the wrong form or are impossible.
    """
    with bar("predicting") as progress:
        if isinstance(points, Mapping):
            given = as_json({"schema": 1, **points})
            text = _native.predict_points(given, deep, jobs, progress)
        else:
            text = _native.predict(Path(points), deep, jobs, progress)
    return read(Predictions, text)


def explain(
    operation: str,
    *,
    offset_bytes: int,
    length_bytes: int,
    level: int | None = None,
    members: int | None = None,
    chunk_kib: int | None = None,
    volume: str | None = None,
    drives: Sequence[str] = (),
    failed: Sequence[int] = (),
) -> Explanation:
    """The plan of one request: which drives are read and written, in which order, and why. Nothing is read or written.

    The array is one that exists nowhere (`level`, `members`, `chunk_kib`), or the volume on these drives, as it is now.

    Args:
        operation: "read" or "write".
        offset_bytes: First byte in the volume.
        length_bytes: Length of the request.
        level: RAID level of an array that exists nowhere: 0, 1, 5 or 10.
        members: Its number of drives.
        chunk_kib: Its chunk; 128 unless given.
        volume: Name of a volume that exists.
        drives: Its drives: PATH[,serial=S][,sector=N].
        failed: Slots whose drives are taken to have failed.

    Raises:
        Error: There is no such array, the request does not fit it, or the drives that are left cannot carry it out.
    """
    if operation not in ("read", "write"):
        raise _native.Error(f'operation must be "read" or "write", is "{operation}"')
    if (level is None) == (volume is None):
        raise _native.Error("give level and members of an array, or volume and drives: one of both")
    arguments = {**locals(), "is_write": operation == "write"}
    del arguments["operation"]
    if volume is None:
        del arguments["drives"]
    return read(Explanation, _native.explain(as_json(arguments)))


def examine(*drives: PathText) -> Examined:
    """Everything in the metadata of each drive, and what else it holds. Drives are opened read-only.

    Args:
        drives: PATH[,serial=S][,sector=N] each.

    A drive that cannot be read is listed in `unreadable`, with the reason.
    """
    if not drives:
        raise _native.Error("name at least one drive to examine")
    return read(Examined, _native.examine([os.fspath(drive) for drive in drives]))


def _text(path: PathText | None) -> str | None:
    return None if path is None else os.fspath(path)


def as_json(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON. Sequences become lists, and numbers of other libraries plain ones."""
    return json.dumps(arguments, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        # A number of NumPy or pandas.
        return value.item()
    if isinstance(value, (Sequence, range)):
        return list(value)
    raise _native.Error(f"{value!r} is neither a number nor a text: give one of both")
