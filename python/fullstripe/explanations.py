"""What a request does to the drives of an array."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._frame import frame

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Step:
    """A step of a plan."""

    stage: int
    """Steps of a stage run together, after those of the stage before."""
    kind: str
    """`read`, `write`, `log` (partial parity to the write-hole log) or `xor` (parity is computed)."""
    length_bytes: int
    slot: int | None = None
    """The slot of the drive; None for `xor`."""
    drive: str | None = None
    offset_bytes: int | None = None
    """On the drive; None for `xor`, and for `log`, whose place the engine chooses when it writes."""


@dataclass(frozen=True)
class RequestPlan:
    """The engine's plan for a part of a request."""

    why: str
    """The reason for the plan, a sentence."""
    steps: list[Step]
    row: int | None = None
    """Row of the volume, where the plan belongs to one."""
    parity_slot: int | None = None


@dataclass(frozen=True)
class Totals:
    """Member I/O of all plans, without what goes to write-hole logs."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int


@dataclass(frozen=True)
class Explanation:
    """A request and its plans, in the order in which they are made."""

    version: int
    level: int
    members: int
    chunk_bytes: int
    """0 for a mirror, which has no chunks."""
    operation: str
    offset_bytes: int
    length_bytes: int
    failed: list[int]
    """Slots that cannot be used."""
    plans: list[RequestPlan]
    totals: Totals
    volume: str | None = None
    """None for an array that exists nowhere."""

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each step, with the number and row of its plan. Needs pandas."""
        return frame(
            [
                {"plan": number, "row": plan.row, **vars(step)}
                for number, plan in enumerate(self.plans)
                for step in plan.steps
            ]
        )
