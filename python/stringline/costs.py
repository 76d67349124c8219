"""Costs of actions: a dict, a text, or a file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ._calls import fields, path_of, whole

Costs = Union[Mapping[str, Any], str, "os.PathLike[str]", None]
"""Costs of F, B, I, W, messages and so on, by the keys that the tool's documents list.

- A dict: ``{"F": 18522, "I": "18.1ms", "W": 9337, "p2p": 601}``. A plain number is microseconds;
  ``"2ms"`` and ``"16MiB"`` have units; a list is a value for each stage, that of ``microbatch`` for
  each microbatch; keys with a dot may be a dict: ``{"node": {"ranks": 8}}``, or
  ``{"links": {"3-4": {"p2p": "80us"}}}`` for the messages between ranks 3 and 4. It may also say a
  model's shape and ``hardware``, as cost files.
- A text, as ``"F=18522,I=18086"``, or that of a cost file.
- The path of a cost file (YAML).
- None: what a greedy order or a searched one was made for, in ms; or else F, I and W take 1 ms,
  B 2 ms, messages no time.
"""

Slow = Mapping[int | str, str | float]
"""Ranks that compute more slowly, by rank: ``{3: "10%"}`` or ``{3: 0.1}``; and links between two ranks
whose messages take longer: ``{"3-4": "50%"}``, or ``{"3->4": 0.5}`` for one direction."""

Memory = Union[str, int, Sequence[str | int], Mapping[int, str | int]]
"""Most bytes that ranks may hold: ``"80GB"`` all, ``["80GB", "40GB"]`` each, ``{3: "40GB"}`` some."""


def memory_of(memory: Memory | None) -> Any:
    """As a field of a request: a limit, a list of them, or a dict by rank."""
    if isinstance(memory, Mapping):
        return {str(whole("memory", rank)): _bytes(limit) for rank, limit in memory.items()}
    if memory is None or isinstance(memory, str):
        return memory
    if isinstance(memory, Sequence):
        return [_bytes(limit) for limit in memory]
    return _bytes(memory)


def memory_in_words(memory: Memory | None) -> str | None:
    """In the command line's form."""

    def word(limit: str | int) -> str:
        return limit if isinstance(limit, str) else f"{limit}B"

    limits = memory_of(memory)
    if isinstance(limits, dict):
        return ",".join(f"{rank}:{word(limit)}" for rank, limit in limits.items())
    if isinstance(limits, list):
        return ",".join(map(word, limits))
    return None if limits is None else word(limits)


def _bytes(limit: str | int) -> str | int:
    return limit if isinstance(limit, str) else whole("memory", limit)


def _plain(value: Any) -> Any:
    """Values for JSON, converted from NumPy's and other numbers too."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # no cost: refused by its key
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise TypeError(f"costs: expected numbers, texts, lists and dicts, got {type(value).__name__}")


def _source_of(costs: Costs) -> dict[str, Any]:
    """The field ``costs`` of a request: keys and values, a text, a cost file's text, or a file."""
    if isinstance(costs, Mapping):
        if not costs:
            raise ValueError("costs: the dict is empty")
        return {"table": _plain(costs)}
    if isinstance(costs, os.PathLike):
        return {"file": path_of(costs)}
    if not isinstance(costs, str):
        raise TypeError(f"costs: expected a dict, a text or a path, got {type(costs).__name__}")
    if "\n" in costs or re.match(r"\s*[\w.>-]+:\s", costs):
        return {"yaml": costs}
    if re.match(r"\s*[\w.>-]+\s*=", costs):
        return {"text": costs}
    return {"file": path_of(costs)}


def _part(part: int | str) -> str:
    """A rank, or a link as ``"3-4"``."""
    return part if isinstance(part, str) and "-" in part else str(whole("slow", part))


def request_of(
    costs: Costs,
    *,
    slow: Slow | None = None,
    work: str | None = None,
    mesh: str | None = None,
    sharding: str | None = None,
    bucket: str | None = None,
) -> dict[str, Any]:
    """The fields of a request for costs."""
    request = fields(work=work, mesh=mesh, sharding=sharding, bucket=bucket)
    if slow:
        request["slow"] = {
            _part(part): share if isinstance(share, str) else float(share)
            for part, share in slow.items()
        }
    if costs is not None:
        request["costs"] = _source_of(costs)
    return request
