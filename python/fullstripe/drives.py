"""What drives hold: everything in their metadata, uninterpreted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Disk:
    """A row of the disk table."""

    serial: str
    size_bytes: int
    state: str
    """`member`, `spare`, `failed`, `missing`, `journal` or `unused`."""


@dataclass(frozen=True)
class WriteHoleLog:
    """The log that a volume keeps on a drive."""

    offset_bytes: int
    length_bytes: int
    state: str
    """`header`, `blank`, `torn`, `foreign` or `unreadable`."""
    units: int
    entries: int
    reason: str | None = None
    generation: int | None = None


@dataclass(frozen=True)
class Bitmap:
    """The write-intent bitmap that a volume keeps on a drive."""

    offset_bytes: int
    regions: int
    marked: int
    """Regions that may hold writes that were under way, or that a member lacks."""
    region_bytes: int | None = None
    events: int | None = None
    events_cleared: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Slot:
    """A slot of a volume."""

    row: int
    """Row of the disk table."""
    serial: str
    in_sync: bool


@dataclass(frozen=True)
class Migration:
    """An operation in progress."""

    kind: str
    state: str
    """State of the volume before."""
    done_bytes: int | None = None


@dataclass(frozen=True)
class Volume:
    """A volume as its record says."""

    name: str
    uuid: str
    level: int
    members: int
    size_bytes: int
    chunk_bytes: int
    """0 for RAID 1."""
    start_bytes: int
    component_bytes: int
    state: str
    dirty: bool
    write_hole_policy: str
    slots: list[Slot]
    write_hole_log: WriteHoleLog | None = None
    bitmap: Bitmap | None = None
    migration: Migration | None = None


@dataclass(frozen=True)
class BadBlocks:
    """A range of the bad block log."""

    row: int
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Reshape:
    """The migration record."""

    current_unit: int
    units: int


@dataclass(frozen=True)
class Record:
    """The record of a container on a drive."""

    format_version: str
    container_uuid: str
    family: str
    original_family: str
    generation: int
    """Number of the metadata update."""
    created_unix_s: int
    attributes: list[str]
    unsupported: list[str]
    """Features that forbid starting any volume here."""
    image_bytes: int
    disks: list[Disk]
    volumes: list[Volume]
    bad_blocks: list[BadBlocks]
    own_row: int | None = None
    """The drive's own row in the table; None if it is not listed."""
    reshape: Reshape | None = None


@dataclass(frozen=True)
class Shadow:
    """The second copy of a record that only fullstripe keeps."""

    state: str
    """`whole`, `damaged` or `unreadable`."""
    volumes: list[str]
    reason: str | None = None
    container_uuid: str | None = None
    generation: int | None = None
    replaced_generation: int | None = None
    same_as_record: bool | None = None


@dataclass(frozen=True)
class Drive:
    """What a drive holds."""

    name: str
    serial: str
    size_bytes: int
    sector_bytes: int
    holds: list[str]
    """Signatures of other formats."""
    model: str | None = None
    record: Record | None = None
    damaged: str | None = None
    """Why the record is not valid, if there is a damaged one."""
    shadow: Shadow | None = None


@dataclass(frozen=True)
class Examined:
    """What some drives hold."""

    version: int
    drives: list[Drive]
    unreadable: list[str]
    """Drives that could not be read, a sentence each."""
