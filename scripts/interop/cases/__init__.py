"""All cases, in the order in which the table shows them."""
from . import clean, crash, degraded, sync

MODULES = [clean, crash, degraded, sync]


def all_cases():
    return [case for module in MODULES for case in module.cases()]
