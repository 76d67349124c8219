"""Many schedules and parameters at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Union

import numpy as np

from ._calls import Path, call, fields, is_text, path_of, table_of, whole
from .costs import Costs, Slow, request_of
from .schedule import Schedule

Swept = Union[Schedule, Path]

# Figures of simulated steps; NaN for others.
_FIGURES = (
    "makespan_us",
    "bubble",
    "busiest_bubble",
    "idlest_bubble",
    "span_bubble",
    "peak_activations",
    "actions",
    "stages",
)


def _source(swept: Swept) -> dict[str, str]:
    if isinstance(swept, Schedule):
        return {"file": swept.name, "text": swept.text}
    if is_text(swept, "\n{"):
        return {"file": "<text>", "text": str(swept)}
    return {"file": path_of(swept)}


def _range(name: str, values: object) -> str | list[int]:
    if isinstance(values, str):
        return values
    if isinstance(values, Iterable):
        return [whole(name, value) for value in values]
    return [whole(name, values)]


def _columns(points: list[Mapping[str, Any]], names: list[str]) -> dict[str, Any]:
    rows = [(point, entry) for point in points for entry in point["schedules"]]
    columns: dict[str, Any] = {
        "schedule": np.array([entry["schedule"] for _, entry in rows], dtype=object)
    }
    for name in names:
        columns[name] = np.array([point["parameters"][name] for point, _ in rows], dtype=np.int64)
    for figure in _FIGURES:
        columns[figure] = np.array([entry.get(figure, np.nan) for _, entry in rows])
    columns["refused"] = np.array([entry.get("refused", "") for _, entry in rows], dtype=object)
    columns["wrong"] = np.array([entry.get("wrong", "") for _, entry in rows], dtype=object)
    return columns


def sweep(
    schedules: Swept | Iterable[Swept],
    costs: Costs = None,
    *,
    layout: str | None = None,
    slow: Slow | None = None,
    work: str | None = None,
    mesh: str | None = None,
    sharding: str | None = None,
    bucket: str | None = None,
    again: bool = False,
    frame: bool | None = None,
    **ranges: int | str | Iterable[int],
) -> Any:
    """The times of steps for many schedules and parameters, simulated on all cores.

    ``sweep(["1f1b", "zb_h1"], {"F": 10, "I": 10, "W": 10}, P=4, M=range(4, 33, 4))``

    Args:
        schedules: one or several: ``Schedule``, or any source for ``load``.
        costs: as for ``Plan.simulate``, with the options at the end.
        frame: True for a pandas DataFrame, False for a dict of NumPy columns; by default a frame if
            pandas is installed.
        ranges: values of parameters: a number, several, or a text as ``"2..64"``, ``"P..4*P"`` (a
            range may use earlier parameters). A schedule gets only its own parameters.

    Returns:
        A row per point and schedule: ``schedule``, the parameters that vary, ``makespan_us``,
        ``bubble`` and others as shares of 1, ``peak_activations``, ``actions``, ``stages``; NaN
        where the schedule ``refused`` the parameters, or is ``wrong`` for them, with the reason.
    """
    if isinstance(schedules, (Schedule, str, os.PathLike)):
        schedules = [schedules]
    sources = [_source(swept) for swept in schedules]
    if not sources:
        raise ValueError("schedules: there is none")
    if not ranges:
        raise ValueError("nothing is to be varied: give P and M")
    request = request_of(
        costs, slow=slow, work=work, mesh=mesh, sharding=sharding, bucket=bucket
    )
    request |= fields(layout=layout, again=again)
    request["schedules"] = sources
    request["ranges"] = {name: _range(name, values) for name, values in ranges.items()}
    result = call("sweep", request)
    return table_of(_columns(result.figures["points"], list(ranges)), frame)
