"""Search for new schedules."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from . import _core
from ._calls import Path, call, fields, is_text, parameters, path_of, step_of
from .answers import Answer
from .costs import Costs, Memory, Slow, memory_of, request_of
from .plan import Plan
from .schedule import Schedule
from .timeline import Timeline, load_timeline


class Found(Answer):
    """The best schedule found, beside a lower bound for all orders (``search``)."""

    def __init__(self, text: str, figures: Mapping[str, Any], step: _core.Step):
        shown = {key: value for key, value in figures.items() if key != "schedule"}
        super().__init__(text, shown)
        self._step = step
        self.schedule = Schedule(figures["schedule"], name="found.sched")
        """As a schedule like any other; ``found.schedule.text`` is its text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.text, {**self, "schedule": self.schedule.text}, self.timeline.text)

    @property
    def value_us(self) -> float:
        """The makespan, or the minimised quantity, in microseconds, as simulated."""
        return float(self["value_us"])

    @property
    def bound_us(self) -> float:
        """No order takes less, in microseconds."""
        return float(self["bound_us"])

    @property
    def gap(self) -> float:
        """The largest possible distance from the optimum, as a share of the bound."""
        return float(self["gap"])

    @property
    def proven(self) -> bool:
        """True if the order is proven optimal."""
        return bool(self["proven"])

    @functools.cached_property
    def plan(self) -> Plan:
        """Each rank's actions."""
        return self.schedule.plan(P=self["P"], M=self["M"])

    @property
    def timeline(self) -> Timeline:
        """Its step at the costs of the search, with recompute in the stages chosen by the
        search."""
        return Timeline(self._step)


def _found(text: str, figures: Mapping[str, Any], timeline: str) -> Found:
    return Found(text, figures, load_timeline(timeline)._step)


def search(
    P: int | None = None,
    M: int | None = None,
    costs: Costs = None,
    *,
    begin: Schedule | Path | None = None,
    schedule: str | None = None,
    place: str | None = None,
    split: str | None = None,
    layers: int | None = None,
    minimize: str | None = None,
    jitter: str | float | None = None,
    seeds: int | None = None,
    expect: str | None = None,
    activations: int | None = None,
    memory: Memory | None = None,
    host_memory: Memory | None = None,
    kinds: str | None = None,
    pairs: bool = False,
    recompute: str | None = None,
    offload: str | None = None,
    seconds: float | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    slow: Slow | None = None,
    work: str | None = None,
    mesh: str | None = None,
    sharding: str | None = None,
    bucket: str | None = None,
    **more: int,
) -> Found:
    """Looks for the best order within the given time, on all cores; Ctrl-C stops the search.

    Args:
        P, M: ranks and microbatches.
        costs: as for ``Plan.simulate``, with the options at the end.
        begin: begin with this schedule's order, and keep its stages where they are; ``schedule`` is
            its name in the text, ``more`` are its other parameters.
        place: the ranks of stages: ``"line"`` (the default), ``"v"``, ``"loop N"``, ``"wave N"``,
            ``"any"``, or the rank of each stage, ``"[0,1,1,0]"``.
        split: ``"any"``: also split the ``layers`` among stages, for costs of the whole model
            (``work="model"``, or a model's shape, which gives the layers).
        minimize: ``"makespan"`` (the default), ``"span"`` or ``"period"``, that of eight steps that
            follow each other, with updates.
        jitter: minimize the makespan of steps whose times are drawn at random, as in
            ``Timeline.jitter``: ``"10%"`` or 0.1; in place of a jitter among the costs.
        seeds: so many of them; 20 by default.
        expect: which of them is to be short: ``"mean"`` (the default), or ``"worst"``, the longest.
        activations: most stage activations that a rank may hold.
        memory: most bytes that a rank may hold, as ``"80GB"``; a list is a limit for each rank, a
            dict has limits for some ranks.
        host_memory: the same of copies on a rank's host.
        kinds: ``"F,B"``, ``"F,I,W"`` or ``"F,B,I,W"`` (the default).
        pairs: F & B and F & I may share a rank.
        recompute: the stages that recompute: ``"none"``, ``"all"``, or ``"any"``, the best choice;
            by default as in the costs.
        offload: the stages that copy what they keep to the host: ``"none"`` (the default),
            ``"all"``, or ``"any"``, the best choice within ``memory``.
        seconds: the longest time; 10 by default.
        iterations: their number instead of a time, with equal results on every machine.
        seed: of the random numbers; 1 by default.
    """
    limits = fields(
        place=place,
        split=split,
        layers=layers,
        minimize=minimize,
        jitter=jitter if jitter is None or isinstance(jitter, str) else f"{jitter:g}",
        seeds=seeds,
        expect=expect,
        activations=activations,
        kinds=kinds,
        pairs=pairs,
        recompute=recompute,
        offload=offload,
        seconds=seconds,
        iterations=iterations,
        seed=seed,
    )
    request = limits | request_of(
        costs, slow=slow, work=work, mesh=mesh, sharding=sharding, bucket=bucket
    )
    given = parameters({"P": P, "M": M, **more})
    request |= {"parameters": given, "memory": memory_of(memory)}
    if host_memory is not None:
        request["host_memory"] = memory_of(host_memory)
    if begin is not None:
        request["begin"] = _source(begin) | fields(schedule=schedule)
    elif schedule is not None:
        raise ValueError("schedule: is the name of a schedule in begin")
    asked: dict[str, Any] = {**given, "costs": costs, "begin": begin, "schedule": schedule}
    asked |= {"memory": memory, "host_memory": host_memory, "slow": slow, "work": work, "mesh": mesh}
    asked |= {"sharding": sharding, "bucket": bucket}
    result = call("search", {**request, "asked": _in_words(asked | limits)})
    return Found(result.text, result.figures, step_of(result))


def _in_words(asked: Mapping[str, Any]) -> str:
    """The call on one line, for people."""
    words = [
        f"{name}={value.name if isinstance(value, Schedule) else value!r}"
        for name, value in asked.items()
        if value is not None and value is not False
    ]
    return f"stringline.search({', '.join(words)})".replace("\n", " ")


def _source(begin: Schedule | Path) -> dict[str, str]:
    """The found schedule as a file, or as a text with the name of one."""
    if is_text(begin, "\n{"):
        begin = Schedule(str(begin))
    if isinstance(begin, Schedule):
        return {"file": begin.name, "text": begin.text}
    return {"file": path_of(begin)}
