"""All uses of torch's internals in one place: most are private there, and may change.

``demand`` raises an error in a single sentence for a missing part, before any use.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

# Types are checked without torch, too.
# mypy: disable-error-code="import-not-found"
try:
    import torch
    import torch.distributed as dist
    from torch.autograd.graph import get_gradient_edge as gradient_edge
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import _PipelineStageBase as Stage
except ImportError as error:
    raise ImportError(
        f"stringline.torch needs torch 2.10 or later, with its distributed package: {error}"
    ) from error

__all__ = [
    "FSDPModule",
    "Stage",
    "demand",
    "dist",
    "form",
    "gradient_edge",
    "greetings_to_others",
    "schedules",
    "torch",
]

_OLDEST = (2, 10)

_OF_SCHEDULES = {
    "_PipelineScheduleRuntime": ("_load_csv", "_step_microbatches", "step", "eval"),
    "PipelineScheduleMulti": ("_check_inputs", "_initialize_stages", "_step_microbatches", "step"),
    "_ComputationType": (),
}
_OF_STAGES = (
    "backward_maybe_with_nosync",
    "backward_one_chunk",
    "backward_weight_one_chunk",
    "clear_runtime_states",
    "forward_one_chunk",
    "get_bwd_recv_ops",
    "get_bwd_send_ops",
    "get_fwd_recv_ops",
    "get_fwd_send_ops",
    "get_local_bwd_output",
    "scale_grads",
    "set_local_bwd_input",
    "set_local_fwd_input",
)


def _missing() -> list[str]:
    found = []
    for name, members in _OF_SCHEDULES.items():
        owner = getattr(schedules, name, None)
        if owner is None:
            found.append(name)
        found += [f"{name}.{member}" for member in members if owner and not hasattr(owner, member)]
    found += [f"PipelineStage.{member}" for member in _OF_STAGES if not hasattr(Stage, member)]
    return found


def demand() -> None:
    """Raises NotImplementedError if this torch is too old, or its internals have changed."""
    version = str(torch.__version__)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers and tuple(map(int, numbers.groups())) < _OLDEST:
        raise NotImplementedError(
            f"stringline.torch needs torch 2.10 or later; this is torch {version}"
        )
    missing = _missing()
    if missing:
        raise NotImplementedError(
            f"torch {version} has changed what stringline.torch uses: there is no "
            f"{', '.join(missing)}. It works with torch 2.10 to 2.15"
        )


@contextlib.contextmanager
def greetings_to_others(stages: list[Any]) -> Iterator[None]:
    """Old versions greet neighbouring stages once. Where the neighbour is on the same rank, gloo
    cannot, and nobody need."""
    old = [stage for stage in stages if hasattr(stage, "_get_init_p2p_neighbors_ops")]
    for stage in old:
        all_of_them, me = stage._get_init_p2p_neighbors_ops, dist.get_rank()
        stage._get_init_p2p_neighbors_ops = lambda all_of_them=all_of_them, me=me: [
            op for op in all_of_them() if op.peer != me
        ]
    try:
        yield
    finally:
        for stage in old:
            del stage._get_init_p2p_neighbors_ops


def form() -> str:
    """The comms form for this torch: since 2.15 sends and reductions have waits."""
    return "comms" if hasattr(schedules._ComputationType, "WAIT_SEND_F") else "comms-2.14"
