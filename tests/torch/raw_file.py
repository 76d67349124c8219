"""A step of a file in torch's own pipeline runtime, right or wrong, compared with the model in one
piece.

A job is a dictionary: the `path` of a CSV file, its `format` in torch's words, the numbers of
`stages` and `microbatches`.
"""

import functools

import whole_model


def stages_of_rank(text, rank):
    """The stages named in the row of the rank."""
    digits = ""
    stages = set()
    for char in text.splitlines()[rank] + ",":
        if char.isdigit():
            digits += char
            continue
        # A number followed by a letter is a stage; others are microbatches.
        if digits and char.isalpha():
            stages.add(int(digits))
        digits = ""
    return sorted(stages)


def perform(job, rank):
    """The distance of the rank's gradients from those of the whole model."""
    torch, PipelineStage, schedules = whole_model.load_torch()
    stages, microbatches = job["stages"], job["microbatches"]
    with open(job["path"]) as file:
        mine = stages_of_rank(file.read(), rank)
    modules = whole_model.layers(torch, stages)
    local = [PipelineStage(modules[s], s, stages, torch.device("cpu")) for s in mine]
    runtime = schedules._PipelineScheduleRuntime(
        local, microbatches, loss_fn=functools.partial(whole_model.loss, torch)
    )
    runtime._load_csv(job["path"], format=job["format"])
    x, y = whole_model.data(torch, microbatches)
    arguments = [x] if 0 in mine else []
    keywords = {"target": y} if stages - 1 in mine else {}
    runtime.step(*arguments, **keywords)
    expected = whole_model.expected_gradients(torch, stages, microbatches)
    return whole_model.difference([modules[s] for s in mine], [expected[s] for s in mine])
