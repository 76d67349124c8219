"""Copies of stages in schedules of several pipes: their gradients are summed, their buffers kept
equal.

A rank with a stage of one pipe exchanges its gradients with the ranks of the stage's copies, and
sums them in the order of the pipes: so every copy gets the same bits.

Buffers (running figures of BatchNorm, counters) are those of the first pipe: the other copies take
them over before the first step, and behind every step with the sum of gradients. So they have seen
the microbatches of the first pipe, in the order of its forwards, as under DistributedDataParallel
they have seen the batches of its first rank.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

from ..plan import Plan
from .planned import places_of, ranks_of_pipes
from .used import dist, torch


class _Copy(NamedTuple):
    """A stage of this rank, and the ranks of its copies."""

    stage: Any
    pipe: int
    peers: list[tuple[int, int]]  # pipe and rank of the others


def _parameters(stage: Any) -> list[Any]:
    return [one for one in stage.submod.parameters() if one.requires_grad]


def _exchange(copy: _Copy, mine: Any) -> list[Any]:
    """The gradients of all copies, in the order of pipes."""
    found = {copy.pipe: mine}
    ops = []
    for pipe, rank in copy.peers:
        found[pipe] = torch.empty_like(mine)
        group = copy.stage.group
        peer = rank if group is None else dist.get_global_rank(group, rank)
        ops.append(dist.P2POp(dist.isend, mine, peer, group))
        ops.append(dist.P2POp(dist.irecv, found[pipe], peer, group))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return [found[pipe] for pipe in sorted(found)]


class Replicas:
    """The copies of a rank's stages; none in a schedule with a single pipe."""

    def __init__(self, plan: Plan, rank: int, stages: dict[int, Any]):
        """Raises ValueError if a rank holds two copies of the same stage."""
        mappings = ranks_of_pipes(plan)
        self._copies: dict[int, _Copy] = {}
        self._before: dict[int, list[Any]] = {}
        self._compared = False
        for pipe, index, stage in places_of(plan, rank) if len(mappings) > 1 else ():
            holders = [mapping.get(index) for mapping in mappings]
            peers = [(p, r) for p, r in enumerate(holders) if p != pipe and r is not None]
            if len({holder for _, holder in peers} | {rank}) != len(peers) + 1:
                raise ValueError(
                    f"rank {rank} holds two copies of stage {index}, which is not supported"
                )
            self._copies[stage] = _Copy(stages[stage], pipe, peers)

    def begin(self) -> None:
        """Sets aside the gradients of steps before; ValueError where parameters of copies differ at
        first."""
        by_index = sorted(self._copies.values(), key=lambda copy: copy.stage.stage_index)
        for copy in by_index if not self._compared else ():
            _compare(copy)
            _take_buffers(copy)
        self._compared = True
        for number, copy in self._copies.items():
            parameters = _parameters(copy.stage)
            self._before[number] = [parameter.grad for parameter in parameters]
            for parameter in parameters:
                parameter.grad = None

    def sum(self, number: int) -> None:
        """Sums the gradients of a stage, by its number in the plan, with those of its copies, which
        then have the same buffers, too."""
        copy = self._copies[number]
        _take_buffers(copy)
        parameters = _parameters(copy.stage)
        for dtype in sorted({parameter.dtype for parameter in parameters}, key=str):
            alike = [parameter for parameter in parameters if parameter.dtype == dtype]
            found = alike[0].new_tensor([one.grad is not None for one in alike])
            flat = [
                (torch.zeros_like(one) if one.grad is None else one.grad).reshape(-1)
                for one in alike
            ]
            total = functools.reduce(operator.add, _exchange(copy, torch.cat([found, *flat])))
            sizes = [len(alike), *(parameter.numel() for parameter in alike)]
            copies, *grads = total.split(sizes)
            for parameter, grad, having in zip(alike, grads, copies.tolist()):
                parameter.grad = grad.view_as(parameter).clone() if having else None
        for parameter, before in zip(parameters, self._before.pop(number, ())):
            if before is not None:
                parameter.grad = before if parameter.grad is None else parameter.grad + before


def _take_buffers(copy: _Copy) -> None:
    """The buffers of the first pipe's copy, as bytes: there are several types, and NaN."""
    buffers = [buffer.detach() for buffer in copy.stage.submod.buffers() if buffer.numel()]
    if not buffers:
        return
    mine = [_bytes_of(buffer) for buffer in buffers]
    first = _exchange(copy, torch.cat(mine))[0]
    for buffer, old, new in zip(buffers, mine, first.split([one.numel() for one in mine])):
        if not torch.equal(old, new):
            buffer.copy_(new.clone().view(buffer.dtype).view(buffer.shape))


def _bytes_of(tensor: Any) -> Any:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _compare(copy: _Copy) -> None:
    module, trained = copy.stage.submod, _parameters(copy.stage)
    values = [parameter.detach().double() for parameter in module.parameters()]
    buffers = [_bytes_of(buffer).numel() for buffer in module.buffers()]
    found = [len(values), sum(value.numel() for value in values)]
    found += [float(sum(value.sum() for value in values))]
    found += [float(sum((value * value).sum() for value in values))]
    found += [len(trained), sum(one.numel() for one in trained), len(buffers), sum(buffers)]
    mine = torch.tensor(found, dtype=torch.float64, device=copy.stage.device)
    every = _exchange(copy, mine)
    for what, part in _COMPARED.items():
        if any(not torch.equal(mine[part], theirs[part]) for theirs in every):
            raise ValueError(
                f"stage {copy.stage.stage_index} has other {what} on rank "
                f"{', '.join(str(rank) for _, rank in copy.peers)} than here: the copies of a "
                "stage have to begin alike"
            )


_COMPARED = {
    "parameters": slice(0, 4),
    "frozen parameters": slice(4, 6),
    "buffers": slice(6, 8),
}
