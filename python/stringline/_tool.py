"""Calls of the command line, for functions that the extension module lacks: those of the executor,
those of torch's files, and pictures as PDF and PNG."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .errors import ScheduleError


def options(given: Mapping[str, Any]) -> list[str]:
    """Fields of a request as options: ``layout="pair"`` is ``--layout=pair``; False is not said."""
    words = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not False:
            words.append(f"{option}={value}")
    return words


def program(what: str) -> str:
    """The path of ``stringline``: $STRINGLINE_TOOL, or the program of the environment that holds
    this package, or one on the path.

    Raises:
        NotImplementedError: there is none; ``what`` names the function that needs the program.
    """
    given = os.environ.get("STRINGLINE_TOOL")
    if given:
        return given
    for folder in list(pathlib.Path(__file__).resolve().parents)[1:5]:
        beside = folder / "bin" / "stringline"
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which("stringline")
    if found is None:
        raise NotImplementedError(
            f"{what} needs the command line, and there is no 'stringline' on the path"
        )
    return found


def _refusal(message: str) -> str:
    """A message with an option's name at its beginning as an argument's name."""
    message = message.strip().removeprefix("stringline: ")
    return re.sub(r"^--([a-z-]+)", lambda option: option[1].replace("-", "_"), message)


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What the process wrote. Ctrl-C reaches the process, too, which ends in its own time; a second
    Ctrl-C does not wait for that."""
    interrupts = 0
    while True:
        try:
            said = process.communicate()
            break
        except KeyboardInterrupt:
            interrupts += 1
            if interrupts > 1:
                process.terminate()
    if interrupts or process.returncode == 130:
        raise KeyboardInterrupt
    return said


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(what: str, *words: str, file: tuple[str, str]) -> tuple[int, str]:
    """Runs ``stringline WORD FILE …`` with a file of this name and text: the exit status and the
    output.

    Raises:
        NotImplementedError: as ``program``.
        ValueError: the program refuses the options, or a file is wrong.
    """
    command = program(what)
    with written(*file) as path:
        process = _start([command, words[0], path, *words[1:]])
        out, err = _ended(process)
        if process.returncode not in (0, 1):
            raise ValueError(_refusal(err))
        return process.returncode, out.replace(path, file[0])


@contextmanager
def written(name: str, text: str) -> Iterator[str]:
    """The path of a file of this name and text, for a while."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as opened:
            opened.write(text)
        yield path


class Said(NamedTuple):
    """A command's answer: its JSON with ``ok``, and its text, which only ``text=True`` asks for."""

    figures: dict[str, Any]
    text: str


def ask(
    words: Sequence[str], *, text: bool = False, names: Mapping[str, str] | None = None
) -> Said:
    """The answer of ``stringline WORDS``. With ``text`` the command runs twice at once, with and
    without ``--json``. Its warnings are Python's warnings. ``names`` are those of files by their
    paths in ``words``.

    Raises:
        NotImplementedError: as ``program``.
        ScheduleError: a text is wrong; not where the answer has keys of its own beside findings.
        ValueError: the program refuses an option or a file.
        KeyboardInterrupt: Ctrl-C ended the command.
    """
    command = [program(f"{words[0]}()"), *words]
    shown = _start(command) if text else None
    process = _start([*command, "--json"])
    try:
        out, err = _ended(process)
        printed = _ended(shown)[0] if shown else ""
    finally:
        for left in (process, shown):
            if left is not None and left.poll() is None:
                left.terminate()
                left.communicate()
    for path, name in (names or {}).items():
        out, err, printed = (said.replace(path, name) for said in (out, err, printed))
    if not out and process.returncode == 0:
        return Said({"ok": True}, printed)  # of several processes the first alone tells
    try:
        figures: dict[str, Any] = json.loads(out)
    except ValueError:
        raise RuntimeError(
            f"stringline {words[0]} ended with {process.returncode}: {(err or out).strip()}"
        ) from None
    if "error" in figures:
        raise ValueError(_refusal(figures["error"]))
    if not figures["ok"] and set(figures) == {"ok", "findings"}:
        if not text:
            printed = _ended_text(command)
        raise ScheduleError(printed, figures["findings"])
    for line in filter(None, err.splitlines()):
        warnings.warn(line.removeprefix("stringline: "), stacklevel=3)
    return Said(figures, printed)


def _ended_text(command: Sequence[str]) -> str:
    """All that the command prints for people; findings go to standard output or to the other."""
    out, err = _ended(_start(command))
    return out + err
