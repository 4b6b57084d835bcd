"""Compares what `mdadm --examine` and `--detail` say of drives with `fullstripe examine --json`, field by field."""
import re

from .requirement import require

MIGRATIONS = {"initial synchronisation": "initialize", "rebuild": "rebuild", "verify": "verify", "repair": "repair"}
POLICIES = {"off": "off", "log on the members (PPL)": "Multiple distributed PPLs",
            "log on the members (PPL), one unit": "PPL distributed", "write-intent bitmap": "Write-intent bitmap"}


def fields(text):
    """The lines `key : value` of mdadm: of the container, of its disks in order, and of each volume."""
    container, disks, volumes = {}, [], {}
    place = container
    for line in text.splitlines():
        line = line.strip()
        name = re.fullmatch(r"\[(.*)\]:", line)
        if name:
            place = volumes.setdefault(name[1], {})
            continue
        key, colon, value = line.partition(" : ")
        key, value = key.strip(), value.strip()
        disk = re.fullmatch(r"Disk\d+ Serial", key)
        if disk:
            place = {"Number": int(key[4:6]), "Serial": value}
            disks.append(place)
        elif colon:
            place.setdefault(key, value)
    return container, sorted(disks, key=lambda disk: disk["Number"]), volumes


def number(text):
    return int(text.split()[0])


class Comparison:
    """Counts the compared fields; a disagreement names the drive and the field."""

    def __init__(self, where):
        self.where = where
        self.compared = 0

    def same(self, key, theirs, ours):
        self.compared += 1
        require(theirs == ours, f"{self.where}: mdadm says {key} is {theirs!r}, fullstripe {ours!r}")


def examined(where, text, drive, sector_bytes):
    """Compares one drive; returns the number of fields."""
    record = drive["record"]
    compare = Comparison(where)
    container, disks, volumes = fields(text)
    if record is None:
        compare.same("a record", "Magic" in container, False)
        return compare.compared
    require("Magic" in container, f"{where}: mdadm finds no record: {text[-300:]}")
    compare.same("Version", container["Version"], record["format_version"])
    # A spare belongs to no container: mdadm prints zeros, fullstripe the UUID that the family number would give.
    if record["volumes"]:
        compare.same("UUID", container["UUID"], record["container_uuid"])
    compare.same("Family", container["Family"], record["family"])
    compare.same("Orig Family", container["Orig Family"], record["original_family"])
    compare.same("Generation", int(container["Generation"], 16), record["generation"])
    # Older versions of mdadm print only this, newer ones the attribute bits before it.
    supported = container["Attributes"] == "All supported" or container["Attributes"].endswith("(supported)")
    compare.same("Attributes", supported, not record["unsupported"])
    compare.same("Checksum", container["Checksum"].endswith("correct"), True)
    # mdadm counts the record's sectors, fullstripe the bytes that it takes on the drive.
    compare.same("MPB Sectors", number(container["MPB Sectors"]) * sector_bytes, record["image_bytes"])
    compare.same("Disks", number(container["Disks"]), len(record["disks"]))
    compare.same("RAID Devices", number(container["RAID Devices"]), len(record["volumes"]))
    compare.same("disks", [disk["Number"] for disk in disks], list(range(len(record["disks"]))))
    for theirs, ours in zip(disks, record["disks"]):
        compare.same("Serial", theirs["Serial"], ours["serial"])
        compare.same("State", theirs["State"], disk_state(ours["state"]))
    for ours in record["volumes"]:
        require(ours["name"] in volumes, f"{where}: mdadm sees no volume {ours['name']}")
        volume(compare, volumes[ours["name"]], ours, record["own_row"], sector_bytes)
    return compare.compared


def disk_state(ours):
    return {"member": "active", "spare": "spare", "failed": "active failed", "missing": "active failed"}[ours]


def volume(compare, theirs, ours, own_row, sector_bytes):
    # While a migration runs, mdadm prints "what it will be <-- what it is".
    now = lambda key: theirs[key].split("<--")[-1].strip()
    then = lambda key: theirs[key].split("<--")[0].strip()
    compare.same("UUID", theirs["UUID"], ours["uuid"])
    compare.same("RAID Level", now("RAID Level"), str(ours["level"]))
    compare.same("Members", number(now("Members")), ours["members"])
    in_sync = "".join("U" if slot["in_sync"] else "_" for slot in ours["slots"])
    compare.same("Slots", now("Slots"), f"[{in_sync}]")
    own = [slot for slot, entry in enumerate(ours["slots"]) if entry["row"] == own_row]
    this = theirs["This Slot"].split()[0]
    compare.same("This Slot", this, str(own[0]) if own else "?")
    compare.same("Sector Size", number(theirs["Sector Size"]), sector_bytes)
    compare.same("Array Size", number(theirs["Array Size"]) * sector_bytes, ours["size_bytes"])
    compare.same("Sector Offset", number(theirs["Sector Offset"]) * sector_bytes, ours["start_bytes"])
    rows = number(theirs["Num Stripes"]) * (ours["chunk_bytes"] or 65536)
    compare.same("Num Stripes", rows * (2 if ours["level"] in (1, 10) else 1), ours["component_bytes"])
    compare.same("Chunk Size", number(now("Chunk Size")) << 10, ours["chunk_bytes"] or 65536)
    compare.same("Dirty State", theirs["Dirty State"], "dirty" if ours["dirty"] else "clean")
    policy = POLICIES.get(ours["write_hole_policy"], ours["write_hole_policy"])
    compare.same("RWH Policy", theirs["RWH Policy"].replace(" (old)", ""), policy)
    migration = ours["migration"]
    if migration is None:
        compare.same("Migrate State", theirs["Migrate State"], "idle")
        compare.same("Map State", theirs["Map State"], ours["state"])
        return
    compare.same("Migrate State", theirs["Migrate State"], MIGRATIONS.get(migration["kind"], migration["kind"]))
    compare.same("Map State, wanted", then("Map State"), ours["state"])
    compare.same("Map State, reached", now("Map State").replace("uninitialized", "uninitialised"), migration["state"])


def detailed(where, text, volumes):
    """Compares md's own report on a volume that it runs; returns the number of fields."""
    compare = Comparison(where)
    theirs = fields(text)[0]
    ours = [volume for volume in volumes if volume["uuid"] == theirs.get("UUID")]
    require(ours, f"{where}: md runs a volume that the record does not have: {text[-500:]}")
    ours = ours[0]
    # A RAID 10 of four is level 1 on the drives.
    level = 10 if ours["level"] == 1 and ours["members"] > 2 else ours["level"]
    compare.same("Raid Level", theirs["Raid Level"], f"raid{level}")
    compare.same("Array Size", number(theirs["Array Size"]) << 10, ours["size_bytes"])
    if "Used Dev Size" in theirs:
        compare.same("Used Dev Size", number(theirs["Used Dev Size"]) << 10, ours["component_bytes"])
    compare.same("Raid Devices", number(theirs["Raid Devices"]), ours["members"])
    if level in (0, 5, 10):
        compare.same("Chunk Size", theirs["Chunk Size"], f"{ours['chunk_bytes'] >> 10}K")
    if level == 5:
        compare.same("Layout", theirs["Layout"], "left-asymmetric")
    if level == 10:
        compare.same("Layout", theirs["Layout"], "near=2")
    for line in re.findall(r"^\s+\d+\s+\d+\s+\d+\s+(\d+)\s+active sync\s+(\S+)$", text, re.MULTILINE):
        slot = ours["slots"][int(line[0])]
        # A slot that is out of sync in the record may be in sync in md by now.
        if slot["in_sync"]:
            compare.same(f"slot {line[0]}", line[1], slot["serial"])
    return compare.compared
