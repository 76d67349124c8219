"""Calls into the extension module: requests from Python's values, exceptions from its codes."""

from __future__ import annotations

import json
import operator
import os
import re
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
    # Options are keywords here.
    said = re.sub(r"^--(?=[a-z])|(?<=')--(?=[a-z]+')", "", message)
    raise _EXCEPTIONS.get(code, ValueError)(said)


def call(name: str, request: Mapping[str, Any], *steps: _core.Step) -> Result:
    """Performs a call of python/core/calls.cc."""
    code, text, figures, step = _core.call(name, json.dumps({"args": [], **request}), *steps)
    if code == _FINDINGS:
        raise ScheduleError(text, json.loads(figures))
    if code != 0:
        _refuse(code, text)
    return Result(text, json.loads(figures), step)


def step_of(result: Result) -> _core.Step:
    if result.step is None:
        raise RuntimeError("the call gave no step")
    return result.step


def options(**given: object) -> list[str]:
    """Options of the command line: ``layout="pair"`` is ``--layout=pair``; None and False are not
    said."""
    words = []
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, os.PathLike):
            words.append(f"{option}={os.fspath(value)}")
        elif isinstance(value, (str, int, float)):
            words.append(f"{option}={value}")
        else:
            raise TypeError(f"{name}: expected a text or a number, got {type(value).__name__}")
    return words


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


def parameters(given: Mapping[str, object]) -> list[str]:
    """``P=4 M=8`` in the command line's form; None is left out."""
    return [f"{name}={whole(name, value)}" for name, value in given.items() if value is not None]


def path_of(path: Path) -> str:
    """The path as a text. "-" is a file of that name, not standard input."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"expected a path as str, got {type(text).__name__}")
    return "./-" if text == "-" else text


def is_text(source: object, marks: str) -> bool:
    """True if a str is a text and no path: it has any of these marks."""
    return isinstance(source, str) and any(mark in source for mark in marks)
