"""Torch's own runtime with a plan's actions and messages, in the form of a file for torch."""

from __future__ import annotations

import os
import re
import tempfile
from typing import Any

from ..plan import Plan
from .used import greetings_to_others, schedules, torch

_OF_FORWARDS = re.compile(r"\d+((SEND_|RECV_|WAIT_SEND_)?F\d+|UNSHARD|RESHARD)")


class Runtime(schedules._PipelineScheduleRuntime):  # type: ignore[misc]
    """Torch's runtime, except that forwards alone perform only the needs of forwards: torch's goes
    through the backwards, too, and stops where two neighbouring stages share a rank."""

    pipeline_order_with_comms: dict[int, list[Any]]

    def __init__(
        self, plan: Plan, text: str, stages: list[Any], loss_fn: Any, settings: dict[str, Any]
    ):
        """``text`` is the plan in torch's comms form."""
        super().__init__(stages, plan.microbatches, loss_fn, **settings)
        self.plan = plan
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, f"{plan.schedule}.csv")
            with open(path, "w", newline="", encoding="utf-8") as file:
                file.write(text)
            self._load_csv(path, format="compute_comms")
        loaded = [str(action) for action in self.pipeline_order_with_comms[self.rank]]
        if loaded != text.splitlines()[self.rank].split(","):
            raise NotImplementedError(
                f"torch {torch.__version__} performs another order than the one it is given"
            )

    def _initialize_stages(self, *given: Any, **more: Any) -> None:
        with greetings_to_others(self._stages):
            super()._initialize_stages(*given, **more)

    def _step_microbatches(self, *given: Any, **more: Any) -> None:
        whole = self.pipeline_order_with_comms
        if not self._has_backward:
            self.pipeline_order_with_comms = {self.rank: _forwards(whole[self.rank])}
        try:
            super()._step_microbatches(*given, **more)
        finally:
            self.pipeline_order_with_comms = whole


def _forwards(actions: list[Any]) -> list[Any]:
    parts = [part for action in actions for part in action.sub_actions or (action,)]
    return [part for part in parts if _OF_FORWARDS.fullmatch(str(part))]
