"""Traces of torch's profiler."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ._calls import Path, Result, call, fields, path_of, step_of, whole
from .answers import Imported
from .timeline import Timeline


class TracedTimeline(Timeline):
    """A step traced by torch's profiler, as a timeline."""

    def __init__(self, result: Result):
        super().__init__(step_of(result))
        self.imported = Imported(result.text, result.figures)
        """Which step it is, how the ranks' clocks were aligned, and how busy every rank was, as
        Holistic Trace Analysis counts."""


def from_trace(paths: Path | Iterable[Path], *, step: int | None = None) -> TracedTimeline:
    """A timeline from traces of torch's profiler, a trace per rank.

    Args:
        paths: a folder with them, or files: ``.json``, or gzipped ``.json.gz``.
        step: the profiler's number (``ProfilerStep#N``); by default the last step that is whole on
            every rank.

    Raises:
        ValueError: a trace is cut, names no rank, or holds no ranges of torch's pipeline runtime; a
            rank has no trace or two; the message names the file.
    """
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    request = fields(step=None if step is None else whole("step", step))
    request["paths"] = [path_of(file) for file in files]
    return TracedTimeline(call("traces", request))
