"""Pipeline-parallel training schedules: proven, simulated, drawn, improved.

    >>> import stringline
    >>> plan = stringline.load("zb_h1").plan(P=4, M=8)
    >>> step = plan.simulate({"F": 18522, "I": 18086, "W": 9337, "p2p": 601})
    >>> print(step.report())

``load`` reads a schedule: a file, a text, or one of ``library()``. Its ``plan`` gives each rank's
actions; ``Plan.check`` proves the plan, ``Plan.simulate`` gives the time of every action. ``sweep``
tries many, ``search`` finds better ones, ``tune`` plans for a cluster, ``from_torch`` and
``Plan.to_torch_csv`` convert to and from PyTorch's; ``from_trace`` reads a trace of its profiler.
``lint``, ``diagnose``, ``run`` and ``bench`` are the commands of these names.

Times in arrays are nanoseconds; figures whose name ends in ``_us`` are microseconds, and so are
plain numbers among costs. Everything may be used from several threads, and releases Python's lock
while it works.
"""

from ._core import __version__
from .answers import Answer, Comparison, Explanation, Imported, Jitter, Proof, Report, Summary
from .arrays import KINDS
from .commands import Benchmark, Diagnosis, Lint, Trained, bench, diagnose, lint, run
from .costs import Costs
from .errors import ScheduleError
from .plan import Plan
from .schedule import Action, Schedule, library, load
from .search import Found, search
from .sweep import sweep
from .timeline import Timeline, load_timeline
from .torch_csv import from_torch
from .trace import Kernels, TracedTimeline, from_trace, kernels
from .tune import tune

__all__ = [
    "KINDS",
    "Action",
    "Answer",
    "Benchmark",
    "Comparison",
    "Costs",
    "Diagnosis",
    "Explanation",
    "Found",
    "Imported",
    "Jitter",
    "Kernels",
    "Lint",
    "Plan",
    "Proof",
    "Report",
    "Schedule",
    "ScheduleError",
    "Summary",
    "Timeline",
    "TracedTimeline",
    "Trained",
    "__version__",
    "bench",
    "diagnose",
    "from_torch",
    "from_trace",
    "kernels",
    "library",
    "lint",
    "load",
    "load_timeline",
    "run",
    "search",
    "sweep",
    "tune",
]
