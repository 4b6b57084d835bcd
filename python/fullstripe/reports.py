"""What plans and predictions report.

Figures are named as in files of points: `iops`, `bytes_per_s`, `latency_us.mean`, `latency_us.p99`, `watts`,
`cpu_cores`. The last word of a name is its unit where it has one; `latency_us` is from submission to completion, and
`response_us` from the moment at which the request should have begun.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ._frame import Row, banded, configured, frame, known, measured

if TYPE_CHECKING:
    import pandas

Interval = tuple[float | None, float | None]
"""From the first number to the second; None where there is no end."""

Level = int | str
"""0, 1, 5 or 10; "none" for one drive without RAID."""


@dataclass(frozen=True)
class Figure:
    """One figure."""

    value: float
    unit: str
    """`IOPS`, `B/s`, `us`, `W`, `cores`, `requests`, `%` or `s`."""
    interval: Interval | None = None
    """Its 95 % confidence interval over the runs; None with fewer than five."""
    verdict: str | None = None
    """The verdict on a bound, if there is one."""


@dataclass(frozen=True)
class Setup:
    """Drives, array, machine and software."""

    drive: str
    count: int
    level: Level
    platform: str
    host: str
    stack: str
    chunk_kib: int | None = None
    """None: the default of the stack."""
    engine_cores: int | None = None
    """None: one."""
    export: str | None = None
    """How clients of other processes reach the engine; None: they are in its process."""
    condition: str | None = None
    """`degraded` or `rebuilding`; None: the array is whole."""
    rebuild_mb_s: int | None = None
    """Limit of a rebuild on each drive; None: no limit."""


@dataclass(frozen=True)
class Workload:
    """The load of clients."""

    op: str
    threads: int
    read_pct: int | None = None
    bs: str | None = None
    align: str | None = None
    qd: int | None = None
    """Outstanding requests of each thread."""
    demand_iops: int | None = None
    """Requests per second of all threads together; None: as many as possible."""
    arrivals: str | None = None
    hot_access_pct: int | None = None
    hot_span_pct: int | None = None
    api: str | None = None
    completion: str | None = None
    skip_seconds: int | None = None
    seconds: int | None = None


@dataclass(frozen=True)
class Configuration:
    """Everything that the figures of a point depend on."""

    setup: Setup
    state: str
    """How the drives were used before: `fresh`, `filled`, `steady`, `worn` or `powered-on`."""
    workload: Workload


@dataclass(frozen=True)
class Limit:
    """A resource that limits a point."""

    name: str
    gain_percent: float | None = None
    """Throughput gained if it were a tenth faster."""


@dataclass(frozen=True)
class Limits:
    """What limits a point, and what would limit it next."""

    first: Limit
    behind: Limit | None = None
    behind_iops: float | None = None
    """Requests per second once the first limit is out of the way."""


@dataclass(frozen=True)
class Ideal:
    """The prediction of a plain calculator."""

    iops: float
    bytes_per_s: float
    watts: float
    limited_by: str


@dataclass(frozen=True)
class Cores:
    """Busy cores by who keeps them busy."""

    client: float
    kernel: float
    raid: float


@dataclass(frozen=True)
class Capacity:
    """What an array holds."""

    usable_bytes: int
    member_bytes: int
    """What it takes of each drive."""


@dataclass(frozen=True)
class Price:
    """What an array costs, in the currency of the plan."""

    total: float
    per_usable_tb: float
    per_thousand_iops: float | None = None


@dataclass(frozen=True)
class Power:
    """What an array's drives use."""

    watts: float
    joules_per_million_io: float | None = None


@dataclass(frozen=True)
class Endurance:
    """How long the drives last under a load that goes on day and night."""

    amplification: float
    """Bytes written to drives for each byte that clients write."""
    drive_writes_per_day: float
    years: float


@dataclass(frozen=True)
class SecondLoss:
    """A second loss while a drive is being rebuilt. Probabilities are from 0 to 1."""

    rebuild_seconds: float
    other_drives: int
    read_bytes: float
    drive: float
    """The probability that another drive fails meanwhile."""
    block: float
    """The probability that some sector of them cannot be read."""
    either: float


@dataclass(frozen=True)
class Losses:
    """What is lost when drives fail."""

    annual_failure_share: float
    survives_one: bool
    first_per_year: float
    """The probability that some drive of the array fails within a year."""
    second: SecondLoss | None = None


@dataclass(frozen=True)
class Sizing:
    """What an array holds, costs, uses and risks under one load."""

    drives: int
    spares: int
    capacity: Capacity
    power: Power
    losses: Losses
    price: Price | None = None
    """None without prices."""
    endurance: Endurance | None = None
    """None if the load writes nothing."""

    def row(self) -> Row:
        """The columns of a flat row."""
        return {
            "price": self.price and self.price.total,
            "joules_per_million_io": self.power.joules_per_million_io,
            "endurance_years": self.endurance and self.endurance.years,
            "second_loss": self.losses.second and self.losses.second.either,
        }


@dataclass(frozen=True)
class Drawn:
    """The figures of drives that a data sheet may describe, one for each draw of what the sheet does not say."""

    metrics: dict[str, list[float]]
    bands: dict[str, Interval] = field(default_factory=dict)
    """The range of each figure."""
    cores: list[Cores] = field(default_factory=list)
    rebuild_bytes_per_s: list[float] = field(default_factory=list)
    sizing: list[Sizing] = field(default_factory=list)


@dataclass(frozen=True)
class Rebuild:
    """A rebuild beside the load."""

    bytes_per_s: float
    whole_drive_seconds: float | None = None
    """None if the rebuild makes no progress."""


@dataclass(frozen=True)
class ReadsBeforeWrites:
    """What RAID 5 reads before it writes although clients write in order."""

    bytes_per_written_byte: float
    reason: str


@dataclass(frozen=True)
class PlanPoint:
    """An array under a load."""

    setup: str
    """The name of the setup: `RAID 5`, `RAID 5 degraded`."""
    load: str
    """The name of the load: `randread 4k`."""
    configuration: Configuration
    seeds: list[int]
    usable_bytes: int
    metrics: dict[str, Figure]
    is_other: bool = False
    """Whether the setup comes from the file to compare with."""
    varied: list[int] = field(default_factory=list)
    drawn: Drawn | None = None
    """None if the drive has a profile; else `metrics` are those of a usual such drive."""
    cores: Cores | None = None
    limits: Limits | None = None
    ideal: Ideal | None = None
    rebuild: Rebuild | None = None
    reads_before_writes: ReadsBeforeWrites | None = None
    sizing: Sizing | None = None
    notes: list[str] = field(default_factory=list)

    def value(self, metric: str) -> float | None:
        """A figure, in its unit; None if the point does not have it."""
        figure = self.metrics.get(metric)
        return None if figure is None else figure.value

    def band(self, metric: str) -> Interval | None:
        """The range of a figure over the drives that a data sheet may describe; None if the drive has a profile."""
        return None if self.drawn is None else self.drawn.bands.get(metric)

    def row(self) -> Row:
        """The point as one flat row: its configuration, figures, limits and sizing; what is missing is left out.

        Columns are named as in reports. `METRIC.low` and `METRIC.high` are the ends of a figure's confidence interval,
        `METRIC.band_low` and `METRIC.band_high` those of its range if the drive is known from its data sheet only.
        """
        row = {
            **configured(self.configuration),
            **measured(self.metrics),
            **banded(self.drawn.bands if self.drawn else {}),
            "usable_bytes": self.usable_bytes,
        }
        if self.limits is not None:
            row["limited_by"] = self.limits.first.name
            row["limited_next_by"] = self.limits.behind and self.limits.behind.name
        if self.rebuild is not None:
            row["rebuild_bytes_per_s"] = self.rebuild.bytes_per_s
        if self.sizing is not None:
            row.update(self.sizing.row())
        return known(row)


@dataclass(frozen=True)
class LeftOut:
    """A setup that is not planned because it is impossible."""

    setup: str
    reason: str
    varied: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Difference:
    """In what two setups differ."""

    about: str
    ours: str
    other: str


@dataclass(frozen=True)
class Changed:
    """What changes in one load."""

    load: str
    ours_limited_by: str
    other_limited_by: str
    times: float | None = None
    """How many times the requests of the other our setup serves."""


@dataclass(frozen=True)
class Compared:
    """A setup of the plan and one of the file that it is compared with."""

    ours: str
    other: str
    environment: list[Difference]
    array: list[Difference]
    loads: list[Changed]


@dataclass(frozen=True)
class KeyAnswer:
    """What one publication says of one VROC key for an array."""

    key: str
    verdict: str
    of_level: str
    because: str
    publication: str
    where: str
    days: int | None = None
    tool: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class BrokenRule:
    """A rule of VROC about shapes that an array breaks."""

    rule: str
    because: str
    is_certain: bool
    publication: str


@dataclass(frozen=True)
class AsVroc:
    """What Intel VROC would take of an array."""

    setup: str
    level: int
    drives: int
    purpose: str
    domains: list[str]
    keys: list[KeyAnswer]
    broken: list[BrokenRule]
    publications: dict[str, str]


@dataclass(frozen=True)
class Known:
    """A number that a plan was computed from, and where it comes from."""

    of: str
    key: str
    status: str
    """`sheet`, `reported`, `fitted`, `prior`, `measured`, `formula` or `yours`."""
    source: str
    value: float | None = None
    drawn: tuple[float, float] | None = None


@dataclass(frozen=True)
class Simulator:
    """The work behind a plan: the only part that depends on the machine that computed it."""

    commands: int
    user_cpu_seconds: float | None = None
    commands_per_user_cpu_second: float | None = None


@dataclass(frozen=True)
class Plan:
    """What arrays will do, and what limits them."""

    schema: int
    program: str
    points: list[PlanPoint]
    simulator: Simulator
    left_out: list[LeftOut] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    vroc: list[AsVroc] = field(default_factory=list)
    provenance: list[Known] = field(default_factory=list)
    currency: str | None = None

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each point (`PlanPoint.row`). Needs pandas."""
        return frame([point.row() for point in self.points])


@dataclass(frozen=True)
class PredictedPoint:
    """A point of a file of points, with its figures."""

    name: str
    provenance: str
    """`predicted`, `measured` or `ideal`."""
    configuration: Configuration
    seeds: list[int]
    metrics: dict[str, Figure]
    limited_by: str | None = None
    notes: list[str] = field(default_factory=list)

    def value(self, metric: str) -> float | None:
        """A figure, in its unit; None if the point does not have it."""
        figure = self.metrics.get(metric)
        return None if figure is None else figure.value

    def row(self) -> Row:
        """The point as one flat row: its name, configuration and figures; what is missing is left out."""
        row = {
            "name": self.name,
            **configured(self.configuration),
            **measured(self.metrics),
            "limited_by": self.limited_by,
        }
        return known(row)


@dataclass(frozen=True)
class Predictions:
    """The results of a file of points."""

    schema: int
    program: str
    points: list[PredictedPoint]
    suite: str | None = None

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each point (`PredictedPoint.row`). Needs pandas."""
        return frame([point.row() for point in self.points])
