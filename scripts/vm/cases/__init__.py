"""All cases, in the order of the table. Cases of one sector size stand together, because they share a machine."""
from ..case import Case
from . import attach, exerciser, failures, file_systems, killed, layers, reboots, recovered, stopped


# Groups whose cases are the same whatever makes the block device. The others know what becomes of a device whose server ends.
BOTH_WAYS = ("device", "files", "failures", "layers")


def by_ublk(case):
    """The same case with ublk's device. What it shows above the device is shown by the other way in short runs."""
    long = case.long or case.group != "device"
    return Case(case.group, case.name, case.run, case.sector_bytes, long, way="ublk")


def all_cases():
    modules = (attach, file_systems, failures, layers, exerciser, killed, recovered, stopped, reboots)
    cases = [case for module in modules for case in module.cases()]
    cases += [by_ublk(case) for case in cases if case.group in BOTH_WAYS]
    return sorted(cases, key=lambda case: case.sector_bytes)
