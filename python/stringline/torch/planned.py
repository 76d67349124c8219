"""From a user's schedule, in any form, to a plan, and to the actions of a rank."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Union

import numpy as np

from .._calls import is_text
from ..plan import Plan
from ..schedule import Schedule, load
from ..torch_csv import from_torch

Performed = Union[str, "os.PathLike[str]", Schedule, Plan, Any]
"""A schedule of the library by its name, a path (``.sched``, ``.plan``, ``.csv``), a text of one,
a ``Schedule``, a ``Plan``, or a schedule object of torch's."""

_MESSAGE = re.compile(r"(SEND|RECV)_[FB]\d|UNSHARD|RESHARD|REDUCE_GRAD")


class Place(NamedTuple):
    """A stage of a rank."""

    pipe: int
    stage_index: int  # in its pipe, as torch counts
    number: int  # among all stages of the plan


def computations(plan: Plan) -> Plan:
    """The plan without messages and collectives of its own."""
    if not _MESSAGE.search(plan.text):
        return plan
    return _rewritten(plan, lambda groups: [one for one in groups if not _MESSAGE.search(one)])


def without_pairs(plan: Plan) -> Plan:
    """The plan with one action after the other, where several share the rank."""
    return _rewritten(plan, lambda groups: " ".join(groups).replace("&", " ").split())


def _rewritten(plan: Plan, change: Callable[[list[str]], list[str]]) -> Plan:
    """Not lowered, with other groups of actions on every rank."""
    lines = []
    for line in plan.text.splitlines():
        head, colon, row = line.partition(":")
        if line.startswith("rank ") and colon:
            line = " ".join([head + colon, *change(row.split())])
        elif line.startswith("plan "):
            line = line.removesuffix(" lowered")
        lines.append(line)
    return Schedule("\n".join(lines) + "\n", name=f"{plan.schedule}.plan").plan()


def _is_csv(text: str) -> bool:
    """True if a text is in torch's notation: it begins with a cell, not with a word."""
    return re.match(r"[\s,\ufeff]*\(?\d+[A-Z]", text) is not None


def _from_source(source: Performed, P: int | None, M: int | None) -> Plan:
    if isinstance(source, Plan):
        return source
    if isinstance(source, (str, os.PathLike)):
        text = is_text(source, "\n{,")
        csv = _is_csv(str(source)) if text else os.fspath(source).lower().endswith(".csv")
        if csv:
            return from_torch(source)
        source = load(source)
    if not isinstance(source, Schedule):
        return from_torch(source)
    if not source.parameters:
        return source.plan()
    if M is None:
        raise ValueError(f"M: {source.name} wants to know how many microbatches a step has")
    return source.plan(P, M)


def plan_of(source: Performed, P: int | None, M: int | None) -> Plan:
    """The computations of each rank, for these P and M; None where the source itself gives them."""
    plan = _from_source(source, P, M)
    ranks = len(plan.first) - 1
    if P is not None and ranks != P:
        raise ValueError(f"{plan.schedule} is a plan for {ranks} ranks, not for {P}")
    in_step = plan.microbatches // plan.steps
    if M is not None and in_step != M:
        raise ValueError(f"{plan.schedule} is a plan for {in_step} microbatches, not for {M}")
    return computations(plan)


def places_of(plan: Plan, rank: int) -> list[Place]:
    """The stages of a rank, pipe by pipe."""
    pipes = plan.pipe_of_stage
    mine = np.flatnonzero(plan.rank_of_stage == rank)
    first = [int(np.argmax(pipes == pipe)) for pipe in range(int(pipes.max()) + 1)]
    return [Place(int(pipes[s]), int(s) - first[pipes[s]], int(s)) for s in mine]


def ranks_of_pipes(plan: Plan) -> list[dict[int, int]]:
    """The rank of every stage, by its index, for every pipe."""
    pipes, ranks = plan.pipe_of_stage, plan.rank_of_stage
    of_pipes = [ranks[pipes == pipe] for pipe in range(int(pipes.max()) + 1)]
    return [{index: int(rank) for index, rank in enumerate(found)} for found in of_pipes]


def microbatches_of_pipes(plan: Plan) -> list[int]:
    """The number of microbatches in every pipe, in all steps."""
    pipes = plan.pipe_of_stage[plan.stage]
    count = int(plan.pipe_of_stage.max()) + 1
    return [int(plan.microbatch[pipes == pipe].max()) + 1 for pipe in range(count)]


def stages_of_rank(
    schedule: Performed, rank: int, *, P: int | None = None, M: int | None = None
) -> list[int]:
    """The ``stage_index`` of every ``PipelineStage`` that a rank has to provide, in order.

    A schedule with two pipes has two copies of the model: a rank provides the stages of the first
    pipe, then those of the second.

    Args:
        schedule: as for ``runtime``.
        rank: in the group of the pipeline.
        P, M: ranks and microbatches, if the schedule does not fix them itself.
    """
    plan = plan_of(schedule, P, M)
    ranks = len(plan.first) - 1
    if not 0 <= rank < ranks:
        raise ValueError(f"rank: {plan.schedule} has {ranks} ranks, and no rank {rank}")
    return [place.stage_index for place in places_of(plan, rank)]
