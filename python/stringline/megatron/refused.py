"""Schedules, arguments and settings that are refused, each by its name."""

from __future__ import annotations

from typing import Any

from ..arrays import KINDS
from ..plan import Plan
from ..torch.planned import places_of
from .used import P2PCommunicator, get_attr_wrapped_model

# Settings of Megatron's config that change what a step does, with their values when they are off.
_OFF: dict[str, tuple[Any, ...]] = {
    "cuda_graph_impl": (None, "none"),
    "defer_embedding_wgrad_compute": (False,),
    "delay_wgrad_compute": (False,),
    "enable_cuda_graph": (False,),
    "external_cuda_graph": (False,),
    "fine_grained_activation_offloading": (False,),
    "hybrid_context_parallel": (False,),
    "moe_paged_stash": (False,),
    "mtp_standalone": (False,),
    "num_microbatches_with_partial_activation_checkpoints": (None,),
    "overlap_dispatch_backward_with_experts_wgrad": (False,),
    "overlap_moe_expert_parallel_comm": (False,),
    "use_ring_exchange_p2p": (False,),
    "variable_seq_lengths": (False,),
}


def refuse_plan(plan: Plan) -> None:
    """Raises NotImplementedError for a plan that Megatron's functions cannot perform."""
    kinds = {KINDS[kind] for kind in plan.kind.tolist()}
    split = sorted(kinds & {"I", "W"})
    own = ", ".join(plan.own_actions.values())
    reasons = [
        (plan.forward_only, "has no backwards"),
        (bool(plan.pipes), "has several pipes, and Megatron has one copy of the model"),
        (plan.slices > 1, "cuts microbatches into slices"),
        (bool(plan.edges or plan.skips), "has stages that are no chain"),
        (plan.window > 0, "has a window, and lists are performed in their order"),
        (plan.steps > 1 or "UPDATE" in kinds, "has several steps or updates (UPDATE)"),
        (bool(own), f"has actions of its own ({own})"),
        (bool(split), f"has backwards in two parts ({', '.join(split)}), and Megatron's are whole"),
        ("R" in kinds, "has R, and Megatron recomputes inside its layers"),
        (bool(kinds & {"D", "U"}), "copies values to the host (D, U)"),
    ]
    for refused, reason in reasons:
        if refused:
            raise NotImplementedError(f"schedule: {plan.schedule} {reason}")
    for stage in range(len(plan.rank_of_stage)):
        forwards = plan.microbatch[(plan.stage == stage) & (plan.kind == KINDS.index("F"))].tolist()
        if forwards != sorted(forwards):
            raise NotImplementedError(
                f"schedule: stage {stage} of {plan.schedule} does not take its microbatches in the "
                "order of their numbers, and Megatron's iterators give them in that order"
            )


def refuse_settings(config: Any) -> None:
    """Raises NotImplementedError for a setting that this function does not honour."""
    for name, off in _OFF.items():
        value = getattr(config, name, off[0])
        if value not in off:
            raise NotImplementedError(f"config.{name}: {value!r} is not supported")
    if config.pipeline_dtype is None:
        raise ValueError("config.pipeline_dtype: the type of messages has to be given")


def refuse_arguments(given: dict[str, Any]) -> None:
    """The same for arguments of the call."""
    if given["adjust_tensor_shapes_fn"] is not None:
        raise NotImplementedError("adjust_tensor_shapes_fn: not supported; all messages are alike")
    if given["decoder_seq_length"] not in (None, given["seq_length"]):
        raise NotImplementedError(
            "decoder_seq_length: not supported where it is not seq_length; all messages are alike"
        )
    communicator, groups = given["p2p_communicator"], given["pg_collection"]
    if (communicator is None) != (groups is None):
        raise ValueError("p2p_communicator, pg_collection: give both or neither")
    if communicator is not None and type(communicator) is not P2PCommunicator:
        raise NotImplementedError(
            f"p2p_communicator: {type(communicator).__name__} is not supported; messages go over "
            "the group of pg_collection.pp"
        )


def refuse_models(plan: Plan, rank: int, models: list[Any]) -> None:
    """Raises ValueError for other chunks than the plan's, and NotImplementedError for chunks that
    Megatron expects elsewhere."""
    stages = [place.number for place in places_of(plan, rank)]
    if len(models) != len(stages):
        raise ValueError(
            f"model: rank {rank} of {plan.schedule} performs stages {', '.join(map(str, stages))}, "
            f"a chunk each, but {len(models)} are given"
        )
    ranks = len(plan.first) - 1
    as_megatron = all(at % ranks == on for at, on in enumerate(plan.rank_of_stage.tolist()))
    for model in models:
        if not as_megatron and _shares_embeddings(model):
            raise NotImplementedError(
                "model: share_embeddings_and_output_weights is not supported with "
                f"{plan.schedule}, since Megatron sums these gradients between the first and the "
                "last rank"
            )


def _shares_embeddings(model: Any) -> bool:
    try:
        return bool(get_attr_wrapped_model(model, "share_embeddings_and_output_weights"))
    except RuntimeError:
        return False
