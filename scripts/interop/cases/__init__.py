"""All cases, in the order in which the table shows them."""
from . import badblocks, big, bitmap, clean, crash, cuts, degraded, regions, spares, sync, tools, volumes

MODULES = [clean, crash, bitmap, regions, badblocks, degraded, sync, spares, volumes, big, cuts, tools]


def all_cases():
    return [case for module in MODULES for case in module.cases()]
