"""All cases, in the order in which the table shows them."""
from . import big, clean, crash, degraded, spares, sync, tools, volumes

MODULES = [clean, crash, degraded, sync, spares, volumes, big, tools]


def all_cases():
    return [case for module in MODULES for case in module.cases()]
