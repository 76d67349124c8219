"""The cost of a program: its own processor time and memory, as counted by the system."""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import typing


class Cost(typing.NamedTuple):
    """A run of a program."""

    out: str
    user_s: float
    cpu_s: float  # user and system, of the program and of those it waited for
    wall_s: float
    peak_mib: float  # of the largest process


def run(command, seconds):
    """Runs a command; ends this program if the command fails or takes longer than so many
    seconds."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        timer = threading.Timer(seconds, lambda: os.killpg(child.pid, 9))
        timer.start()
        _, status, used = os.wait4(child.pid, 0)
        timer.cancel()
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            why = f"ended with {child.returncode} after {wall:.0f} s (limit {seconds} s)"
            sys.exit(f"{' '.join(map(str, command))}: {why}\n{err.read()[-2000:]}")
        return Cost(out.read(), used.ru_utime, used.ru_utime + used.ru_stime, wall,
                    used.ru_maxrss / 1024)


class Figures(list):
    """The same thing measured several times."""

    @property
    def least(self):
        return min(self)

    @property
    def median(self):
        return statistics.median(self)


def seconds(value):
    """0.0123 -> 12.3 ms"""
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1 or unit == "us":
            return f"{value * scale:.3g} {unit}" if value * scale < 1000 else f"{value:.0f} s"


def mebibytes(value):
    return f"{value:.0f} MiB" if value < 1024 else f"{value / 1024:.1f} GiB"


def ratio(theirs, ours):
    """A factor with two digits, the precision of the measurements."""
    times = theirs / ours
    if times < 10:
        return f"{times:.1f}x"
    digits = len(str(int(times)))
    return f"{round(times, 2 - digits):.0f}x"
