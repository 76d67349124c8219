"""Wrong uses of `stringline.torch.runtime`, and their messages; on two ranks."""

import functools
import os
import re
from unittest import mock

import whole_model

RIGHT_PLAN = "plan mine P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n"
WAITS = RIGHT_PLAN.replace("rank 1: 1F0 1B0 1F1 1B1", "rank 1: 1F1 1B1 1F0 1B0").replace(
    "rank 0: 0F0 0F1 0B0 0B1", "rank 0: 0F0 0B0 0F1 0B1"
)
ON_THE_HOST = RIGHT_PLAN.replace("0F1 0B0", "0F1 0D0 0U0 0B0")
UPDATED = "\n".join(
    line + (f" {line[5]}UPDATE0" if line.startswith("rank") else "")
    for line in RIGHT_PLAN.splitlines()) + "\n"
MEETING = (
    "plan mine P=2 M=1\nstages 0 0 1\nedges 0>2 1>2\nrank 0: 0F0 1F0 0B0 1B0\nrank 1: 2F0 2B0\n")
ALL_ON_ONE = "plan mine P=2 M=1\nstages 0 0\nrank 0: 0F0 1F0 1B0 0B0\nrank 1:\n"


def stages(indices, total=None, module=None):
    from torch.distributed.pipelining import PipelineStage

    torch = whole_model.load_torch()[0]
    total = total or max(2, 1 + max(indices, default=0))
    whole = whole_model.layers(torch, total)
    return [PipelineStage(module or whole[i], i, total, torch.device("cpu")) for i in indices]


def runtime(schedule, given, **more):
    import stringline.torch

    torch = whole_model.load_torch()[0]
    return stringline.torch.runtime(
        schedule, given, functools.partial(whole_model.loss, torch), **more
    )


def too_old(rank):
    torch = whole_model.load_torch()[0]
    with mock.patch.object(torch, "__version__", "2.9.1+cpu"):
        runtime("1f1b", stages([rank]), M=4)


def changed(rank):
    schedules = whole_model.load_torch()[2]

    class Another(schedules.PipelineScheduleMulti):
        pass
    with mock.patch.object(schedules, "_PipelineScheduleRuntime", Another):
        with mock.patch.object(schedules.PipelineScheduleMulti, "_load_csv", None):
            del schedules.PipelineScheduleMulti._load_csv
            runtime("1f1b", stages([rank]), M=4)


def copies_differ(rank):
    torch = whole_model.load_torch()[0]
    given = stages([0, 1])
    with torch.no_grad():
        given[rank].submod[0].bias += rank
    x, y = whole_model.data(torch, 4)
    runtime("chimera", given, M=4).step(x, target=y)


def no_target(rank):
    torch = whole_model.load_torch()[0]
    made = runtime("1f1b", stages([rank]), M=4, by="loop")
    made.step(*([whole_model.data(torch, 4)[0]] if rank == 0 else []))


def two_pipes_with_fsdp(rank):
    import runtime_test

    given = stages([0, 1])
    runtime_test.shard(whole_model.load_torch()[0], [stage.submod for stage in given])
    runtime("chimera", given, M=4)


# The call of each rank, and its message.
USES = {
    "another group": (
        lambda rank: runtime(RIGHT_PLAN.replace("P=2", "P=3") + "rank 2:\n", stages([rank])),
        "mine is a plan for 3 ranks, not for 2"),
    "another P": (
        lambda rank: runtime("1f1b", stages([rank]), P=4, M=4),
        "P: the group of the stages has 2 ranks, not 4"),
    "no M": (lambda rank: runtime("1f1b", stages([rank])), "M: 1f1b wants to know"),
    "another M": (
        lambda rank: runtime(RIGHT_PLAN, stages([rank]), M=3),
        "mine is a plan for 2 microbatches, not for 3"),
    "stages of the other rank": (
        lambda rank: runtime("1f1b", stages([1 - rank]), M=4),
        r"stages: rank \d of 1f1b performs stage \d, but is given stage \d"),
    "a stage too few": (
        lambda rank: runtime("zb_v", stages([rank], 4), M=4),
        r"stages: rank \d of zb_v performs stages [01], [32], but is given stage"),
    "another number of stages": (
        lambda rank: runtime("1f1b", stages([rank], 3), M=4),
        r"stages: 1f1b has 2 stages, but stage \d is given as one of 3"),
    "a rank without a stage": (
        lambda rank: runtime(ALL_ON_ONE, stages([0, 1])),
        "stages: rank 1 of mine has no stage; torch wants one on every rank"),
    "no stage": (lambda rank: runtime("1f1b", [], M=4), "stages: expected torch's PipelineStage"),
    "modules for stages": (
        lambda rank: runtime("1f1b", [stage.submod for stage in stages([rank])], M=4),
        "stages: expected torch's PipelineStage"),
    "no such way": (
        lambda rank: runtime("1f1b", stages([rank]), M=4, by="nccl"),
        'by: expected "torch" or "loop"'),
    "torch cannot": (
        lambda rank: runtime("chimera", stages([0, 1]), M=4, by="torch"),
        "torch has one pipe"),
    "copies to the host": (
        lambda rank: runtime(ON_THE_HOST, stages([rank])),
        r"mine copies values to the host \(D\); neither torch's runtime nor this loop performs"),
    "slices": (
        lambda rank: runtime("seq1f1b", stages([rank]), M=4),
        r"schedule: seq1f1b cuts microbatches into 4 slices, and a stage of torch takes whole ones"),
    "edges": (
        lambda rank: runtime(MEETING, stages([rank])),
        "schedule: the stages of mine are no chain, and torch's are one"),
    "no backwards": (
        lambda rank: runtime("inference", stages([rank]), M=4),
        "schedule: inference is forward only, and torch's step has backwards"),
    "actions of the schedule's own": (
        lambda rank: runtime("vocab_1f1b", stages([rank]), M=4),
        r"vocab_1f1b has actions of its own \(.*\bS\b.*\); neither torch's runtime nor this loop"),
    "actions of the schedule's own, by torch": (
        lambda rank: runtime("vocab_1f1b", stages([rank]), M=4, by="torch"),
        "torch's runtime has no actions of a schedule's own"),
    "updates without a function": (
        lambda rank: runtime(UPDATED, stages([rank])),
        r"update: mine has updates \(UPDATE\): give the function that performs one"),
    "a function without updates": (
        lambda rank: runtime(RIGHT_PLAN, stages([rank]), update=print),
        r"update: mine has no updates \(UPDATE\)"),
    "updates by torch": (
        lambda rank: runtime(UPDATED, stages([rank]), update=print, by="torch"),
        "UPDATE"),
    "versions of weights": (
        lambda rank: runtime("pipedream_2bw", stages([rank]), M=4, update=print),
        "pipedream_2bw holds 2 versions of the weights; autograd's forwards know the latest only"),
    "a cycle of waits": (
        lambda rank: runtime(WAITS, stages([rank])), r"rank \d waits forever at"),
    "torch is too old": (
        too_old, r"stringline.torch needs torch 2.10 or later; this is torch 2.9.1\+cpu"),
    "torch has changed": (
        changed, r"has changed what .* uses: there is no _PipelineScheduleRuntime._load_csv\."),
    "two pipes with FSDP": (
        two_pipes_with_fsdp, "stage . is wrapped by FSDP, and torch's runtime cannot perform"),
    "copies that differ": (copies_differ, "stage . has other parameters on rank . than here"),
}

# The message of one rank; the other waits for it, or learns of its end.
OF_ONE_RANK = {"no target": (no_target, "target: the rank of a last stage needs it")}


def dies(rank):
    """Rank 1 dies in the middle of a step."""
    torch = whole_model.load_torch()[0]

    class Dies(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if rank == 1 and self.calls == 3:
                os._exit(1)
            return super().forward(x)

    module = Dies(whole_model.WIDTH, whole_model.WIDTH, dtype=torch.float64)
    x, y = whole_model.data(torch, 4)
    made = runtime("1f1b", stages([rank], 2, module), M=4, by="loop")
    made.step(*([x] if rank == 0 else []), **({"target": y} if rank == 1 else {}))


def jobs():
    for name in [*USES, *OF_ONE_RANK]:
        expected = "stopped" if name in OF_ONE_RANK else "right"
        yield {"name": f"wrong: {name}", "wrong": name, "expected": expected}
    yield {"name": "a rank dies", "wrong": "dies", "expected": "stopped"}


def perform(job, rank):
    """0 if the rank gets the expected message."""
    if job["wrong"] == "dies":
        dies(rank)
    use, wanted = {**USES, **OF_ONE_RANK}[job["wrong"]]
    try:
        use(rank)
    except (ValueError, NotImplementedError) as error:
        assert re.search(wanted, str(error)), str(error)
        if job["wrong"] in OF_ONE_RANK:
            raise
        return 0.0
    raise AssertionError("it is not refused")
