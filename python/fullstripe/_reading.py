"""Turns reports, which are JSON, into dataclasses.

A key that a dataclass does not have is an error: both halves of the package belong together, and nothing of a report is
dropped silently.
"""

import json
from typing import TypeVar

from cattrs import Converter

Report = TypeVar("Report")

_converter = Converter(forbid_extra_keys=True)


# A level is a number or "none", the end of an interval a number or nothing: types that JSON keeps apart by itself.
_converter.register_structure_hook_func(
    lambda kind: kind in (int | str, float | None), lambda value, _: value
)


def read(kind: type[Report], text: str) -> Report:
    """The report `text` as `kind`."""
    return _converter.structure(json.loads(text), kind)
