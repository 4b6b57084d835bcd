"""All cases, in the order of the table. Cases of one sector size stand together, because they share a machine."""
import copy

from interop.requirement import require

from . import (attach, bays, boot, exerciser, failures, file_systems, given_up, health, hung, kept, killed, layers, memory, nvmet,
               package, platform, readme, reboots, recovered, root, several, shutdown, stopped, story, suspended, taken_over, two_machines,
               virtual_disk)

# Groups whose cases are the same whatever makes the block device. The others know what becomes of a device whose server ends.
BOTH_WAYS = ("device", "files", "failures", "layers", "exerciser")
# The group that also looks at the device which the server connects itself. To what lies above it, it is the same as nbd-client's.
EVERY_WAY = ("device",)
# What is run without --long: each way, and what others cannot show. CI runs those of EVERY_TIME and, in turn, one of TURNS. On a slow
# machine, that takes at most six minutes.
EVERY_TIME = {
    "device: RAID 5 of 4, as promised by kernel_nbd",
    "device: RAID 5 of 4, 4 KiB sectors, as promised by ublk",
    "failures: RAID 5 of 4: a drive is pulled out by ublk",
    "readme: ten lines to a file system by ublk",
}
TURNS = [
    {
        "orders: attach and detach by ublk",
        "layers: LVM by nbd",
        "recovered: RAID 5 of 4, ext4: killed by kernel_nbd",
        "boot: RAID 5 of 4, mounted by /dev/fullstripe/vol0: reboots by ublk",
    },
    {
        "device: a trim reaches the drives by ublk",
        "recovered: RAID 5 of 4, ext4: killed by ublk",
        "platform: the emulator's ports by nbd",
        "disk: a guest's ext4 on RAID 5 of 4 by vhost_user",
    },
]


def by(way, case):
    """The same case with the device made in another way."""
    other = copy.copy(case)
    other.way = way
    return other


def all_cases():
    modules = (attach, file_systems, failures, bays, health, layers, exerciser, killed, recovered, given_up, taken_over, hung, nvmet, virtual_disk, readme, stopped,
               suspended, reboots, boot, kept, root, shutdown, package, platform, several, story, memory, two_machines)
    cases = [case for module in modules for case in module.cases()]
    others = [by("ublk", case) for case in cases if case.group in BOTH_WAYS]
    others += [by("kernel_nbd", case) for case in cases if case.group in EVERY_WAY]
    cases += others
    return sorted(cases, key=lambda case: case.sector_bytes)


def short_cases(turn):
    """What is run without --long; of the turns, only this one, if one is given."""
    turns = TURNS if turn is None else [TURNS[turn % len(TURNS)]]
    short = EVERY_TIME.union(*turns)
    cases = [case for case in all_cases() if case.full_name() in short]
    missing = short - {case.full_name() for case in cases}
    require(not missing, f"cases that do not exist are to be run: {missing}")
    return cases
