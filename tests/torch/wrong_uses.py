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
ON_A_V = "plan mine P=2 M=1\nstages 0 1 1 0\nrank 0: 0F0 3F0 3B0 0B0\nrank 1: 1F0 2F0 2B0 1B0\n"
LOOPED = "plan mine P=2 M=1\nstages 0 1 0 1\nrank 0: 0F0 2F0 2B0 0B0\nrank 1: 1F0 3F0 3B0 1B0\n"
ALL_ON_ONE = "plan mine P=2 M=1\nstages 0 0\nrank 0: 0F0 1F0 1B0 0B0\nrank 1:\n"


def stages(indices, total=None, module=None):
    from torch.distributed.pipelining import PipelineStage

    torch = whole_model.load_torch()[0]
    total = total or max(2, 1 + max(indices, default=0))
    whole = whole_model.layers(torch, total)
    return [PipelineStage(module or whole[i], i, total, torch.device("cpu")) for i in indices]


def one_module(indices):
    module = whole_model.layers(whole_model.load_torch()[0], 1)[0]
    return stages(indices, 4 if max(indices) > 1 else 2, module)


def runtime(schedule, given, **more):
    import stringline.torch

    torch = whole_model.load_torch()[0]
    return stringline.torch.runtime(
        schedule, given, functools.partial(whole_model.loss, torch), **more
    )


def several_steps(schedule, steps):
    import stringline

    return stringline.load(schedule).plan(2, 4, steps=steps)


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


def copies_differ(rank, change):
    """`change` changes the copy of stage 0 on rank 1."""
    torch = whole_model.load_torch()[0]
    given = stages([0, 1])
    with torch.no_grad():
        if rank:
            change(torch, given[0].submod)
    x, y = whole_model.data(torch, 4)
    runtime("chimera", given, M=4).step(x, target=y)


def another_bias(torch, module):
    module[0].bias += 1


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
    "a shared parameter by torch": (
        lambda rank: runtime("zb_v", one_module([rank, 3 - rank]), M=4, by="torch"),
        "stages [01] and [32] of this rank share a parameter, whose gradient torch's runtime"),
    "a shared parameter of two pipes": (
        lambda rank: runtime("chimera", one_module([0, 1]), M=4),
        "stages [01] and [10] of this rank share a parameter, whose gradient two pipes would"),
    "a shared parameter with updates": (
        lambda rank: runtime(
            several_steps("zb_v", 2), one_module([rank, 3 - rank]), update=print),
        "stages [01] and [32] of this rank share a parameter, whose gradient updates would"),
    "copies that differ": (
        lambda rank: copies_differ(rank, another_bias),
        "stage 0 has other parameters on rank . than here"),
    "copies with other frozen parameters": (
        lambda rank: copies_differ(rank, lambda torch, module: module[0].requires_grad_(False)),
        "stage 0 has other frozen parameters on rank . than here"),
    "copies with other buffers": (
        lambda rank: copies_differ(
            rank, lambda torch, module: module.register_buffer("more", torch.ones(1))),
        "stage 0 has other buffers on rank . than here"),
}

# The ranks do not say the same: every one of them is told which say what.
DISAGREEMENTS = {
    "schedules": (
        lambda rank: runtime(("1f1b", "zb_h1")[rank], stages([rank]), M=4),
        "disagree: the schedule is 1f1b on rank 0, and zb_h1 on rank 1$"),
    "P": (
        lambda rank: runtime("1f1b", stages([rank]), P=2 + 2 * rank, M=4),
        "disagree: P is 2 on rank 0, and 4 on rank 1$"),
    "M": (
        lambda rank: runtime("zb_v", stages([rank, 3 - rank]), M=4 + 2 * rank),
        "disagree: M is 4 on rank 0, and 6 on rank 1$"),
    "a schedule's M and another": (
        lambda rank: runtime(RIGHT_PLAN, stages([rank]), M=3 if rank else None),
        "disagree: M is 2 on rank 0, and 3 on rank 1$"),
    "steps": (
        lambda rank: runtime(several_steps("1f1b", 2 + rank), stages([rank]), update=print),
        "disagree: the number of steps is 2 on rank 0, and 3 on rank 1$"),
    "versions": (
        lambda rank: runtime(
            several_steps(("1f1b", "pipedream_2bw")[rank], 2), stages([rank]), update=print),
        "the number of versions of the weights is 1 on rank 0, and 2 on rank 1"),
    "orders": (
        lambda rank: runtime(
            RIGHT_PLAN.replace("0B0 0B1", "0B1 0B0") if rank else RIGHT_PLAN, stages([rank])),
        r"disagree: hash of what rank 0 performs is \w{16} on rank 0, and \w{16} on rank 1$"),
    "places of stages": (
        lambda rank: runtime(
            (ON_A_V, LOOPED)[rank], stages(([0, 3], [1, 3])[rank], 4)),
        r"disagree: hash of the plan's head is \w{16} on rank 0, and \w{16} on rank 1"),
    "ways": (
        lambda rank: runtime("1f1b", stages([rank]), M=4, by=(None, "loop")[rank]),
        "disagree: the runtime is torch's on rank 0, and the loop on rank 1$"),
    "scales": (
        lambda rank: runtime("1f1b", stages([rank]), M=4, scale_grads=rank == 0),
        "disagree: scale_grads is True on rank 0, and False on rank 1$"),
    "a refusal": (
        lambda rank: runtime("1f1b", stages([0]), M=4),
        "(rank 1 of the group refuses: )?stages: rank 1 of 1f1b performs stage 1, but is given"),
    "a late refusal": (
        lambda rank: runtime("1f1b", stages([rank]), M=4, **{"no_such": 1} if rank else {}),
        "(rank 1 of the group refuses: )?.*unexpected keyword argument 'no_such'"),
}
OF_FOUR = {
    "schedules of four ranks": (
        lambda rank: runtime("zb_h1" if rank == 2 else "1f1b", stages([rank], 4), M=4),
        "disagree: the schedule is 1f1b on ranks 0, 1, 3, and zb_h1 on rank 2$"),
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


def jobs(ranks):
    for name in OF_FOUR if ranks == 4 else [*USES, *DISAGREEMENTS, *OF_ONE_RANK]:
        expected = "stopped" if name in OF_ONE_RANK else "right"
        yield {"name": f"wrong: {name}", "wrong": name, "expected": expected}
    if ranks == 2:
        yield {"name": "a rank dies", "wrong": "dies", "expected": "stopped"}


def perform(job, rank):
    """0 if the rank gets the expected message."""
    if job["wrong"] == "dies":
        dies(rank)
    use, wanted = {**USES, **DISAGREEMENTS, **OF_FOUR, **OF_ONE_RANK}[job["wrong"]]
    try:
        use(rank)
    except (ValueError, NotImplementedError, TypeError) as error:
        assert re.search(wanted, str(error)), str(error)
        if job["wrong"] in OF_ONE_RANK:
            raise
        return 0.0
    raise AssertionError("it is not refused")
