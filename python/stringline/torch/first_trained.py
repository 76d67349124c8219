"""The first stage that is trained, behind stages that are frozen, where a backward is in two parts.

An input gradient (I) finds the nodes of autograd that a weight gradient (W) goes on from, on the way
to the stage's input. An activation of frozen stages wants no gradient: no way leads to the input, no
node is found, and torch's stage leaves its parameters without gradients in silence. Here I is the
whole backward of such a stage: no other stage waits for its input gradient. W only finishes the
gradients that FSDP gathers.
"""

from __future__ import annotations

import functools
from typing import Any

from .used import torch

_NAME = "backward_maybe_with_nosync"


def train_behind_frozen(stage: Any) -> None:
    """Makes I of this ``PipelineStage`` a whole backward where its input wants no gradient."""
    if _NAME not in vars(stage):
        setattr(stage, _NAME, functools.partial(_backward, getattr(stage, _NAME)))


def _backward(backward: Any, kind: str, given: dict[str, Any], **more: Any) -> Any:
    """Torch's ``backward_maybe_with_nosync``, of a whole backward, of an I or of a W."""
    if kind != "input" or any(map(_wants_gradient, given["input_values"])):
        return backward(kind, given, **more)
    whole = dict(given)
    if whole["output_grads"] is None:  # a loss, which only an I has in a tuple
        (whole["stage_output"],) = whole["stage_output"]
    gradients, _ = backward("full", whole, **more)
    return gradients, []


def _wants_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and bool(value.requires_grad)
