"""All cases, in the order in which the table shows them."""
from . import big, clean, crash, degraded, spares, sync, tools, volumes

# Named beside each other so that a new group has one obvious place; cases with a write-intent bitmap belong into
# a module of their own.
MODULES = [clean, crash, degraded, sync, spares, volumes, big, tools]


def all_cases():
    return [case for module in MODULES for case in module.cases()]
