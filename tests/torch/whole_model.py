"""A small model, and its results in one piece.

The model is in double precision and keeps its inputs distinct through many layers, so that a
message gone astray cannot be taken for rounding.
"""

import sys

SKIPPED = 77
WIDTH = 8  # of every layer
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


def layers(torch, stages, frozen=()):
    """A layer per stage, the same in every process. Parameters whose names begin with an entry of
    `frozen` are not trained: "2." names those of stage 2, "2.0.bias" its bias."""
    torch.manual_seed(7)
    modules = []
    for _ in range(stages):
        linear = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        torch.nn.init.orthogonal_(linear.weight)
        modules.append(torch.nn.Sequential(linear, torch.nn.Tanh()))
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
    """Gradients of trained parameters; whole, where FSDP keeps a share of them."""
    found = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, f"{name} is trained, and has no gradient"
            found.append(parameter.grad)
        else:
            assert parameter.grad is None, f"{name} is frozen, and has a gradient"
    return [one.full_tensor() if hasattr(one, "full_tensor") else one.clone() for one in found]


def expected_gradients(torch, stages, microbatches, frozen=()):
    """The whole model on the whole batch. A microbatch's loss is a mean over equally many rows."""
    modules = layers(torch, stages, frozen)
    x, y = data(torch, microbatches)
    loss(torch, torch.nn.Sequential(*modules)(x), y).backward()
    return [gradients(module) for module in modules]


def difference(modules, expected):
    """The distance of the gradients of stages from those of the whole model: the largest difference
    of a stage as a share of its largest gradient."""
    worst = 0.0
    for module, wanted in zip(modules, expected):
        largest = max((gradient.abs().max().item() for gradient in wanted), default=1.0)
        for found, gradient in zip(gradients(module), wanted):
            worst = max(worst, (found - gradient).abs().max().item() / largest)
    return worst
