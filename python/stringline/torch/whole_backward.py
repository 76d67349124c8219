"""Input gradients (I) that are whole backwards, in stages that torch cannot take apart.

In an I torch's stage goes from its outputs to its input, and keeps the gradients that arrive at the
last nodes of autograd from which a parameter is reached: a weight gradient (W) goes on from there.
That is right where every output depends on an input that wants a gradient, and every parameter is
reached from one such node. Elsewhere gradients are lost in silence (frozen stages before this one;
an output that depends on parameters only, or on a detached input), counted twice, or W stops with
an error (a weight used twice). There I is the whole backward, and W only finishes the gradients
that FSDP gathers.

The first stage of a pipe needs none of this: torch does its whole backward in W.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .used import gradient_edge, torch

_NAME = "backward_maybe_with_nosync"


def whole_where_needed(stage: Any) -> None:
    """Makes I of this ``PipelineStage`` a whole backward where torch cannot take it apart."""
    if _NAME not in vars(stage):
        setattr(stage, _NAME, functools.partial(_backward, stage, getattr(stage, _NAME)))


def _backward(stage: Any, backward: Any, kind: str, given: dict[str, Any], **more: Any) -> Any:
    """Torch's ``backward_maybe_with_nosync``, of a whole backward, of an I or of a W."""
    if kind != "input" or _comes_apart(
        _nodes(given["stage_output"]), _nodes(given["input_values"]), stage.submod.parameters()
    ):
        return backward(kind, given, **more)
    whole = dict(given)
    if whole["output_grads"] is None:  # a loss, which only an I has in a tuple
        (whole["stage_output"],) = whole["stage_output"]
    gradients, _ = backward("full", whole, **more)
    return gradients, []


def _nodes(values: Iterable[Any]) -> set[Any]:
    """The nodes of autograd behind these values, of those that have one: an output may be an edge
    already."""
    found = set()
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                found.add(gradient_edge(value).node)
        elif hasattr(value, "node"):
            found.add(value.node)
    return found


def _comes_apart(outputs: set[Any], inputs: set[Any], parameters: Iterable[Any]) -> bool:
    """True if torch's I and W find every gradient of a graph once."""
    users = _users(outputs)
    on_the_way = _above(inputs, users, stop=set())
    if not outputs <= on_the_way:
        return False
    leaves = {node for node in users if hasattr(node, "variable")} - inputs
    if not leaves <= _nodes(parameters):
        return False
    return all(len(_above({leaf}, users, on_the_way) & on_the_way) == 1 for leaf in leaves)


def _users(outputs: set[Any]) -> dict[Any, set[Any]]:
    """For every node of a graph those whose gradient it takes."""
    users: dict[Any, set[Any]] = defaultdict(set)
    left = list(outputs)
    for node in left:
        users[node] = set()
    while left:
        node = left.pop()
        for following, _ in node.next_functions:
            if following is not None:
                if following not in users:
                    left.append(following)
                users[following].add(node)
    return users


def _above(nodes: set[Any], users: dict[Any, set[Any]], stop: set[Any]) -> set[Any]:
    """These nodes, and those that use them, directly or not, as far as ``stop``."""
    found = {node for node in nodes if node in users}
    left = list(found)
    while left:
        for user in users[left.pop()] - found:
            found.add(user)
            if user not in stop:
                left.append(user)
    return found
