"""Traces of torch's profiler."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Union

from ._calls import Path, Result, call, fields, path_of, step_of, whole
from .answers import Answer, Imported
from .timeline import Timeline

Paths = Union[Path, Iterable[Path]]


def _texts(paths: Paths) -> list[str]:
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    return [path_of(file) for file in files]


class Kernels(Answer):
    """What GPUs did in traces (``report`` of traces): the figures of Holistic Trace Analysis.

    Its lists are rows with equal keys: ``pandas.DataFrame(kernels.times)`` is a table.
    """

    def __init__(self, text: str, figures: dict[str, Any], request: dict[str, Any]):
        super().__init__(text, figures)
        self._request = request

    def _rows(self, name: str) -> list[dict[str, Any]]:
        return [{"rank": of["rank"], **row} for of in self["ranks"] for row in of.get(name, [])]

    @property
    def idle(self) -> list[dict[str, Any]]:
        """For each rank and stream, idle time by cause."""
        return self._rows("streams")

    @property
    def times(self) -> list[dict[str, Any]]:
        """For each rank and kernel, how often it ran, and its times."""
        return self._rows("kernels")

    @property
    def kinds(self) -> list[dict[str, Any]]:
        """For each set of kinds of work that ran at once, its time on all ranks."""
        return list(self["kinds"])

    @property
    def launches(self) -> list[dict[str, Any]]:
        """For each launch, its time, that of its work, and the delay between them."""
        columns = ("correlation", "host_us", "gpu_us", "delay_us")
        return [
            {"rank": of["rank"], **dict(zip(columns, row))}
            for of in self["ranks"]
            for row in zip(*(of["launches"][name] for name in columns))
        ]

    def _samples(self, name: str, key: str, values: tuple[str, ...]) -> list[dict[str, Any]]:
        return [
            {"rank": curve["rank"], key: curve[key], "at_us": at, **dict(zip(values, row))}
            for curve in self._rows(name)
            for at, *row in zip(curve["at_us"], *(curve[value] for value in values))
        ]

    @property
    def queues(self) -> list[dict[str, Any]]:
        """For each rank and stream, how much was launched and not started, after each change."""
        return self._samples("queues", "stream", ("length",))

    @property
    def copies(self) -> list[dict[str, Any]]:
        """For each rank and kind of copy, its gigabytes a second, after each change."""
        return self._samples("copies", "kind", ("gb_per_second",))

    @property
    def memory(self) -> list[dict[str, Any]]:
        """For each rank and device, the bytes in use, after each change."""
        return self._samples("memory", "device", ("allocated", "reserved"))

    @property
    def sequences(self) -> list[dict[str, Any]]:
        """With ``operator``: for each rank, sequences of kernels, and how often they ran."""
        return self._rows("sequences")

    @property
    def stragglers(self) -> list[dict[str, Any]]:
        """Ranks, the one that others wait for most first; empty if no kernel tells."""
        found = self["stragglers"]
        return list(found["ranks"]) if found else []

    @property
    def differences(self) -> list[dict[str, Any]]:
        """With ``against``: for each name, how often and how long on either side."""
        return list(self["differences"]) if "differences" in self else []

    def save_counters(self, folder: Path) -> None:
        """Writes the traces again into a folder, with queues and rates of copies as counters."""
        call("kernels", {**self._request, "counters": path_of(folder)})

    def html(self) -> str:
        """A page with the curves of every rank and its kernels."""
        return call("kernels", {**self._request, "html": True}).text


def kernels(
    paths: Paths,
    *,
    step: int | None = None,
    operator: str | None = None,
    against: Paths | None = None,
) -> Kernels:
    """What GPUs did in traces of torch's profiler; they need no pipeline.

    Args:
        paths: a folder with them, or files: ``.json``, or gzipped ``.json.gz``.
        step: the profiler's number (``ProfilerStep#N``); by default all but the last, whose work
            may be cut.
        operator: the sequences of kernels that operators with this in their name launch.
        against: other traces, for differences by name.

    Raises:
        ValueError: a trace is cut, names no rank, or lacks the step; the message names the file.
    """
    request = fields(step=None if step is None else whole("step", step), operator=operator)
    request["paths"] = _texts(paths)
    if against is not None:
        request["against"] = _texts(against)
    result = call("kernels", request)
    return Kernels(result.text, result.figures, request)


class TracedTimeline(Timeline):
    """A step traced by torch's profiler, as a timeline."""

    def __init__(self, result: Result, paths: list[str]):
        super().__init__(step_of(result))
        self._paths = paths
        self.imported = Imported(result.text, result.figures)
        """Which step it is, how the ranks' clocks were aligned, and how busy every rank was, as
        Holistic Trace Analysis counts."""

    def kernels(self, *, operator: str | None = None, against: Paths | None = None) -> Kernels:
        """What GPUs did in this step; ``stringline.kernels`` of its traces."""
        return kernels(self._paths, step=self.imported.step, operator=operator, against=against)


def from_trace(paths: Paths, *, step: int | None = None) -> TracedTimeline:
    """A timeline from traces of torch's profiler, a trace per rank.

    Args:
        paths: a folder with them, or files: ``.json``, or gzipped ``.json.gz``.
        step: the profiler's number (``ProfilerStep#N``); by default the last step that is whole on
            every rank.

    Raises:
        ValueError: a trace is cut, names no rank, or holds neither ranges of torch's pipeline
            runtime nor records that tell a pipeline's actions; a rank has no trace or two; the
            message names the file.
    """
    request = fields(step=None if step is None else whole("step", step))
    request["paths"] = _texts(paths)
    return TracedTimeline(call("traces", request), request["paths"])
