"""Timelines as matplotlib draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .arrays import KINDS, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .timeline import Timeline

_NS_OF_MS = 1e6
_HEIGHT = 0.86  # of a rank's row
_BAR = 0.08  # of a box: the bar of a marked stage


def _shades(timeline: Timeline, rank: int) -> dict[int, int]:
    """The shade of every stage of the rank, from 0 to 3: odd shades are darker, shades from 2 on
    have a bar. Stages of the first pipe count before those of the next."""
    plan = timeline.plan
    where = list(zip(plan.rank_of_stage.tolist(), plan.pipe_of_stage.tolist()))
    most = max(Counter(where).values(), default=1)
    seen: Counter[int] = Counter()
    shades = {}
    for stage in np.flatnonzero(plan.rank_of_stage == rank).tolist():
        pipe = where[stage][1]
        shades[stage] = (pipe * most + seen[pipe]) % 4
        seen[pipe] += 1
    return shades


def _rows(events: npt.NDArray[np.void]) -> Iterator[tuple[npt.NDArray[np.void], float, float]]:
    """Events with the top and the height of their boxes in the row: actions that share the rank are
    stacked."""
    joined = events["joined"]
    shared = joined | np.append(joined[1:], False)
    yield events[~shared], 0, _HEIGHT
    yield events[shared & ~joined], 0, _HEIGHT / 2
    yield events[shared & joined], _HEIGHT / 2, _HEIGHT / 2


def _draw_rank(ax: Axes, timeline: Timeline, rank: int, fills: list[list[str]]) -> None:
    for stage, shade in _shades(timeline, rank).items():
        for row, top, height in _rows(timeline.of(rank)):
            for kind, colours in enumerate(fills):
                boxes = row[(row["stage"] == stage) & (row["kind"] == kind)]
                if not colours or len(boxes) == 0:
                    continue
                start = boxes["start_ns"] / _NS_OF_MS
                length = boxes["end_ns"] / _NS_OF_MS - start
                spans = list(zip(start.tolist(), length.tolist()))
                below = rank - _HEIGHT / 2 + top
                ax.broken_barh(
                    spans,
                    (below, height),
                    facecolors=colours[shade % 2],
                    edgecolor="white",
                    linewidth=0.4,
                )
                if shade >= 2:
                    bar = height * _BAR
                    ax.broken_barh(spans, (below + height - bar, bar), facecolors="#222222")


def draw(timeline: Timeline, ax: Axes | None) -> Axes:
    """A row a rank, the colours of the other pictures; into a new figure without ``ax``."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    fills: list[list[str]] = [kind["fills"] for kind in tables()["kinds"]]
    ranks = len(timeline.first) - 1
    if ax is None:
        _, ax = plt.subplots(figsize=(10, 0.9 + 0.4 * ranks))
    for rank in range(ranks):
        _draw_rank(ax, timeline, rank, fills)
    used = [kind for kind, colours in enumerate(fills) if colours and kind in timeline.kind]
    patches: list[Any] = [Patch(facecolor=fills[kind][0], label=KINDS[kind]) for kind in used]
    ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    ax.set_ylim(ranks - 0.5, -0.5)
    ax.set_yticks(range(ranks))
    ax.set_ylabel("rank")
    ax.set_xlim(0, timeline.makespan_us / 1000)
    ax.set_xlabel("time (ms)")
    named = " ".join(f"{name}={value}" for name, value in timeline.plan.parameters.items())
    ax.set_title(f"{timeline.plan.schedule} {named}")
    return ax
