"""``forward_backward_func``: a plan as a function with the arguments of Megatron's own."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from ..plan import Plan
from ..schedule import Schedule, load
from ..torch.planned import Performed, plan_of
from ..torch.used import torch
from .gradients import Gradients, gather_parameters
from .messages import Messages
from .refused import refuse_arguments, refuse_models, refuse_plan, refuse_settings
from .step import Call, Step
from .used import demand, get_model_config, parallel_groups, schedules


def forward_backward_func(schedule: Performed, **parameters: int) -> Callable[..., list[Any]]:
    """A function that performs a schedule with the arguments of Megatron's
    ``forward_backward_pipelining_with_interleaving``, and can stand in its place.

    At its first call for a number of microbatches the schedule is proven, and its messages are put
    into an order in which no rank holds up another and no communicator hangs. Ranks are those of
    Megatron's pipeline group. ``model`` and ``data_iterator`` are lists with a chunk for each stage
    of the rank, in the order of the stages (``stringline.torch.stages_of_rank``); where a rank has
    one stage, also the chunk itself. The rank of the last stage returns what Megatron's returns on
    its last rank; others return an empty list.

    Forwards and backwards are Megatron's own, with its hooks for copies of the model
    (``no_sync_func``, ``grad_sync_func``, ``param_sync_func``, ``finalize_model_grads_func``).
    Messages are sent and received by ``torch.distributed`` on the pipeline group, each on its own:
    ``overlap_p2p_comm``, ``batch_p2p_comm`` and ``batch_p2p_sync`` have nothing to decide.

    Args:
        schedule: as for ``stringline.torch.runtime``. Backwards have to be whole (B).
        parameters: of the schedule, beside P and M, as ``V=2``.

    Raises:
        NotImplementedError: by its name, a schedule, an argument or a setting of ``config`` that is
            not honoured; or this Megatron Core has changed.
        ScheduleError: the schedule is wrong.
        ValueError: the chunks, the group or the number of microbatches are not those of the
            schedule.
    """
    demand()
    plans = functools.cache(functools.partial(_planned, schedule, tuple(parameters.items())))

    def forward_backward(
        *,
        forward_step_func: Any,
        data_iterator: Any,
        model: Any,
        num_microbatches: int,
        seq_length: int,
        micro_batch_size: int,
        decoder_seq_length: int | None = None,
        forward_only: bool = False,
        collect_non_loss_data: bool = False,
        first_val_step: bool | None = None,
        adjust_tensor_shapes_fn: Any = None,
        p2p_communicator: Any = None,
        pg_collection: Any = None,
        force_all_reduce: bool = False,
    ) -> list[Any]:
        refuse_arguments(locals())
        models, iterators = _listed(model, data_iterator)
        config = get_model_config(models[0])
        refuse_settings(config)
        groups = parallel_groups() if pg_collection is None else pg_collection
        rank = groups.pp.rank()
        plan = plans(groups.pp.size(), num_microbatches)
        refuse_models(plan, rank, models)
        [shape] = schedules.get_tensor_shapes(
            seq_length=seq_length, micro_batch_size=micro_batch_size,
            decoder_seq_length=decoder_seq_length, config=config, tp_group=groups.tp,
            cp_group=groups.cp,
        )
        device = next(models[0].parameters()).device
        call = Call(
            forward_step_func, iterators, models, config, num_microbatches, groups.cp.size(),
            forward_only, collect_non_loss_data, first_val_step,
        )
        messages = Messages(groups.pp, tuple(shape), config, device)
        tokens = torch.zeros([], dtype=torch.int, device=device)
        step = Step(plan, rank, call, messages, tokens)
        _perform(step, call, groups, force_all_reduce)
        return step.store

    return forward_backward


def _perform(step: Step, call: Call, groups: Any, force_all_reduce: bool) -> None:
    """The step between Megatron's hooks at its ends."""
    config = call.config
    if config.timers is not None:
        config.timers("forward-backward", log_level=1).start(barrier=config.barrier_with_L1_time)
    if not call.forward_only:
        gather_parameters(config, call.models)
    with Gradients(config, call.models) as gradients:
        step.perform(gradients)
    if config.finalize_model_grads_func is not None and not call.forward_only:
        config.finalize_model_grads_func(
            call.models,
            step.tokens if config.calculate_per_token_loss else None,
            pg_collection=groups,
            force_all_reduce=force_all_reduce,
        )
    if config.timers is not None:
        config.timers("forward-backward").stop()


def _planned(
    schedule: Performed, parameters: tuple[tuple[str, int], ...], ranks: int, microbatches: int
) -> Plan:
    """The proven plan with its messages."""
    plan = plan_of(_with(schedule, dict(parameters), ranks, microbatches), ranks, microbatches)
    plan.check()
    refuse_plan(plan)
    lowered = plan.with_messages(layout="shared")
    lowered.check(layout="pair", lazy=True)
    return lowered


def _with(
    schedule: Performed, parameters: dict[str, Any], ranks: int, microbatches: int
) -> Performed:
    """The schedule, with values for its parameters where there are any."""
    if not parameters:
        return schedule
    if isinstance(schedule, (str, os.PathLike)):
        schedule = load(schedule)
    if not isinstance(schedule, Schedule):
        raise ValueError(f"{', '.join(parameters)}: a {type(schedule).__name__} has no parameters")
    return schedule.plan(ranks, microbatches, **parameters)


def _listed(model: Any, data_iterator: Any) -> tuple[list[Any], list[Any]]:
    models = list(model) if isinstance(model, (list, torch.nn.ModuleList)) else [model]
    iterators = data_iterator if isinstance(data_iterator, list) else [data_iterator]
    if len(models) != len(iterators):
        raise ValueError(
            f"data_iterator: expected one for each of {len(models)} chunks, got {len(iterators)}"
        )
    return models, iterators
