"""The store of a sweep: a file of results, one JSON object a line, that only grows.

The first line says what the file is. Each further line has the key of a point (a digest of all that its figures depend on),
its arguments for people, and its report or the reason why it has none. A line is written whole and then forced to the drive
before the next; if the machine stops meanwhile, the last line may be torn, and is cut off when the file is opened again.
Damage anywhere else is an error: nothing is guessed.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ._native import Error

_FIRST_LINE = b'{"fullstripe_sweep": 1}\n'


class Store:
    """A file of results, which this process alone uses."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> "Store":
        try:
            self._file = open(self._path, "a+b")
        except OSError as why:
            raise Error(f"cannot open the store {self._path}: {why.strerror}") from why
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._begin()
        except BlockingIOError as why:
            self._file.close()
            raise Error(
                f"the store {self._path} is in use by another sweep: wait for it, or give another file"
            ) from why
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def recall(self) -> Iterator[tuple[str, str | None, str | None]]:
        """Key, report and reason of each result, one of the latter two None."""
        self._file.seek(0)
        next(self._file)
        for number, line in enumerate(self._file, 2):
            entry = self._parsed(line, number)
            key, report, left_out = entry.get("key"), entry.get("point"), entry.get("left_out")
            if not isinstance(key, str) or (report is None) == (left_out is None):
                raise self._damaged(number)
            yield key, None if report is None else json.dumps(report), left_out

    def keep(self, key: str, arguments: str, report: str | None, left_out: str | None) -> None:
        """Appends a result."""
        entry: dict[str, Any] = {"key": key, "arguments": json.loads(arguments)}
        if report is None:
            entry["left_out"] = left_out
        else:
            entry["point"] = json.loads(report)
        self._append((json.dumps(entry) + "\n").encode())

    def _begin(self) -> None:
        """Writes the first line of a new file, or checks that of an old one and cuts off what is torn at its end."""
        self._file.seek(0)
        first = self._file.readline()
        if first == _FIRST_LINE:
            self._cut_torn_end()
        elif _FIRST_LINE.startswith(first):
            # An empty file, or the beginning of our first line.
            self._file.truncate(0)
            self._append(_FIRST_LINE)
        else:
            raise Error(f"{self._path} is no store of a sweep of this version: give another file")

    def _cut_torn_end(self) -> None:
        self._file.seek(0)
        whole_bytes = 0
        for line in self._file:
            if line.endswith(b"\n"):
                whole_bytes += len(line)
        self._file.truncate(whole_bytes)

    def _append(self, line: bytes) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as why:
            raise Error(f"cannot write to the store {self._path}: {why.strerror}") from why

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except ValueError as why:
            raise self._damaged(number) from why
        if not isinstance(entry, dict):
            raise self._damaged(number)
        return entry

    def _damaged(self, number: int) -> Error:
        return Error(
            f"line {number} of the store {self._path} is damaged: remove that line, and its point is computed again"
        )
