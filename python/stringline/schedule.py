"""Schedules: texts of the language, the library's, and schedules made in Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

from ._calls import Path, call, fields, is_text, parameters, path_of, step_of, whole
from .arrays import KINDS
from .plan import Plan

_UNNAMED = "<text>"


class Action(NamedTuple):
    """An action of a rank: ``Action(3, "F", 7)`` is ``3F7``, stage 3's forward of microbatch 7.

    ``kind`` is one of ``stringline.KINDS``; ``microbatch`` is None for a collective.
    """

    stage: int
    kind: str
    microbatch: int | None = None

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{'' if self.microbatch is None else self.microbatch}"


Cell = Union[str, Action, Sequence[str | Action]]
"""An action, as text or ``Action``; or a list of those that share the rank."""


def _words(cell: Cell) -> str:
    if isinstance(cell, (list, tuple)) and not hasattr(cell, "_fields"):
        return "&".join(str(part) for part in cell)
    return str(cell)


def _cells(rank: int, cells: Iterable[Cell]) -> list[str]:
    """The cells of a rank as words; ValueError for one that is no action."""
    if isinstance(cells, (str, Action)) or not isinstance(cells, Iterable):
        raise ValueError(f"ranks[{rank}] is {cells!r}: expected a list of actions, as ['0F0', '0B0']")
    words = []
    for index, cell in enumerate(cells):
        words.append(_words(cell))
        for action in words[-1].split("&"):
            wrong = _why_no_action(action)
            if wrong:
                raise ValueError(f"ranks[{rank}][{index}] is {cell!r}: {wrong}")
    return words


def _why_no_action(word: str) -> str:
    form = re.fullmatch(r"\d+([A-Z_]+)(\d+(?:\.\d+)?)?", word)
    if form is None:
        return (
            f"{word!r} is no action; expected a stage, a kind and a microbatch, as '3F7', and '&' "
            "between those that share the rank, as '0F1&1B0'"
        )
    kind, microbatch = form.groups()
    if kind not in KINDS:
        known = ", ".join(name for name in KINDS if not name.startswith("OWN_"))
        return f"{kind!r} is no kind of action; there are {known}"
    if microbatch is None and (len(kind) == 1 or kind.startswith(("SEND_", "RECV_"))):
        return f"{word!r} has no microbatch; expected one, as '{word}0'"
    return ""


class Schedule:
    """A text with orders for every P and M: a schedule, or a plan, which is for a single P and M.

    ``stringline.load`` reads one, ``Schedule.build`` makes one. Schedules are equal if their texts and
    their names are: paths in ``use`` count from the name.
    """

    def __init__(self, text: str, *, name: str = _UNNAMED):
        """Parses ``text``. ``name`` is the file for messages, and the base of paths in ``use``.

        Raises:
            ScheduleError: the text does not parse.
        """
        name = path_of(name)
        facts = call("facts", {"file": name, "text": text})
        self._set(name, facts.text, facts.figures)

    def _set(self, name: str, text: str, facts: dict[str, Any]) -> None:
        if facts["kind"] == "timeline":
            raise ValueError(f"{name}: this is a timeline: stringline.load_timeline reads it")
        self.name = name
        self.text = text
        self._schedules = {one["name"]: one for one in facts["schedules"]}

    @property
    def schedules(self) -> tuple[str, ...]:
        """The names of the schedules in the text; the last is meant where none is named."""
        return tuple(self._schedules)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the last schedule; none of a plan, which has its values."""
        names = [one["parameters"] for one in self._schedules.values()]
        return tuple(names[-1]) if names else ()

    def plan(
        self,
        P: int | None = None,
        M: int | None = None,
        *,
        schedule: str | None = None,
        again: bool = False,
        **more: int,
    ) -> Plan:
        """Each rank's actions in order, for these parameters.

        Args:
            P, M: ranks and microbatches. For the text of a plan: None.
            schedule: the name of a schedule in the text; the last by default.
            again: search for orders anew, without the kept orders of earlier searches.
            more: the schedule's other parameters.

        Raises:
            ScheduleError: the schedule is wrong, or refuses these parameters.
            ValueError: a parameter is missing or unknown.
        """
        request = fields(file=self.name, text=self.text, schedule=schedule, again=again)
        request["parameters"] = parameters({"P": P, "M": M, **more})
        return Plan(step_of(call("plan", request)))

    @classmethod
    def build(
        cls,
        ranks: Iterable[Iterable[Cell]],
        *,
        stages: Sequence[int] | None = None,
        microbatches: int | None = None,
        chunks: int = 1,
        overlaps: Iterable[str] = (),
        name: str = "built",
    ) -> Schedule:
        """A plan from each rank's actions: ``build([["0F0", "0B0"], ["1F0", "1B0"]])``.

        The plan is checked like any other: ``build(...).plan().check()``.

        Args:
            ranks: for every rank its actions in order; actions that share the rank are an inner
                list, or joined by ``&``.
            stages: the rank of every stage; by default the rank of its first action.
            microbatches: their number; by default as many as the actions name.
            chunks: into how many each microbatch is cut inside a stage, as ``chunks 2;`` says it
                in a schedule.
            overlaps: kinds of groups whose parts share the rank: ``["F & F"]``, as
                ``overlap F & F;`` in a schedule.
            name: a word for messages and pictures.

        Raises:
            ValueError: a cell is no action, or a stage has none; the message names rank and cell.
        """
        if not re.fullmatch(r"\w+", name):
            raise ValueError(f"name: expected one word, got {name!r}")
        lines = [_cells(rank, cells) for rank, cells in enumerate(ranks)]
        if not lines:
            raise ValueError("ranks: there is none")
        if stages is None:
            stages = _ranks_of_stages(lines)
        numbers = re.findall(r"\d[A-Z_]+(\d+)(?:\.(\d+))?", " ".join(map(" ".join, lines)))
        if microbatches is None:
            microbatches = max((int(number) for number, _ in numbers), default=0) + 1
        slices = max((int(number) for _, number in numbers if number), default=0) + 1
        text = [f"plan {name} P={len(lines)} M={whole('microbatches', microbatches)}"]
        if slices > 1:
            text.append(f"slices {slices}")
        text.append(f"stages {' '.join(str(int(rank)) for rank in stages)}")
        text += [f"overlap {kinds.replace(' ', '')}" for kinds in overlaps]
        if whole("chunks", chunks) != 1:
            text.append(f"chunks {chunks}")
        text += [f"rank {rank}: {' '.join(words)}" for rank, words in enumerate(lines)]
        return cls("\n".join(text) + "\n", name=f"{name}.plan")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return (self.name, self.text) == (other.name, other.text)

    def __hash__(self) -> int:
        return hash((self.name, self.text))

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, parameters={self.parameters})"


def _ranks_of_stages(lines: list[list[str]]) -> list[int]:
    ranks: dict[int, int] = {}
    for rank, words in enumerate(lines):
        for stage in re.findall(r"(?<!\w)(\d+)(?=[FBIWR]\d)", " ".join(words)):
            ranks.setdefault(int(stage), rank)
    missing = set(range(max(ranks, default=0) + 1)) - set(ranks)
    if missing:
        raise ValueError(f"stage {min(missing)} does nothing on any rank")
    return [ranks[stage] for stage in range(len(ranks))]


def load(source: Path, *, name: str = _UNNAMED) -> Schedule:
    """A schedule from a file, from the library, or from a text.

    Args:
        source: a path (``.sched``, ``.plan``, or ``.csv`` of torch's); the name of a library
            schedule, as ``"zb_v"`` (``stringline.library`` lists them); or a text: any str with a
            line end or a brace.
        name: the name of a text in messages.

    Raises:
        ScheduleError: the text does not parse.
        FileNotFoundError: neither a file nor a library schedule has this name.
    """
    if is_text(source, "\n{"):
        return Schedule(str(source), name=name)
    path = path_of(source)
    facts = call("facts", {"file": path})
    schedule = Schedule.__new__(Schedule)
    schedule._set(path, facts.text, facts.figures)
    return schedule


def library() -> tuple[str, ...]:
    """The names of the published schedules for ``load``."""
    return tuple(one["name"] for one in call("library", {}).figures)
