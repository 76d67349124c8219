"""Schedules of ``torch.distributed.pipelining``. Torch itself is not needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._calls import call, is_text, path_of, step_of
from .plan import Plan

Orders = Mapping[int, Sequence[Any]]


def _orders_of(schedule: object) -> Orders:
    """The actions of every rank, as torch's schedule objects keep them."""
    if isinstance(schedule, Mapping):
        return schedule
    make = getattr(schedule, "_get_pipeline_order", None)
    orders = make() if callable(make) else None
    if isinstance(orders, Mapping) and orders:
        return {rank: _as_performed(actions) for rank, actions in orders.items()}
    # The runtime's, with sends and receives, comes first.
    for name in ("pipeline_order_with_comms", "pipeline_order"):
        orders = getattr(schedule, name, None)
        if isinstance(orders, Mapping) and orders:
            return orders
    raise TypeError(
        "expected the text or the path of a .csv file, a dict of lists of actions, or a schedule "
        f"of torch's with a pipeline_order, got {type(schedule).__name__}"
    )


def _as_performed(actions: Sequence[Any]) -> list[str]:
    """GPipe and 1F1B of a stage per rank keep no order, but make an order for pictures. This order
    has reductions, and counts the forwards of 1F1B's last rank from 1; they are performed from 0
    on."""
    cells = ["" if action is None else str(action) for action in actions]
    forwards = 0
    for i, cell in enumerate(cells):
        if re.fullmatch(r"\d+F\d+", cell):
            cells[i] = re.sub(r"\d+$", str(forwards), cell)
            forwards += 1
    return [cell for cell in cells if "REDUCE_GRAD" not in cell]


def from_torch(schedule: object, *, name: str = "torch") -> Plan:
    """A plan from a schedule of torch's.

    Args:
        schedule: the path of a ``.csv`` file of torch's, the text of such a file (a str with a
            comma or a line end), a schedule object of torch's, or its ``pipeline_order``: a dict of
            lists of actions, by rank.
        name: a word for messages and pictures; by default the file's name.

    Raises:
        ScheduleError: the notation is wrong. A wrong schedule is found by ``plan.check()``.
    """
    name, text = named_text(schedule, name)
    return Plan(step_of(call("plan", {"file": f"{name}.csv", "text": text})))


def named_text(schedule: object, name: str = "torch") -> tuple[str, str]:
    """A schedule of torch's as the text of a ``.csv`` file, behind the file's name without the
    ending."""
    if isinstance(schedule, (str, os.PathLike)) and not is_text(schedule, ",\n"):
        file = path_of(schedule)
        with open(file, encoding="utf-8") as opened:
            return file.removesuffix(".csv"), opened.read()
    return name, schedule if isinstance(schedule, str) else _csv_of(_orders_of(schedule))


def _csv_of(orders: Orders) -> str:
    """In torch's form: a row per rank, an empty cell without an action."""
    if sorted(orders) != list(range(len(orders))):
        raise ValueError(f"expected ranks from 0 on, got {sorted(orders)}")
    rows = [orders[rank] for rank in range(len(orders))]
    cells = [["" if action is None else str(action) for action in row] for row in rows]
    return "".join(",".join(row) + "\n" for row in cells)
