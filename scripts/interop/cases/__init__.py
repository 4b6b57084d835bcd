"""All cases, in the order in which the table shows them."""
from . import clean, crash

MODULES = [clean, crash]


def all_cases():
    return [case for module in MODULES for case in module.cases()]
