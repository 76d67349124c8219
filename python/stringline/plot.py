"""Timelines as matplotlib draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
import numpy.typing as npt

from .arrays import KINDS, tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .timeline import Timeline

_NS_OF_MS = 1e6
_HEIGHT = 0.86  # of a rank's row


def _shades(timeline: Timeline, rank: int) -> dict[int, int]:
    """Of every stage of the rank; in a bidirectional schedule by its pipe."""
    plan = timeline.plan
    stages = np.flatnonzero(plan.rank_of_stage == rank)
    if plan.pipes:
        return {int(stage): int(plan.pipe_of_stage[stage]) for stage in stages}
    return {int(stage): index % 2 for index, stage in enumerate(stages)}


def _rows(events: npt.NDArray[np.void]) -> Iterator[tuple[npt.NDArray[np.void], float, float]]:
    """Events with the top and the height of their boxes in the row: what shares the rank stands
    above each other."""
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
                ax.broken_barh(
                    list(zip(start.tolist(), length.tolist())),
                    (rank - _HEIGHT / 2 + top, height),
                    facecolors=colours[shade],
                    edgecolor="white",
                    linewidth=0.4,
                )


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
