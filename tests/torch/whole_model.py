"""A small model, and its results in one piece.

The model is in double precision and keeps its inputs distinct through many layers, so that a
message gone astray cannot be taken for rounding.
"""

import sys

import stage_forms

SKIPPED = 77
WIDTH = stage_forms.WIDTH
ROWS = 2  # of every microbatch


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def load_torch():
    """torch, its stages and its schedules."""
    try:
        import torch
        import torch.distributed
        from torch.distributed.pipelining import PipelineStage, schedules
    except ImportError as error:
        skip(f"torch is not installed here ({error})")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        skip("this torch has no gloo")
    if not hasattr(schedules, "_PipelineScheduleRuntime"):
        skip(f"torch {torch.__version__} has no pipeline runtime")
    return torch, PipelineStage, schedules


def layers(torch, stages, frozen=(), form="usual"):
    """A layer per stage, the same in every process, of a form in stage_forms.py. Parameters whose
    names begin with an entry of `frozen` are not trained: "2." names those of stage 2, "2.0.bias"
    its bias."""
    torch.manual_seed(7)
    modules = stage_forms.layers(torch, stages, form)
    for name, parameter in torch.nn.Sequential(*modules).named_parameters():
        parameter.requires_grad_(not name.startswith(tuple(frozen)))
    return modules


def data(torch, microbatches):
    torch.manual_seed(11)
    shape = (ROWS * microbatches, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


def loss(torch, output, target):
    return torch.nn.functional.mse_loss(output, target)


def gradients(module):
    """Gradients of trained parameters, None for one that the loss does not depend on; whole, where
    FSDP keeps a share of them."""
    found = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            found.append(parameter.grad)
        else:
            assert parameter.grad is None, f"{name} is frozen, and has a gradient"
    return [one.full_tensor() if hasattr(one, "full_tensor") else one for one in found]


def train(torch, modules, microbatches):
    """The whole model on one microbatch after the other; the loss is the mean of theirs."""
    for x, y in zip(*(part.chunk(microbatches) for part in data(torch, microbatches))):
        (loss(torch, stage_forms.run(modules, x), y) / microbatches).backward()


def expected_gradients(torch, stages, microbatches, frozen=(), form="usual"):
    modules = layers(torch, stages, frozen, form)
    train(torch, modules, microbatches)
    return [gradients(module) for module in modules]


def difference(modules, expected):
    """The distance of the gradients of stages from those of the whole model: the largest difference
    of a stage as a share of its largest gradient."""
    worst = 0.0
    for module, wanted in zip(modules, expected):
        largest = max((one.abs().max().item() for one in wanted if one is not None), default=0.0)
        for found, gradient in zip(gradients(module), wanted):
            if found is None or gradient is None:
                assert found is gradient, f"a gradient is {found}, and that of the model {gradient}"
            else:
                worst = max(worst, (found - gradient).abs().max().item() / (largest or 1.0))
    return worst
