"""All cases, in the order of the table. Cases of one sector size stand together, because they share a machine."""
from . import attach, exerciser, failures, file_systems, killed, layers, reboots, stopped


def all_cases():
    modules = (attach, file_systems, failures, layers, exerciser, killed, stopped, reboots)
    cases = [case for module in modules for case in module.cases()]
    return sorted(cases, key=lambda case: case.sector_bytes)
