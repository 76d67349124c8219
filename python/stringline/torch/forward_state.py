"""The state that a forward finds beside its input, for the same forward again: random generators,
and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .used import torch


class ForwardState:
    """The host's generator, and those of the devices on which a module has parameters or buffers;
    with a copy of every buffer: the versions of tensors do not tell whether a forward changes one
    (BatchNorm's running mean)."""

    def __init__(self, module: Any):
        tensors = [*module.parameters(), *module.buffers()]
        self._devices = sorted({str(t.device) for t in tensors if t.device.type == "cuda"})
        self._states = self._now()
        copies = {id(one): one.detach().clone() for one in module.buffers()}
        self._buffers = [
            (owner, name, copies[id(one)])
            for owner in module.modules()
            for name, one in owner._buffers.items()
            if one is not None
        ]

    def _now(self) -> list[Any]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self._devices)]

    def _set(self, states: list[Any]) -> None:
        torch.set_rng_state(states[0])
        for device, state in zip(self._devices, states[1:]):
            torch.cuda.set_rng_state(state, device)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Draws and buffers inside are those that followed when this was made; draws behind go on
        as before, and buffers are those from before."""
        before = self._now()
        buffers = [(owner, name, owner._buffers[name]) for owner, name, _ in self._buffers]
        self._set(self._states)
        for owner, name, kept in self._buffers:
            owner._buffers[name] = kept
        try:
            yield
        finally:
            self._set(before)
            for owner, name, one in buffers:
                owner._buffers[name] = one
