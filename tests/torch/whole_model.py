"""A small model, and what it gives in one piece.

It is in double precision and keeps what it is told apart through many layers, so that a message
that went astray cannot be taken for rounding.
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


def layers(torch, stages):
    """One layer a stage, the same in every process."""
    torch.manual_seed(7)
    modules = []
    for _ in range(stages):
        linear = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        torch.nn.init.orthogonal_(linear.weight)
        modules.append(torch.nn.Sequential(linear, torch.nn.Tanh()))
    return modules


def data(torch, microbatches):
    torch.manual_seed(11)
    shape = (ROWS * microbatches, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


def loss(torch, output, target):
    return torch.nn.functional.mse_loss(output, target)


def gradients(module):
    """Whole, where FSDP keeps a share of them."""
    found = [parameter.grad for parameter in module.parameters()]
    return [one.full_tensor() if hasattr(one, "full_tensor") else one.clone() for one in found]


def expected_gradients(torch, stages, microbatches):
    """The whole model on the whole batch. A microbatch's loss is a mean over equally many rows."""
    modules = layers(torch, stages)
    x, y = data(torch, microbatches)
    loss(torch, torch.nn.Sequential(*modules)(x), y).backward()
    return [gradients(module) for module in modules]


def difference(modules, expected):
    """How far the gradients of stages are from those of the whole model: the largest difference of
    a stage as a share of its largest gradient."""
    worst = 0.0
    for module, wanted in zip(modules, expected):
        largest = max(gradient.abs().max().item() for gradient in wanted)
        for found, gradient in zip(gradients(module), wanted):
            worst = max(worst, (found - gradient).abs().max().item() / largest)
    return worst
