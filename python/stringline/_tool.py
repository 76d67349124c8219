"""Functions of the command line only: it has an executor, and draws PDF and PNG. The package does
neither."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any


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


def run(what: str, *words: str, file: tuple[str, str]) -> tuple[int, str]:
    """Runs ``stringline WORD FILE …`` with a file of this name and text: the exit status and the
    output.

    The program is the one on the path, or $STRINGLINE_TOOL.

    Raises:
        NotImplementedError: no program was found; ``what`` names the function that needs the
            program.
        ValueError: the program refuses the options, or a file is wrong.
    """
    program = os.environ.get("STRINGLINE_TOOL") or shutil.which("stringline")
    if program is None:
        raise NotImplementedError(
            f"{what} needs the command line, and there is no 'stringline' on the path"
        )
    with tempfile.TemporaryDirectory() as folder:
        name, text = file
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as opened:
            opened.write(text)
        command = [program, words[0], path, *words[1:]]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode not in (0, 1):
            raise ValueError(ran.stderr.strip().removeprefix("stringline: ").removeprefix("--"))
        return ran.returncode, ran.stdout.replace(path, name)
