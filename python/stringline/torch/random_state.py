"""The states of random generators before a forward, for the same forward again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .used import torch


class RandomState:
    """The host's state, and those of the devices on which a module has parameters or buffers."""

    def __init__(self, module: Any):
        tensors = [*module.parameters(), *module.buffers()]
        self._devices = sorted({str(t.device) for t in tensors if t.device.type == "cuda"})
        self._states = self._now()

    def _now(self) -> list[Any]:
        return [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self._devices)]

    def _set(self, states: list[Any]) -> None:
        torch.set_rng_state(states[0])
        for device, state in zip(self._devices, states[1:]):
            torch.cuda.set_rng_state(state, device)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Draws inside are those that followed when this was made; draws behind go on as before."""
        before = self._now()
        self._set(self._states)
        try:
            yield
        finally:
            self._set(before)
