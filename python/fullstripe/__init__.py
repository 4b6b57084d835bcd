"""Plans RAID arrays of NVMe drives before anybody has bought them.

The engine of fullstripe itself is run in virtual time over models of drives and machines. `plan` says what arrays will do,
what limits them, and what they cost and risk; `sweep` does so for many arrays, on as many workers as there are; `predict`
predicts the points of a file; `explain` shows which drives a request reads and writes; `examine` shows the metadata that
drives hold. Sizes are in bytes unless a name says otherwise, times in the unit that a name ends in.
"""

from ._native import Error, __version__
from .drives import Examined
from .explanations import Explanation
from .functions import examine, explain, plan, predict
from .reports import Figure, Plan, PlanPoint, Predictions
from .sweeps import Stopped, Sweep, SweepRow, sweep

__all__ = [
    "Error",
    "Examined",
    "Explanation",
    "Figure",
    "Plan",
    "PlanPoint",
    "Predictions",
    "Stopped",
    "Sweep",
    "SweepRow",
    "__version__",
    "examine",
    "explain",
    "plan",
    "predict",
    "sweep",
]
