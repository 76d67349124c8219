"""A plan performed action by action over ``torch.distributed``, for plans that torch's own runtime
cannot perform.

Most of the work stays torch's: stages compute, know the values to send, and learn the shapes of the
values to receive; the base class of torch's schedules splits batches and merges outputs. Only the
order of actions and their ranks differ: a schedule may have two pipes, and the last stage may take
its microbatches in any order.

Messages are in an order without a deadlock on any communicator, shared by all messages of a group,
by those of two ranks, or by those of one direction. The computations of a pair follow each other,
as in torch's runtime.

A plan of several steps takes the batches of all of them in one ``step``, one behind the other. Its
UPDATEs call the caller's function for a stage, and then its gradients are gone.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from ..arrays import KINDS
from ..plan import Plan
from .planned import microbatches_of_pipes, places_of, ranks_of_pipes
from .replicas import Replicas
from .step import Step
from .used import greetings_to_others, schedules

_FORWARD_KINDS = ("F", "SEND_F", "RECV_F")


class Order(NamedTuple):
    """An action of this rank."""

    kind: str
    stage: Any
    place: int  # the stage's number in the plan
    microbatch: int  # in its pipe
    in_batch: int  # among all
    last: bool  # behind it the stage's gradients of a step are complete

    def __str__(self) -> str:
        return f"{self.stage.stage_index}{self.kind}{self.microbatch}"


class Loop(schedules.PipelineScheduleMulti):  # type: ignore[misc]
    """Has the interface of torch's schedules: ``step`` and ``eval``.

    In a schedule with two pipes every rank with a first stage takes the whole batch, and every rank
    with a last stage the whole target; the latter gets the losses and outputs of the microbatches
    of its pipe. Gradients of the two copies of a stage are summed, in the same order on both ranks,
    so that copies stay equal.
    """

    _stages: list[Any]
    _n_microbatches: int

    def __init__(
        self,
        plan: Plan,
        stages: dict[int, Any],
        loss_fn: Any,
        settings: dict[str, Any],
        update: Callable[[Any, int], Any] | None = None,
    ):
        """``stages`` are those of this rank, by their number in the plan; ``update(stage, step)``
        is the work of an UPDATE.

        A stage with R (in ``remade``) keeps the input of a microbatch only, until its R.
        """
        super().__init__(list(stages.values()), plan.microbatches, loss_fn, **settings)
        rank = next(iter(stages.values())).group_rank
        mappings = ranks_of_pipes(plan)
        counts = microbatches_of_pipes(plan)
        in_step = [count // plan.steps for count in counts]
        offsets = [0, *accumulate(in_step)]
        self.plan = plan
        self._update = update
        self._in_step = sum(in_step)
        self._pipes: list[tuple[int, int, list[Any]]] = []  # first microbatch, how many, stages
        pipe_of = {}
        for pipe, mapping in enumerate(mappings):
            mine = [place for place in places_of(plan, rank) if place.pipe == pipe]
            for place in mine:
                stages[place.number].stage_index_to_group_rank = mapping
                pipe_of[place.number] = pipe
            self._pipes.append((offsets[pipe], counts[pipe], [stages[p.number] for p in mine]))
        self._replicas = Replicas(plan, rank, stages)
        kinds = [KINDS[kind] for kind in plan.kind]
        self.remade = {int(s) for kind, s in zip(kinds, plan.stage) if kind == "R"}
        rows = plan.with_messages(layout="shared").of(rank).tolist()
        last = _last_of_steps(rows)
        self._orders = []
        for at, (kind, _, stage, microbatch) in enumerate(rows):
            pipe = pipe_of[stage]
            step, in_pipe = divmod(microbatch, in_step[pipe])
            in_batch = step * self._in_step + offsets[pipe] + in_pipe
            self._orders.append(
                Order(KINDS[kind], stages[stage], stage, microbatch, in_batch, at in last)
            )
        if plan.pipes:
            self._orders = _sums_between_steps(self._orders, self._in_step)

    def _step_microbatches(
        self,
        arg_mbs: Any = None,
        kwarg_mbs: Any = None,
        target_mbs: Any = None,
        losses: Any = None,
        return_outputs: bool = True,
        loss_kwargs: Any = None,
    ) -> None:
        arg_mbs, kwarg_mbs = self._check_inputs(arg_mbs, kwarg_mbs, target_mbs, losses)
        self._initialize(arg_mbs, kwarg_mbs, target_mbs, loss_kwargs)
        step = Step(self, arg_mbs, kwarg_mbs, target_mbs, loss_kwargs or {}, return_outputs)
        if self._has_backward:
            self._replicas.begin()
        for order in self._orders:
            if self._has_backward or order.kind in _FORWARD_KINDS:
                with _named(order):
                    step.perform(order)
        step.end()
        if self._has_backward and self.scale_grads and self._update is None:
            for parameter in _parameters(self._stages):
                if parameter.grad is not None:
                    parameter.grad.div_(self._n_microbatches)
        if losses is not None and step.losses:
            losses[:] = [loss for _, loss in sorted(step.losses.items())]
        last = [stage for stage in self._stages if stage.is_last]
        if last and step.outputs is not None:
            last[0].output_chunks[:] = [output for _, output in sorted(step.outputs.items())]

    def sum_replicas(self, stage: int) -> None:
        """Sums the gradients of the copies of a stage, by its number in the plan."""
        self._replicas.sum(stage)

    def update(self, stage: Any, step: int) -> None:
        """The UPDATE of a stage, whose gradients of a step are complete."""
        if self.scale_grads:
            stage.scale_grads(self._in_step)
        assert self._update is not None
        self._update(stage, step)
        for parameter in stage.submod.parameters():
            parameter.grad = None

    def stage_beside(self, order: Order, offset: int) -> Any:
        """The next stage (1) or the stage before (-1), if this rank has it."""
        for _, _, stages in self._pipes:
            if order.stage in stages:
                wanted = order.stage.stage_index + offset
                return next((stage for stage in stages if stage.stage_index == wanted), None)
        return None

    def _initialize(
        self, arg_mbs: Any, kwarg_mbs: Any, target_mbs: Any, loss_kwargs: Any
    ) -> None:
        """Shapes and receive buffers, pipe by pipe: torch knows a single pipe."""
        every = self._stages, self._n_microbatches
        before = {name: getattr(self, name) for name in _INITIALIZED if hasattr(self, name)}
        try:
            for first, count, stages in self._pipes:
                self._stages, self._n_microbatches = stages, count
                for name, value in before.items():
                    setattr(self, name, value)
                target = None if target_mbs is None else target_mbs[first]
                given = (arg_mbs[first], kwarg_mbs[first], target, loss_kwargs)
                takes = len(inspect.signature(self._initialize_stages).parameters)
                with greetings_to_others(stages):
                    self._initialize_stages(*given[:takes])
        finally:
            self._stages, self._n_microbatches = every


def _parameters(stages: list[Any]) -> list[Any]:
    """Each once, where several stages have it, too."""
    every = (parameter for stage in stages for parameter in stage.submod.parameters())
    return list({id(parameter): parameter for parameter in every}.values())


def _last_of_steps(rows: list[Any]) -> set[int]:
    """The places of the last B or W of each stage in each step."""
    last: dict[int, int] = {}
    found = set()
    for at, (kind, _, stage, _) in enumerate(rows):
        if KINDS[kind] in "BW":
            last[stage] = at
        elif KINDS[kind] == "UPDATE":
            found.add(last[stage])
    return found | set(last.values())


def _sums_between_steps(orders: list[Order], in_step: int) -> list[Order]:
    """Each sum of copies' gradients behind the messages of its step, before the rank's UPDATEs and
    before the receives of the next step: a rank waits for a sum, and could send nothing meanwhile
    that the other rank needs before its own. ``in_step`` are the microbatches of a step."""
    found: list[Order] = []
    sums: list[Order] = []
    receives: list[Order] = []
    step = 0
    for order in orders:
        ahead = order.kind != "UPDATE" and order.in_batch // in_step > step
        if order.kind == "REDUCE_GRAD":
            sums.append(order)
        elif ahead and order.kind in ("RECV_F", "RECV_B"):
            receives.append(order)
        else:
            if order.kind == "UPDATE" or ahead:
                found += sums + receives
                sums, receives = [], []
                step = order.microbatch + 1 if order.kind == "UPDATE" else order.in_batch // in_step
            found.append(order)
    return found + sums + receives


_INITIALIZED = ("_stages_forward_initialized", "_stages_backward_initialized", "_p2p_initialized")


@contextlib.contextmanager
def _named(order: Order) -> Iterator[None]:
    """Adds the action to any error."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "add_note"):
            error.add_note(f"at {order} of the plan")
        raise
