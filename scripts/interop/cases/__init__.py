"""All cases, in the order in which the table shows them."""
from . import big, bitmap, clean, crash, degraded, spares, sync, tools, volumes

MODULES = [clean, crash, bitmap, degraded, sync, spares, volumes, big, tools]


def all_cases():
    return [case for module in MODULES for case in module.cases()]
