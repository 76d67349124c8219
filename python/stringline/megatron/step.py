"""The effects of a plan's actions on the chunks of a rank, by Megatron's own forward and backward.

    F       waits for the input of the stage, computes, gives the output to a next stage here
    B       waits for the gradient of the stage's output, computes, gives on
    SEND_*  starts a message; its tensor lives until the message has gone
    RECV_*  starts a receive
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays import KINDS
from ..plan import Plan
from .gradients import Gradients
from .messages import Messages
from .used import backward_step, schedules

_OF_FORWARDS = ("F", "SEND_F", "RECV_F")


class Call(NamedTuple):
    """A call of the function: what all microbatches have in common."""

    forward_step_func: Any
    iterators: list[Any]  # by chunk
    models: list[Any]
    config: Any
    microbatches: int
    copies_of_context: int  # ranks that share a sequence
    forward_only: bool
    collect_non_loss_data: bool
    first_val_step: bool | None


class Step:
    """A step of a rank: ``perform`` it; ``store`` and ``tokens`` are then what it found."""

    def __init__(self, plan: Plan, rank: int, call: Call, messages: Messages, tokens: Any):
        """``plan`` has its messages; ``tokens`` is a zero of the device."""
        self.store: list[Any] = []  # of the last stage: what Megatron's loss functions give
        self.tokens = tokens
        self._rows = [(KINDS[kind], *row) for kind, _, *row in plan.of(rank).tolist()]
        self._rank_of = plan.rank_of_stage.tolist()
        stages = [stage for stage, on in enumerate(self._rank_of) if on == rank]
        self._chunk_of = {stage: chunk for chunk, stage in enumerate(stages)}
        self._call, self._messages = call, messages
        self._inputs: dict[tuple[int, int], Any] = {}
        self._outputs: dict[tuple[int, int], Any] = {}
        self._gradients: dict[tuple[int, int], Any] = {}  # from a stage of this rank

    def perform(self, gradients: Gradients) -> None:
        """The whole step, or its forwards."""
        rows = self._rows
        if self._call.forward_only:
            rows = [row for row in rows if row[0] in _OF_FORWARDS]
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, (kind, stage, _) in enumerate(rows):
            if kind == "F":
                first.setdefault(stage, at)
            elif kind == "B":
                last[stage] = at
        for at, (kind, stage, microbatch) in enumerate(rows):
            if kind == "F":
                self._forward(stage, microbatch, first[stage] == at)
            elif kind == "B":
                with gradients.of_backward(self._chunk_of[stage], last[stage] == at):
                    self._backward(stage, microbatch)
            else:
                self._start(kind, stage, microbatch)
            for sent in self._messages.sent():
                self._wait_sent(*sent)
        self._messages.end()

    def _start(self, kind: str, stage: int, microbatch: int) -> None:
        key = kind, stage, microbatch
        other = self._rank_of[stage + (1 if kind in ("SEND_F", "RECV_B") else -1)]
        if kind.startswith("RECV"):
            self._messages.receive(key, other)
        elif kind == "SEND_F":
            self._messages.send(key, self._outputs[stage, microbatch], other)
        else:
            self._messages.send(key, self._gradients.pop((stage - 1, microbatch)), other)

    def _forward(self, stage: int, microbatch: int, is_first: bool) -> None:
        call, chunk = self._call, self._chunk_of[stage]
        if self._messages.has(("RECV_F", stage, microbatch)):
            received = self._messages.wait(("RECV_F", stage, microbatch), "forward-recv")
            self._inputs[stage, microbatch] = received.requires_grad_()
        entered = self._inputs.get((stage, microbatch))
        last = stage == len(self._rank_of) - 1
        output, tokens = schedules.forward_step(
            call.forward_step_func,
            call.iterators[chunk],
            call.models[chunk],
            call.microbatches,
            entered,
            self.store,
            call.config,
            cp_group_size=call.copies_of_context,
            collect_non_loss_data=call.collect_non_loss_data,
            is_first_microbatch=schedules.check_first_val_step(
                call.first_val_step, call.forward_only, is_first
            ),
            current_microbatch=microbatch,
            vp_stage=chunk if len(call.models) > 1 else None,
            is_last_stage=last,
        )
        self.tokens += tokens
        if call.forward_only:
            self._inputs.pop((stage, microbatch), None)
        if not (call.forward_only and last):
            self._outputs[stage, microbatch] = output
        if stage + 1 in self._chunk_of:
            self._inputs[stage + 1, microbatch] = output.detach().requires_grad_()
            self._give_up(stage, microbatch)

    def _backward(self, stage: int, microbatch: int) -> None:
        place = stage, microbatch
        if self._messages.has(("SEND_F", *place)):
            self._wait_sent("SEND_F", *place)
        gradient = self._gradients.pop(place, None)
        if self._messages.has(("RECV_B", *place)):
            gradient = self._messages.wait(("RECV_B", *place), "backward-recv")
        model = self._call.models[self._chunk_of[stage]]
        entered, output = self._inputs.pop(place, None), self._outputs.pop(place)
        of_input = backward_step(entered, output, gradient, model, self._call.config)
        if stage > 0:
            self._gradients[stage - 1, microbatch] = of_input

    def _wait_sent(self, kind: str, stage: int, microbatch: int) -> None:
        """The end of a send, behind which an output is no longer needed."""
        timer = "forward-send" if kind == "SEND_F" else "backward-send"
        self._messages.wait((kind, stage, microbatch), timer)
        if kind == "SEND_F":
            self._give_up(stage, microbatch)

    def _give_up(self, stage: int, microbatch: int) -> None:
        """An output is needed for its graph only, or not at all."""
        place = stage, microbatch
        if self._call.forward_only:
            self._outputs.pop(place)
        else:
            schedules.deallocate_output_tensor(
                self._outputs[place], self._call.config.deallocate_pipeline_outputs
            )
