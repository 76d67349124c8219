"""All uses of Megatron Core in one place: most may change with its versions.

``demand`` raises an error in a single sentence for a missing part, before any use.
"""

from __future__ import annotations

import inspect
from typing import Any

# Types are checked without Megatron Core, too.
# mypy: disable-error-code="import-not-found"
try:
    import megatron.core
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import schedules
    from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.utils import get_attr_wrapped_model, get_model_config, get_model_type
except ImportError as error:
    raise ImportError(
        f"stringline.megatron needs megatron-core 0.16 or later: {error}"
    ) from error

__all__ = [
    "P2PCommunicator", "backward_step", "demand", "get_attr_wrapped_model", "get_model_config",
    "parallel_groups", "schedules",
]

# The arguments that each of Megatron's functions is called with here.
_CALLED_WITH = {
    "forward_step": (
        "forward_step_func", "data_iterator", "model", "num_microbatches", "input_tensor",
        "forward_data_store", "config", "cp_group_size", "collect_non_loss_data",
        "is_first_microbatch", "current_microbatch", "vp_stage", "is_last_stage",
    ),
    "backward_step": ("input_tensor", "output_tensor", "output_tensor_grad", "config"),
    "check_first_val_step": ("first_val_step", "forward_only", "cond"),
    "deallocate_output_tensor": ("out", "deallocate_pipeline_outputs"),
    "get_tensor_shapes": (
        "seq_length", "micro_batch_size", "decoder_seq_length", "config", "tp_group", "cp_group",
    ),
}


def _missing() -> list[str]:
    found = []
    for name, arguments in _CALLED_WITH.items():
        function = getattr(schedules, name, None)
        if function is None:
            found.append(f"{name}()")
            continue
        takes = inspect.signature(function).parameters
        found += [f"{argument} of {name}()" for argument in arguments if argument not in takes]
    return found


def demand() -> None:
    """Raises NotImplementedError if this Megatron Core lacks anything that is used."""
    missing = _missing()
    if missing:
        raise NotImplementedError(
            f"megatron-core {megatron.core.__version__} has changed what stringline.megatron uses: "
            f"there is no {', '.join(missing)}. It works with megatron-core 0.16 to 0.19"
        )


def backward_step(input_tensor: Any, output: Any, gradient: Any, model: Any, config: Any) -> Any:
    """Megatron's backward of a stage: the gradient of its input. Older versions want the model's
    type, too."""
    more = {}
    if "model_type" in inspect.signature(schedules.backward_step).parameters:
        more["model_type"] = get_model_type(model)
    return schedules.backward_step(input_tensor, output, gradient, config=config, **more)


def parallel_groups() -> Any:
    """The process groups of ``parallel_state``, for a call that names none."""
    newer = getattr(schedules, "_build_default_pg_collection", None)
    if newer is not None:
        return newer()
    groups = ProcessGroupCollection()
    groups.tp = parallel_state.get_tensor_model_parallel_group()
    groups.cp = parallel_state.get_context_parallel_group()
    groups.pp = parallel_state.get_pipeline_model_parallel_group()
    groups.embd = parallel_state.get_embedding_group(check_initialized=False)
    groups.pos_embd = parallel_state.get_position_embedding_group(check_initialized=False)
    groups.dp_cp = parallel_state.get_data_parallel_group(
        with_context_parallel=True, partial_data_parallel=False
    )
    return groups
