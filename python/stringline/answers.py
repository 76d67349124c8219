"""Answers of analyses: a text as the command line prints it, and its figures by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Answer(Mapping[str, Any]):
    """Figures by their names in ``--json``, and ``str(answer)``, the text for people.

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
    """The proof of a plan, and its needs (``check``)."""

    @property
    def proven(self) -> tuple[str, ...]:
        """The names of the rules."""
        return tuple(self["proven"])

    @property
    def activations(self) -> int:
        """The most stage activations held by any rank."""
        return int(self["activations"])

    @property
    def receive_buffers(self) -> int:
        """The most receive buffers needed by any rank."""
        return int(self["receive_buffers"])


class Summary(Answer):
    """The time of a step, and the waits of each rank (``sim``)."""

    @property
    def makespan_us(self) -> float:
        """The latest end of anything, in microseconds."""
        return float(self["makespan_us"])

    @property
    def bubble(self) -> float:
        """The mean idle time of a rank, as a share of the makespan."""
        return float(self["bubble"])


class Report(Summary):
    """The uses of a step's time, its distance from the best, and remedies (``report``)."""


class Jitter(Answer):
    """Steps whose times are drawn at random (``Timeline.jitter``)."""

    @property
    def gain(self) -> float:
        """How many times as fast ready order is, in the mean; 1 for a plan without a window."""
        return float(self["gain"]["mean"]) if "gain" in self else 1.0


class Comparison(Answer):
    """The causes of the difference between two steps (``compare``)."""

    @property
    def difference_us(self) -> float:
        """The second step's makespan minus the first's, in microseconds."""
        return float(self["second_makespan_us"]) - float(self["first_makespan_us"])


class Explanation(Answer):
    """Why an action starts at its time, and the actions that wait for it (``explain``)."""

    @property
    def chain(self) -> list[dict[str, Any]]:
        """From the action back to the start of the step; times in microseconds."""
        return list(self["chain"])


class Imported(Answer):
    """The contents of a trace (``import``): the step, clocks, and the busy time of every rank."""

    @property
    def step(self) -> int:
        """The number of the step in the trace."""
        return int(self["step"])

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """For each ``compute_us``, ``non_compute_us``, ``idle_us``, ``total_us``,
        ``communication_us``, ``overlap``, and how its clock was moved: ``clock_us``."""
        return list(self["ranks"])
