"""Timelines: the times of all actions, simulated or recorded."""

from __future__ import annotations

import functools
import html
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._calls import Path, call, fields, is_text, path_of, step_of, whole
from ._tool import options, run
from .answers import Comparison, Explanation, Jitter, Report, Summary
from .arrays import array_of, ranks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .plan import Plan

_LARGEST_PAGE = 20_000_000  # bytes, in a notebook

# Formats by the ending of a file's name, with the option of each.
_FORMATS = {
    ".html": "html",
    ".svg": "svg",
    ".pdf": "picture",
    ".png": "picture",
    ".pftrace": "perfetto",
    ".json": "chrome",
}


class Timeline:
    """Start and end of every action of a step. A timeline never changes.

    ``timeline.events`` and its columns are read-only NumPy arrays over the memory of the timeline
    itself: an item per event, the events of rank 0 first, including sends and receives. Their times
    are nanoseconds from the start of the step; figures that end in ``_us`` are microseconds.

    In a notebook a timeline is shown as a page to zoom and search in. Timelines are equal if their
    texts are: the same events at the same times.
    """

    def __init__(self, step: _core.Step):
        self._step = step

    @functools.cached_property
    def _described(self) -> tuple[str, dict[str, Any]]:
        result = call("describe_timeline", {}, self._step)
        return result.text, result.figures

    @functools.cached_property
    def summary(self) -> Summary:
        """The time of the step, and the waits of each rank."""
        result = call("summary", {}, self._step)
        return Summary(result.text, result.figures)

    @property
    def origin(self) -> str:
        """``"simulated"``, ``"measured"`` or ``"flight"``."""
        return str(self._described[1]["origin"])

    @property
    def layout(self) -> str:
        """The sharing of communicators among messages: ``"edge"``, ``"pair"``, ``"updown"`` or
        ``"shared"``."""
        return str(self._described[1]["layout"])

    @property
    def text(self) -> str:
        """The timeline as a text for ``stringline.load_timeline``."""
        return self._described[0]

    @property
    def makespan_us(self) -> float:
        """The time of the step, in microseconds: the latest end of any event."""
        return self.summary.makespan_us

    @property
    def bubble(self) -> float:
        """The mean idle time of a rank, as a share of the makespan."""
        return self.summary.bubble

    @property
    def plan(self) -> Plan:
        """The performed plan, with its sends and receives."""
        from .plan import Plan

        return Plan(self._step)

    @functools.cached_property
    def events(self) -> npt.NDArray[np.void]:
        """All events: ``kind``, ``joined``, ``stage``, ``microbatch``, ``start_ns``, ``end_ns``,
        ``first_bucket_ns``, ``waited_ns``.

        ``stringline.KINDS[kind]`` is the kind's name. A joined event shares the rank, and start and
        end, with the event before. A message lasts from its departure to its arrival. The first
        bucket of an UNSHARD by bucket ends at ``first_bucket_ns`` (else 0); a computation or a
        collective has waited so long within for buckets.
        """
        return array_of(self._step, "events")

    @functools.cached_property
    def first(self) -> npt.NDArray[np.uint32]:
        """The events of rank r are ``events[first[r]:first[r + 1]]``."""
        return array_of(self._step, "event_first")

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        """The kind of every event: an index into ``stringline.KINDS``."""
        return self.events["kind"]

    @property
    def stage(self) -> npt.NDArray[np.int32]:
        """The stage of every event."""
        return self.events["stage"]

    @property
    def microbatch(self) -> npt.NDArray[np.int32]:
        """The microbatch of every event, in its pipe, its ``slices`` counted; -1 for a collective."""
        return self.events["microbatch"]

    @property
    def slices(self) -> int:
        """The number of slices of each microbatch; one in most."""
        return int(self._described[1]["slices"])

    @property
    def start_ns(self) -> npt.NDArray[np.int64]:
        """When every event starts, in nanoseconds."""
        return self.events["start_ns"]

    @property
    def end_ns(self) -> npt.NDArray[np.int64]:
        """When every event ends, in nanoseconds."""
        return self.events["end_ns"]

    @functools.cached_property
    def rank(self) -> npt.NDArray[np.int32]:
        """The rank of every event (computed once, from ``first``)."""
        return ranks_of(self.first)

    @functools.cached_property
    def parts(self) -> npt.NDArray[np.void]:
        """Parts of computations, where costs know them: ``event`` (an index into ``events``),
        ``part``, ``layer``, ``chunk`` (of the microbatch), ``start_ns``, ``end_ns``."""
        return array_of(self._step, "parts")

    def of(self, rank: int) -> npt.NDArray[np.void]:
        """The events of a rank."""
        rank = whole("rank", rank)
        if not 0 <= rank < len(self.first) - 1:
            raise IndexError(f"there is no rank {rank}")
        return self.events[self.first[rank] : self.first[rank + 1]]

    def report(self, *, runs: int | None = None, seed: int | None = None) -> Report:
        """The uses of the step's time, its distance from the best possible, and remedies.

        Args:
            runs: the number of random steps, for costs with a jitter; 200 by default.
            seed: of the first random step; 1 by default.
        """
        result = call("report", fields(runs=runs, seed=seed), self._step)
        return Report(result.text, result.figures)

    def jitter(self, share: str = "", *, seeds: int | None = None) -> Jitter:
        """Steps whose times are drawn at random, in the order of the lists and in ready order.

        Args:
            share: the standard deviation of every duration, as ``"30%"``; that of the costs if
                not given.
            seeds: how many steps; 20 by default.
        """
        result = call("jitter", fields(jitter=share, seeds=seeds), self._step)
        return Jitter(result.text, result.figures)

    def compare(self, other: Timeline) -> Comparison:
        """This step beside another: the actions and waits on which the other spends more."""
        if not isinstance(other, Timeline):
            raise TypeError(f"expected a Timeline, got {type(other).__name__}")
        result = call("compare", {}, self._step, other._step)
        return Comparison(result.text, result.figures)

    def calibrate(self) -> str:
        """The costs of its actions, as the text of a cost file: at these costs a simulation repeats
        the step.

        ``plan.simulate(step.calibrate())`` is the step without its disturbances.
        """
        return call("calibrate", {}, self._step).text

    def explain(self, action: str, *, all: bool = False) -> Explanation:
        """Why an action starts at its time: every wait, back to the start of the step.

        Args:
            action: stage, kind and microbatch, as ``"1I1"``.
            all: the text shows every wait, however many.
        """
        request = {"action": str(action), "all": bool(all)}
        result = call("explain", request, self._step)
        return Explanation(result.text, result.figures)

    def html(self, *, force: bool = False) -> str:
        """The page to zoom and search in: a single file that needs nothing else.

        Raises:
            ValueError: the page has more than 100 MB, and ``force`` is not given.
        """
        return call("draw", fields(html="-", force=force), self._step).text

    def svg(self, **how: Any) -> str:
        """The picture as SVG.

        Args:
            width: in points; 720 by default.
            lanes: parts, messages, collectives and copies as lines of their own.
            fold: cut into bands below each other, in which actions can be told apart.
            no_title: leave out the title.
            palette: ``"color"`` or ``"grey"``.
            ranks, time, microbatches: draw a part: ``"0..3"``, ``"0..200ms"``, ``"0..7"``.
        """
        return call("draw", fields(svg="-", **how), self._step).text

    def save(self, path: Path, **how: Any) -> None:
        """Writes a page (``.html``), a picture (``.svg``), a trace for ui.perfetto.dev
        (``.pftrace``), a trace in Chrome's format (``.json``), or the timeline (``.timeline``).

        A picture may also be a ``.pdf`` or ``.png``: the command line draws them, so a
        ``stringline`` must be on the path.

        ``how`` is as for ``svg``, or ``force=True`` for more than 100 MB.
        """
        text = path_of(path)
        end = os.path.splitext(text)[1].lower()
        if end == ".timeline":
            os.makedirs(os.path.dirname(text) or ".", exist_ok=True)
            with open(text, "w", encoding="utf-8") as file:
                file.write(self.text)
            return
        if end not in _FORMATS:
            known = ", ".join([*_FORMATS, ".timeline"])
            raise ValueError(f"{text}: the name ends in none of {known}")
        request = fields(**{_FORMATS[end]: text}, **how)
        if _FORMATS[end] == "picture":
            run(f"a {end} file", "show", *options(request), file=("step.timeline", self.text))
            return
        call("draw", request, self._step)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the step with matplotlib, into ``ax`` or a new figure; times are milliseconds."""
        from .plot import draw

        return draw(self, ax)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        page = self.html(force=True)
        if len(page) > _LARGEST_PAGE:
            return self.svg()
        height = min(760, 300 + 26 * (len(self.first) - 1))
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {height}px; border: 0"></iframe>'
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return load_timeline, (self.text,)

    def __len__(self) -> int:
        """The number of events."""
        return len(self.events)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Timeline) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.summary.text

    def __repr__(self) -> str:
        title = self.text.partition("\n")[0].removeprefix("timeline ")
        length = f"{self.makespan_us / 1000:g} ms"
        return f"<Timeline {title}: {length}, bubble {100 * self.bubble:.2f} %>"


def load_timeline(source: Path, *, name: str = "<text>") -> Timeline:
    """A recorded timeline (``.timeline``) from a file, or from its text: a str with line ends.

    Raises:
        ScheduleError: the timeline is wrong.
    """
    request = {"file": path_of(name), "text": str(source)}
    if not is_text(source, "\n"):
        request = {"file": path_of(source)}
    return Timeline(step_of(call("timeline", request)))
