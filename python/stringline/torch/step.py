"""The effects of a plan's actions on the stages of a rank, in a step.

    F       waits for the input of the stage, computes, gives the output to a next stage here; of a
            stage with R it keeps the input only, for autograd as for us
    R       the computation of F once more, with the same random numbers and the buffers that F
            found, now kept for autograd; buffers stay as F left them
    B I     wait for the gradient of the stage's output, compute, give on; I keeps values for W
    W       the weight gradient
    SEND_*  starts a message; its tensors live until the message has gone
    RECV_*  starts a receive
    REDUCE_GRAD  sums the gradients of the copies in a schedule of several pipes
    UPDATE  the optimizer's step of a stage, which is the caller's
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .forward_state import ForwardState
from .used import dist, torch

if TYPE_CHECKING:
    from .loop import Loop, Order

_Key = tuple[str, int, int]  # kind, stage, microbatch


class Step:
    """A step of a rank. ``perform`` its orders, then ``end``."""

    def __init__(
        self, loop: Loop, arguments: Any, keywords: Any, targets: Any, of_loss: Any, outputs: bool
    ):
        """``of_loss`` are more keywords of the loss; ``outputs`` says whether they are kept."""
        self._loop = loop
        self._arguments, self._keywords, self._targets = arguments, keywords, targets
        self._of_loss = of_loss
        self._sent: dict[_Key, list[Any]] = {}
        self._received: dict[_Key, list[Any]] = {}
        # By place and microbatch: what an F began with, until its R.
        self._began: dict[tuple[int, int], tuple[ForwardState, list[Any]]] = {}
        self.losses: dict[int, Any] = {}  # by microbatch
        self.outputs: dict[int, Any] | None = {} if outputs else None

    def perform(self, order: Order) -> None:
        _MEANINGS[order.kind](self, order)

    def end(self) -> None:
        """Every message has gone."""
        for key in list(self._sent):
            self._wait(self._sent, key)

    def forward(self, order: Order) -> None:
        stage, loop = order.stage, self._loop
        self._wait(self._received, ("RECV_F", order.place, order.microbatch))
        if loop._has_backward and order.place in loop.remade:
            entered = [_buffer_of(info) for info in _receives_of(order)]  # F takes them away
            began = (ForwardState(stage.submod), entered)
            self._began[order.place, order.microbatch] = began
            with torch.no_grad():
                output = self._compute(order)
        else:
            output = self._compute(order)
        if stage.is_last and self.outputs is not None:
            self.outputs[order.in_batch] = output
        following = loop.stage_beside(order, 1)
        if following is not None:
            following.set_local_fwd_input(output, order.microbatch)

    def _compute(self, order: Order) -> Any:
        """The output of the stage; its loss, if it is the last."""
        stage, loop = order.stage, self._loop
        output = stage.forward_one_chunk(
            order.microbatch,
            self._arguments[order.in_batch],
            self._keywords[order.in_batch],
            save_forward_output=False,
        )
        has_loss = loop._loss_fn is not None and (loop._has_backward or self._targets is not None)
        if stage.is_last and has_loss:
            self.losses[order.in_batch] = self._loss(output, order.in_batch)
        return output

    def recompute(self, order: Order) -> None:
        state, entered = self._began.pop((order.place, order.microbatch))
        for info, buffer in zip(_receives_of(order), entered):
            if buffer is not None:
                info.buffer = buffer
        with state.restored():
            self._compute(order)

    def _loss(self, output: Any, microbatch: int) -> Any:
        if self._targets is None:
            raise ValueError("target: the rank of a last stage needs it for the loss")
        return self._loop._loss_fn(output, self._targets[microbatch], **self._of_loss)

    def backward(self, order: Order) -> None:
        self._gradient(order, full_backward=True, last_backward=order.last)

    def input_gradient(self, order: Order) -> None:
        self._gradient(order, full_backward=False, last_backward=False)

    def _gradient(self, order: Order, **how: bool) -> None:
        stage = order.stage
        self._wait(self._received, ("RECV_B", order.place, order.microbatch))
        # The gradient has arrived, so this stage's output has long gone.
        self._wait(self._sent, ("SEND_F", order.place, order.microbatch))
        stage.backward_one_chunk(order.microbatch, loss=self.losses.get(order.in_batch), **how)
        before = self._loop.stage_beside(order, -1)
        if before is not None:
            before.set_local_bwd_input(
                stage.get_local_bwd_output(order.microbatch), order.microbatch
            )

    def weight_gradient(self, order: Order) -> None:
        order.stage.backward_weight_one_chunk(order.microbatch, last_backward=order.last)

    def send_activation(self, order: Order) -> None:
        self._start(self._sent, order, order.stage.get_fwd_send_ops(order.microbatch))

    def send_gradient(self, order: Order) -> None:
        self._start(self._sent, order, order.stage.get_bwd_send_ops(order.microbatch))

    def receive_activation(self, order: Order) -> None:
        self._start(self._received, order, order.stage.get_fwd_recv_ops(order.microbatch))

    def receive_gradient(self, order: Order) -> None:
        self._start(self._received, order, order.stage.get_bwd_recv_ops(order.microbatch))

    def reduce(self, order: Order) -> None:
        self._loop.sum_replicas(order.place)

    def update(self, order: Order) -> None:
        self._loop.update(order.stage, order.microbatch)

    def _start(self, kept: dict[_Key, list[Any]], order: Order, ops: list[dist.P2POp]) -> None:
        """Keeps the tensors beside their pending messages."""
        works = [(op.op(op.tensor, op.peer, op.group, op.tag), op) for op in ops]
        kept[order.kind, order.place, order.microbatch] = works

    def _wait(self, kept: dict[_Key, list[Any]], key: _Key) -> None:
        for work, _ in kept.pop(key, ()):
            if work is not None:
                work.wait()


def _receives_of(order: Order) -> Any:
    """Torch's descriptions of the stage's inputs; an argument from outside has no buffer."""
    return () if order.stage.is_first else order.stage.args_recv_info[order.microbatch]


def _buffer_of(info: Any) -> Any:
    return getattr(info, "buffer", None)


_MEANINGS = {
    "F": Step.forward,
    "B": Step.backward,
    "I": Step.input_gradient,
    "W": Step.weight_gradient,
    "R": Step.recompute,
    "SEND_F": Step.send_activation,
    "RECV_F": Step.receive_activation,
    "SEND_B": Step.send_gradient,
    "RECV_B": Step.receive_gradient,
    "REDUCE_GRAD": Step.reduce,
    "UPDATE": Step.update,
}
