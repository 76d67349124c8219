"""Costs of actions: a dict, a text, or a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ._calls import options, path_of, whole

Costs = Union[Mapping[str, Any], str, "os.PathLike[str]", None]
"""Costs of F, B, I, W, messages and so on, by the keys that the tool's documents list.

- A dict: ``{"F": 18522, "I": "18.1ms", "W": 9337, "p2p": 601}``. A plain number is microseconds;
  ``"2ms"`` and ``"16MiB"`` have units; a list is a value for each stage; keys with a dot may be a
  dict: ``{"node": {"ranks": 8}}``. It may also say a model's shape and ``hardware``, as cost files.
- A text, as ``"F=18522,I=18086"``, or that of a cost file.
- The path of a cost file (YAML).
- None: what a greedy order or a searched one was made for, in ms; or else F, I and W take 1 ms,
  B 2 ms, messages no time.
"""

Slow = Mapping[int, str | float]
"""Ranks that compute more slowly, by rank: ``{3: "10%"}`` or ``{3: 0.1}``."""

Memory = Union[str, int, Sequence[str | int], Mapping[int, str | int]]
"""Most bytes that ranks may hold: ``"80GB"`` all, ``["80GB", "40GB"]`` each, ``{3: "40GB"}`` some."""


def memory_in_words(memory: Memory | None) -> str | None:
    """In the command line's form."""
    if memory is None or isinstance(memory, str):
        return memory
    if isinstance(memory, Mapping):
        return ",".join(f"{rank}:{_bytes(limit)}" for rank, limit in memory.items())
    if isinstance(memory, Sequence):
        return ",".join(_bytes(limit) for limit in memory)
    return _bytes(memory)


def _bytes(limit: str | int) -> str:
    return limit if isinstance(limit, str) else f"{whole('memory', limit)}B"


def _plain(value: Any) -> Any:
    """Values for YAML, converted from NumPy's and other numbers too."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise TypeError(f"costs: expected numbers, texts, lists and dicts, got {type(value).__name__}")


def _yaml(value: Any) -> str:
    """A value in YAML's flow style. Words stand without quotes, as in cost files."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z0-9_./%+-][A-Za-z0-9_./%+ -]*", value)
        return value if plain else json.dumps(value)
    return json.dumps(value)


UNNAMED_COSTS = "--costs=<costs>"


def in_words(costs: Costs) -> str:
    """The costs in the short form of the command line, for people; a dict of dicts has no short
    form."""
    if not isinstance(costs, Mapping):
        return UNNAMED_COSTS
    return "--cost=" + ",".join(f"{key}={_yaml(value)}" for key, value in _plain(costs).items())


def request_of(
    costs: Costs,
    *,
    slow: Slow | None = None,
    work: str | None = None,
    mesh: str | None = None,
    sharding: str | None = None,
    bucket: str | None = None,
) -> tuple[list[str], dict[str, str]]:
    """The options of the command line, and the further keys of a request."""
    words = options(work=work, mesh=mesh, sharding=sharding, bucket=bucket)
    for rank, share in (slow or {}).items():
        share = share if isinstance(share, str) else f"{100 * float(share):.12g}%"
        words.append(f"--slow={rank}={share}")
    beside: dict[str, str] = {}
    if costs is None:
        return words, beside
    if isinstance(costs, Mapping):
        if not costs:
            raise ValueError("costs: the dict is empty")
        lines = [f"{key}: {_yaml(value)}\n" for key, value in _plain(costs).items()]
        beside["costs_text"] = "".join(lines)
        words.append(UNNAMED_COSTS)
    elif isinstance(costs, os.PathLike):
        words.append(f"--costs={path_of(costs)}")
    elif not isinstance(costs, str):
        raise TypeError(f"costs: expected a dict, a text or a path, got {type(costs).__name__}")
    elif "\n" in costs or re.match(r"\s*[\w.]+:\s", costs):
        beside["costs_text"] = costs
        words.append(UNNAMED_COSTS)
    elif re.match(r"\s*[\w.]+\s*=", costs):
        words.append(f"--cost={costs}")
    else:
        words.append(f"--costs={path_of(costs)}")
    return words, beside
