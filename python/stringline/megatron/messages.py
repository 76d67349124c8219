"""The messages of a rank over Megatron's pipeline group.

Megatron's own functions for messages know the next and the previous rank only, wait for a message
before they return, or start it on a communicator of their choice. A plan needs single sends and
receives in its order, to any rank, so they are those of ``torch.distributed``.
"""

from __future__ import annotations

from typing import Any

from ..torch.used import dist, torch

Key = tuple[str, int, int]  # kind, stage, microbatch


class Messages:
    """Pending messages, by action. All have one shape and one type."""

    def __init__(self, group: Any, shape: tuple[int, ...], config: Any, device: Any):
        self._group, self._shape, self._device = group, shape, device
        self._dtype, self._timers = config.pipeline_dtype, config.timers
        self._pending: dict[Key, tuple[Any, Any]] = {}  # the transfer and its tensor

    def send(self, key: Key, tensor: Any, rank: int) -> None:
        """Starts a message to a rank of the group. Raises ValueError for another shape or type than
        that which is received."""
        if tuple(tensor.shape) != self._shape or tensor.dtype != self._dtype:
            raise ValueError(
                f"a value of {tuple(tensor.shape)}, {tensor.dtype}, is to be sent, but the length "
                "of sequences, the size of microbatches, config.hidden_size and "
                f"config.pipeline_dtype give {self._shape}, {self._dtype}"
            )
        tensor = tensor.detach().contiguous()
        self._pending[key] = dist.isend(tensor, self._global(rank), self._group), tensor

    def receive(self, key: Key, rank: int) -> None:
        """Starts to receive a message from a rank of the group."""
        tensor = torch.empty(self._shape, dtype=self._dtype, device=self._device)
        self._pending[key] = dist.irecv(tensor, self._global(rank), self._group), tensor

    def wait(self, key: Key, timer: str) -> Any:
        """The tensor of a message that has ended; ``timer`` is Megatron's name for the wait."""
        work, tensor = self._pending.pop(key)
        if self._timers is not None:
            self._timers(timer, log_level=2).start()
        work.wait()
        if self._timers is not None:
            self._timers(timer).stop()
        return tensor

    def has(self, key: Key) -> bool:
        """True for a message that has been started, and not waited for."""
        return key in self._pending

    def sent(self) -> list[Key]:
        """The sends that have ended already, and were not waited for."""
        return [
            key for key, (work, _) in self._pending.items()
            if key[0].startswith("SEND") and work.is_completed()
        ]

    def end(self) -> None:
        """Waits for all sends."""
        for key in list(self._pending):
            self.wait(key, _TIMERS[key[0]])

    def _global(self, rank: int) -> int:
        return int(dist.get_global_rank(self._group, rank))


_TIMERS = {"SEND_F": "forward-send", "SEND_B": "backward-send"}
