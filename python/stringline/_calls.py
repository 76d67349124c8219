"""Calls into the extension module: requests from Python's values, exceptions from its codes."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, Union

from . import _core
from .errors import ScheduleError

Path = Union[str, "os.PathLike[str]"]

# Codes of absl::Status with an exception of their own.
_EXCEPTIONS: dict[int, type[Exception]] = {
    5: FileNotFoundError,
    7: PermissionError,
    8: MemoryError,
    12: NotImplementedError,
    13: RuntimeError,
}
_FINDINGS = -1


class Result(NamedTuple):
    text: str
    figures: Any
    step: _core.Step | None


def _refuse(code: int, message: str) -> NoReturn:
    raise _EXCEPTIONS.get(code, ValueError)(message)


def call(name: str, request: Mapping[str, Any], *steps: _core.Step) -> Result:
    """Performs a call of python/core/calls.cc."""
    code, text, figures, step = _core.call(name, json.dumps(request), *steps)
    if code == _FINDINGS:
        raise ScheduleError(text, json.loads(figures))
    if code != 0:
        _refuse(code, text)
    return Result(text, json.loads(figures), step)


def step_of(result: Result) -> _core.Step:
    if result.step is None:
        raise RuntimeError("the call gave no step")
    return result.step


def fields(**given: object) -> dict[str, Any]:
    """The fields of a request that are given: texts, numbers, True or False; None is left out."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if hasattr(value, "item"):  # NumPy's numbers
            value = value.item()
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"{name}: expected a text or a number, got {type(value).__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name}: expected a number, got {value}")
        found[name] = value
    return found


def whole(name: str, value: object) -> int:
    """A whole number, NumPy's among them; TypeError for others."""
    if isinstance(value, bool):
        raise TypeError(f"{name}: expected a whole number, got {value}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{name}: expected a whole number, got {type(value).__name__} {value!r}"
        ) from None


def parameters(given: Mapping[str, object]) -> dict[str, int]:
    """The values of a schedule's parameters; None is left out."""
    return {name: whole(name, value) for name, value in given.items() if value is not None}


def path_of(path: Path) -> str:
    """The path as a text. "-" is a file of that name, not standard input."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"expected a path as str, got {type(text).__name__}")
    return "./-" if text == "-" else text


def is_text(source: object, marks: str) -> bool:
    """True if a str is a text and no path: it has any of these marks."""
    return isinstance(source, str) and any(mark in source for mark in marks)


def table_of(
    columns: dict[str, Any], frame: bool | None, attrs: Mapping[str, Any] | None = None
) -> Any:
    """The columns as a pandas DataFrame with these attrs, or as they are: `frame` says which, and
    None takes a frame if pandas is installed."""
    if frame is False:
        return columns
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return columns
    table = pandas.DataFrame(columns)
    table.attrs.update(attrs or {})
    return table
