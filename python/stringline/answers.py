"""What analyses answer: a text as the command line prints it, and its figures by name."""

from __future__ import annotations

from typing import Any, Iterator, Mapping


class Answer(Mapping[str, Any]):
    """Figures by the names that ``--json`` has, and ``str(answer)``, the text for people.

    Times are microseconds where a name ends in ``_us``; bubbles and gaps are shares of 1.
    """

    def __init__(self, text: str, figures: Mapping[str, Any]):
        self.text = text
        self._figures = {key: value for key, value in figures.items() if key != "ok"}

    def __getitem__(self, key: str) -> Any:
        return self._figures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text.strip("\n") or f"{type(self).__name__}({self._figures})"


class Proof(Answer):
    """What was proven of a plan, and what it needs (``check``)."""

    @property
    def proven(self) -> tuple[str, ...]:
        """The names of the rules."""
        return tuple(self["proven"])

    @property
    def activations(self) -> int:
        """The most stage activations that a rank holds."""
        return int(self["activations"])

    @property
    def receive_buffers(self) -> int:
        """The most receive buffers that a rank needs."""
        return int(self["receive_buffers"])


class Summary(Answer):
    """How long a step takes, and who waits for what (``sim``)."""

    @property
    def makespan_us(self) -> float:
        """The latest end of anything, in microseconds."""
        return float(self["makespan_us"])

    @property
    def bubble(self) -> float:
        """How long a rank is idle on average, as a share of the makespan."""
        return float(self["bubble"])


class Report(Summary):
    """Where a step's time goes, how far it is from the best, and what would help (``report``)."""


class Comparison(Answer):
    """Where the difference of two steps comes from (``compare``)."""

    @property
    def difference_us(self) -> float:
        """How much longer the second takes, in microseconds."""
        return float(self["second_makespan_us"]) - float(self["first_makespan_us"])


class Explanation(Answer):
    """Why an action starts when it does, and what waits for it (``explain``)."""

    @property
    def chain(self) -> list[dict[str, Any]]:
        """From the action back to the start of the step; times in microseconds."""
        return list(self["chain"])


class Imported(Answer):
    """What a trace holds (``import``): the step, clocks, and how busy every rank was."""

    @property
    def step(self) -> int:
        """Which step of the trace it is."""
        return int(self["step"])

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """For each ``compute_us``, ``non_compute_us``, ``idle_us``, ``total_us``,
        ``communication_us``, ``overlap``, and how its clock was moved: ``clock_us``."""
        return list(self["ranks"])
