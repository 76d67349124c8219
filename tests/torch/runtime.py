"""One step of a schedule in torch's own pipeline runtime, compared with the model in one piece.

A job is a dictionary: the `path` of a CSV file, its `format` as torch names it, how many `stages`
and `microbatches` it has. The model is small and in double precision, and keeps what it is told
apart through many layers, so that a message that went astray cannot be taken for rounding.
"""

import sys

SKIPPED = 77
WIDTH = 8  # of every layer
ROWS = 2  # of every microbatch
RIGHT = 1e-9  # how far gradients may be off, as a share of the largest of their stage
WRONG = 1e-6  # how far they are off at least when something went astray


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


def comms_form(torch, schedules):
    """The comms form that this torch reads."""
    actions = {action.value for action in schedules._ComputationType}
    if "REDUCE_GRAD" not in actions:
        skip(f"torch {torch.__version__} is too old: it knows no REDUCE_GRAD")
    return "torch-comms" if "WAIT_SEND_F" in actions else "torch-comms-2.14"


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
    return [parameter.grad.clone() for parameter in module.parameters()]


def expected_gradients(torch, stages, microbatches):
    """The whole model on the whole batch. A microbatch's loss is a mean over equally many rows."""
    modules = layers(torch, stages)
    x, y = data(torch, microbatches)
    loss(torch, torch.nn.Sequential(*modules)(x), y).backward()
    return [gradients(module) for module in modules]


def stages_of_rank(text, rank):
    """The stages that the row of the rank names."""
    digits = ""
    stages = set()
    for char in text.splitlines()[rank] + ",":
        if char.isdigit():
            digits += char
            continue
        # A number that a letter follows is a stage; others are microbatches.
        if digits and char.isalpha():
            stages.add(int(digits))
        digits = ""
    return sorted(stages)


def worst_difference(torch, PipelineStage, schedules, job, rank):
    """How far the rank's gradients are from those of the whole model: the largest difference of a
    stage as a share of its largest gradient."""
    stages, microbatches = job["stages"], job["microbatches"]
    with open(job["path"]) as file:
        mine = stages_of_rank(file.read(), rank)
    modules = layers(torch, stages)
    local = [PipelineStage(modules[s], s, stages, torch.device("cpu")) for s in mine]
    runtime = schedules._PipelineScheduleRuntime(
        local, microbatches, loss_fn=lambda output, target: loss(torch, output, target)
    )
    runtime._load_csv(job["path"], format=job["format"])
    x, y = data(torch, microbatches)
    arguments = [x] if 0 in mine else []
    keywords = {"target": y} if stages - 1 in mine else {}
    runtime.step(*arguments, **keywords)
    expected = expected_gradients(torch, stages, microbatches)
    worst = 0.0
    for s in mine:
        largest = max(wanted.abs().max().item() for wanted in expected[s])
        for found, wanted in zip(gradients(modules[s]), expected[s]):
            worst = max(worst, (found - wanted).abs().max().item() / largest)
    return worst
