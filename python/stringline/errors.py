"""Exceptions for wrong schedules."""

from __future__ import annotations

import re
from typing import Any


class ScheduleError(ValueError):
    """A mistake in a text: a schedule, a plan, a file of torch's, a timeline.

    ``str(error)`` is the whole message, with every finding, its line of the text and its notes, as
    the command line prints it. The attributes are of the first finding.

    Attributes:
        file: the mistake's file; ``"<text>"`` for a text without a file.
        line, column: the place, both from 1; columns count bytes.
        rank: the first rank in the message; None if the message names no rank.
        code: the kind of finding, as ``"deadlock"``.
        findings: all of them: ``code``, ``file``, ``line``, ``column``, ``message``, ``where``,
            ``notes`` and ``count`` of each.
    """

    def __init__(self, text: str, findings: list[dict[str, Any]]):
        super().__init__(text.rstrip("\n"))
        self.findings = findings
        first: dict[str, Any] = findings[0] if findings else {}
        self.file: str | None = first.get("file")
        self.line: int | None = first.get("line")
        self.column: int | None = first.get("column")
        self.code: str | None = first.get("code")
        named = re.search(r"\brank (\d+)", first.get("message", ""))
        self.rank: int | None = int(named.group(1)) if named else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.findings)
