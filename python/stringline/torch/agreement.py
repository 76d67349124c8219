"""The ranks of a group say the same before any message of a step, or every one of them stops.

A rank says facts: the schedule's name, P, M, hashes of what each rank performs. The ranks gather a
hash of all of them, and the facts themselves only where hashes differ. A rank that refuses its call
tells the others, which would wait for it otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

from .used import dist, torch

Made = TypeVar("Made")

_REFUSED = "refused"
_ITS_OWN = (_REFUSED, "shares")  # facts in which ranks may differ


class Agreement:
    """Among the ranks of the group of a ``PipelineStage``; each of them makes the same calls."""

    def __init__(self, stage: Any):
        self._group, self._device = stage.group, stage.device
        self._ranks = int(stage.group_size)

    def of(self, make: Callable[[dict[str, Any]], Made]) -> tuple[Made, list[dict[str, Any]]]:
        """The result of ``make(facts)``, and the facts of every rank, which ``make`` fills in.

        Raises ValueError on every rank where they differ or where another rank refuses, and the
        error of ``make``.
        """
        facts: dict[str, Any] = {}
        error: Exception | None = None
        try:
            made = make(facts)
        except Exception as found:
            error = found
            facts[_REFUSED] = str(found)
        every = self._exchange(facts)
        different = _differences(every)
        if different:
            raise ValueError(f"the ranks of the group disagree: {different}") from error
        if error is not None:
            raise error
        for rank, one in enumerate(every):
            if _REFUSED in one:
                raise ValueError(f"rank {rank} of the group refuses: {one[_REFUSED]}")
        return made, every

    def _exchange(self, facts: dict[str, Any]) -> list[dict[str, Any]]:
        text = json.dumps(facts).encode()
        head = hashlib.sha256(text).digest() + len(text).to_bytes(8, "little")
        heads = self._gather(head)
        if all(one == head for one in heads):
            return [facts] * self._ranks
        longest = max(int.from_bytes(one[-8:], "little") for one in heads)
        return [json.loads(one) for one in self._gather(text.ljust(longest))]

    def _gather(self, data: bytes) -> list[bytes]:
        """The data of every rank, equally long on all of them."""
        mine = torch.tensor(list(data), dtype=torch.uint8, device=self._device)
        every = [torch.empty_like(mine) for _ in range(self._ranks)]
        dist.all_gather(every, mine, group=self._group)
        return [bytes(one.tolist()) for one in every]


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _differences(every: list[dict[str, Any]]) -> str:
    """The facts in which ranks differ that know them; hashes only where nothing else differs."""
    names = list(dict.fromkeys(name for one in every for name in one if name not in _ITS_OWN))
    found = {name: one for name in names if len(one := _ranks_by_value(name, every)) > 1}
    named = {name: one for name, one in found.items() if not name.startswith("hash")}
    return "; ".join(_said(name, one) for name, one in (named or found).items())


def _ranks_by_value(name: str, every: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rank, one in enumerate(every):
        if name in one:
            found.setdefault(str(one[name]), []).append(rank)
    return found


def _said(name: str, ranks_by_value: dict[str, list[int]]) -> str:
    parts = [
        f"{value} on rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
        for value, ranks in ranks_by_value.items()
    ]
    return f"{name} is {', and '.join(parts)}"
