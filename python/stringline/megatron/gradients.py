"""Calls of Megatron's hooks around the backwards of a rank.

Copies of the model sum the gradients of a chunk once, in its last backward or behind it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class Gradients:
    """Holds up all reductions from the beginning of ``with``, except in the last backward of a
    chunk, and lets them go at the end."""

    def __init__(self, config: Any, models: list[Any]):
        functions = config.no_sync_func
        self._holds = functions if isinstance(functions, list) else [functions] if functions else []
        self._reduce = _of_chunks(config.grad_sync_func, models)
        self._models = models
        self._held: contextlib.ExitStack | None = None

    def __enter__(self) -> Gradients:
        self._hold()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _hold(self) -> None:
        if self._held is None:
            self._held = contextlib.ExitStack()
            for hold in self._holds:
                self._held.enter_context(hold())

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    @contextlib.contextmanager
    def of_backward(self, chunk: int, last: bool) -> Iterator[None]:
        """Around a backward of a chunk; in the last one the model's own hooks reduce, or behind it
        ``config.grad_sync_func``, where there is one."""
        if last and self._reduce is None:
            self._release()
        yield
        if last and self._reduce is not None:
            self._release()
            self._reduce[chunk](self._models[chunk].parameters())
        self._hold()


def gather_parameters(config: Any, models: list[Any]) -> None:
    """Starts ``config.param_sync_func`` for each of several chunks, in their order."""
    functions = _of_chunks(config.param_sync_func, models)
    if functions is not None and len(models) > 1:
        for function, model in zip(functions, models):
            function(model.parameters())


def _of_chunks(functions: Any, models: list[Any]) -> list[Any] | None:
    if functions is None or isinstance(functions, list):
        return functions
    return [functions for _ in models]
