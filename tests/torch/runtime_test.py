"""Every schedule of the library in `stringline.torch.runtime`, on CPU processes (gloo): gradients,
losses and outputs beside those of the model in one piece.

    runtime_test.py SITE SOURCES

SITE is the folder with the package (tools/wheel --test leaves it), SOURCES the top of the
repository. The exit status is 77, with a line of explanation, without torch or the package:
skipped, for ctest.
"""

import copy
import functools
import os
import sys

import rank_group
import stage_forms
import whole_model
import wrong_uses

SECONDS = 60  # after which a job counts as hanging
RANKS = (2, 4)
MICROBATCHES = 8


def import_package(site):
    sys.path.insert(0, site)
    try:
        import stringline.torch
    except ImportError as error:
        whole_model.skip(str(error))
    return stringline


def shard(torch, modules):
    """FSDP among the copies of the pipeline: a single copy."""
    from torch.distributed.fsdp import fully_shard

    ranks = torch.distributed.get_world_size()
    mesh = torch.distributed.init_device_mesh("cpu", (ranks, 1), mesh_dim_names=("pipe", "copies"))
    for module in modules:
        fully_shard(module, mesh=mesh["copies"])


def make(job, rank):
    """The rank's runtime, its modules, and their indices."""
    import stringline.torch
    from torch.distributed.pipelining import PipelineStage

    torch, _, schedules = whole_model.load_torch()
    total, source = job["stages"], job.get("source", job["schedule"])
    mine = stringline.torch.stages_of_rank(job["schedule"], rank, P=job["P"], M=job["M"])
    whole = whole_model.layers(torch, total, job.get("frozen", ()), job.get("form", "usual"))
    modules = [whole[index] for index in mine]
    if "sharded" in job:
        shard(torch, modules)
    stages = [
        PipelineStage(module, index, total, torch.device("cpu"))
        for module, index in zip(modules, mine)
    ]
    loss = functools.partial(whole_model.loss, torch)
    if "torchs" in job:
        made = getattr(schedules, job["torchs"])(stages, job["M"], loss)
        return stringline.torch.instead_of(made, source or made), modules, mine
    runtime = stringline.torch.runtime(source, stages[::-1], loss, M=job["M"], by=job.get("by"))
    return runtime, modules, mine


def perform(job, rank):
    """Two steps, whose gradients add up, then forwards alone. How far the gradients are off, if
    losses and outputs are right."""
    if job.get("wrong"):
        return wrong_uses.perform(job, rank)
    if "steps" in job:
        return perform_steps(job, rank)
    torch = whole_model.load_torch()[0]
    runtime, modules, mine = make(job, rank)
    assert type(runtime).__name__ == job["class"], type(runtime)
    x, y = whole_model.data(torch, job["M"])
    first, last = 0 in mine, job["stages"] - 1 in mine
    arguments = [x] if first else []
    for _ in range(2):
        losses = []
        keywords = {"target": y, "losses": losses} if last else {}
        output = runtime.step(*arguments, **keywords)
    worst = distance(torch, job, modules, mine)
    worst = max(worst, distance_of_buffers(torch, job, modules, mine, runtime))
    without = runtime.eval(*arguments, **({"target": y} if last else {}))
    if not last:
        assert output is None and without is None and not losses
        return worst
    # With two pipes, each rank with a last stage sees the microbatches of its own pipe.
    whole = whole_model.layers(torch, job["stages"], form=job.get("form", "usual"))
    wanted = torch.cat([stage_forms.run(whole, part) for part in x.chunk(job["M"])])
    halves = 2 if runtime.plan.pipes else 1
    half = mine.index(job["stages"] - 1) * halves // len(mine)
    wanted, y = wanted.chunk(halves)[half], y.chunk(halves)[half]
    count = job["M"] // halves
    each = [whole_model.loss(torch, *pair) for pair in zip(wanted.chunk(count), y.chunk(count))]
    torch.testing.assert_close(torch.stack(losses), torch.stack(each))
    torch.testing.assert_close(output, wanted)
    torch.testing.assert_close(without, wanted)
    return worst


def distance(torch, job, modules, mine):
    """The distance of the gradients of two steps."""
    expected = whole_model.expected_gradients(
        torch, job["stages"], job["M"], job.get("frozen", ()), job.get("form", "usual")
    )
    if job.get("form") == "cut":  # torch sends zeros where there is no gradient
        for index, wanted in enumerate(expected):
            parameters = whole_model.layers(torch, job["stages"], form="cut")[index].parameters()
            expected[index] = [
                torch.zeros_like(parameter) if one is None else one
                for parameter, one in zip(parameters, wanted)
            ]
    # Torch scales the gradients from before, too.
    share = 1 + 1 / job["M"]
    return whole_model.difference(
        modules,
        [[None if one is None else share * one for one in expected[index]] for index in mine],
    )


def distance_of_buffers(torch, job, modules, mine, runtime):
    """The distance of buffers from those of the model in one piece, on the microbatches of the
    first pipe; infinite if whole numbers are off."""
    pipes = 2 if runtime.plan.pipes else 1
    whole = whole_model.layers(torch, job["stages"], form=job.get("form", "usual"))
    parts = whole_model.data(torch, job["M"])[0].chunk(job["M"])[: job["M"] // pipes]
    for part in [*parts, *parts]:
        stage_forms.run(whole, part)
    worst = 0.0
    for module, index in zip(modules, mine):
        for seen, right in zip(module.buffers(), whole[index].buffers()):
            off = (seen - right).abs().max().item()
            worst = max(worst, off if seen.is_floating_point() or not off else float("inf"))
    return worst


def perform_steps(job, rank):
    """Several steps at once, twice, with an optimizer for each stage, beside the model in one piece
    and a step at a time. How far the parameters are off, if losses are right."""
    import stringline
    from torch.distributed.pipelining import PipelineStage

    torch = whole_model.load_torch()[0]
    steps, total = job["steps"], job["stages"]
    plan = stringline.load(job["schedule"]).plan(job["P"], job["M"], steps=steps)
    assert (plan.steps, plan.versions, plan.microbatches) == (steps, 1, steps * job["M"])
    mine = stringline.torch.stages_of_rank(plan, rank)
    form = job.get("form", "usual")
    modules = [copy.deepcopy(whole_model.layers(torch, total, form=form)[index]) for index in mine]
    made = [
        PipelineStage(module, index, total, torch.device("cpu"))
        for module, index in zip(modules, mine)
    ]
    optimizer_of = {id(module): optimizer_for(torch, module) for module in modules}
    called = []

    def update(stage, step):
        called.append(step)
        optimizer_of[id(stage.submod)].step()

    loss = functools.partial(whole_model.loss, torch)
    runtime = stringline.torch.runtime(plan, made, loss, update=update)
    assert type(runtime).__name__ == "Loop"
    whole = torch.nn.Sequential(*whole_model.layers(torch, total, form=form))
    optimizer = optimizer_for(torch, whole)
    x, y = whole_model.data(torch, 2 * steps * job["M"])
    for inputs, targets in zip(x.chunk(2), y.chunk(2)):
        wanted = []
        for batch, target in zip(inputs.chunk(steps), targets.chunk(steps)):
            optimizer.zero_grad()
            outputs = outputs_of(torch, whole, batch.chunk(job["M"]), 2 if plan.pipes else 1)
            pairs = zip(outputs.chunk(job["M"]), target.chunk(job["M"]))
            wanted += [whole_model.loss(torch, *pair).detach() for pair in pairs]
            whole_model.loss(torch, outputs, target).backward()
            optimizer.step()
        losses = []
        last = total - 1 in mine
        runtime.step(*([inputs] if 0 in mine else []),
                     **({"target": targets, "losses": losses} if last else {}))
        if last and not plan.pipes:
            torch.testing.assert_close(torch.stack(losses).detach(), torch.stack(wanted))
    assert called == 2 * [step for step in range(steps) for _ in mine], called
    worst = 0.0
    for module, index in zip(modules, mine):
        for seen, right in zip(module.parameters(), whole[index].parameters()):
            assert seen.grad is None
            worst = max(worst, (seen - right).abs().max().item())
        for seen, right in zip(module.buffers(), whole[index].buffers()):
            worst = max(worst, (seen - right).abs().max().item())
    return worst


def outputs_of(torch, whole, microbatches, pipes):
    """The outputs of a model in one piece, whose buffers are left by those of the first pipe."""
    count = len(microbatches) // pipes
    outputs = [whole(part) for part in microbatches[:count]]
    kept = [buffer.clone() for buffer in whole.buffers()]
    outputs += [whole(part) for part in microbatches[count:]]
    for buffer, value in zip(whole.buffers(), kept):
        buffer.data.copy_(value)  # the backward still holds the buffer
    return torch.cat(outputs)


def optimizer_for(torch, module):
    return torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.1)


def kinds_of(stringline, plan):
    return {stringline.KINDS[kind] for kind in plan.kind}


def jobs_of_library(stringline, ranks):
    """Jobs of all schedules but those that are refused (wrong_uses.py): with slices, copies,
    updates or actions of their own, and without backwards."""
    for schedule in stringline.library():
        plan = stringline.load(schedule).plan(P=ranks, M=MICROBATCHES)
        refused = kinds_of(stringline, plan) & {"D", "UPDATE"} or plan.own_actions
        if not refused and plan.slices == 1 and not plan.forward_only:
            for more in ({}, {"by": "loop"}):
                yield job_of(stringline, schedule, ranks, **more)


def job_of(stringline, schedule, ranks, **more):
    plan = stringline.load(schedule).plan(P=ranks, M=MICROBATCHES)
    stages = int((plan.pipe_of_stage == 0).sum())
    job = {"schedule": schedule, "P": ranks, "M": MICROBATCHES, "stages": stages, **more}
    by_loop = plan.pipes or "R" in kinds_of(stringline, plan) or job.get("by") == "loop"
    job.setdefault("class", "Loop" if by_loop else "Runtime")
    job["name"] = f"{schedule} P={ranks}, {job['class']}"
    return job


def other_sources(stringline, sources, ranks):
    """The forms in which a schedule may be given."""
    folder = os.path.join(sources, "schedules")
    with open(os.path.join(folder, "zb_h1.sched"), encoding="utf-8") as file:
        text = file.read()
    plan = stringline.load("dualpipe_v").plan(P=ranks, M=MICROBATCHES)
    golden = os.path.join(sources, "tests/golden/torch/interleaved1f1b_p4_v2_m8_comms.csv")
    given = [
        ("a text", "zb_h1", text),
        ("a path", "zb_v", os.path.join(folder, "zb_v.sched")),
        ("torch's text", "dualpipe_v", plan.to_torch_csv()),
        ("a plan with messages", "dualpipe_v", plan.with_messages().text),
    ]
    if ranks == 4:
        given.append(("torch's file", "interleaved", golden))
    for what, schedule, source in given:
        job = job_of(stringline, schedule, ranks, source=source)
        yield {**job, "name": f"{job['name']}, given as {what}"}
    for what, source in (("in place of torch's", "gis"), ("as torch's object", None)):
        more = {"source": source, "torchs": "ScheduleInterleaved1F1B"}
        job = job_of(stringline, "interleaved", ranks, **more)
        yield {**job, "name": f"{job['name']}, {what}"}
    for schedule in ("1f1b", "zb_v", "kimi_k2"):
        job = job_of(stringline, schedule, ranks, sharded=True)
        yield {**job, "name": f"{job['name']}, wrapped by FSDP"}
    # The last stage takes its microbatches from the last to the first.
    order = range(MICROBATCHES)[::-1]
    first = [[f"{stage}{kind}{m}" for kind in "FB" for m in order] for stage in range(ranks - 1)]
    last = [f"{ranks - 1}{kind}{m}" for m in order for kind in "FB"]
    text = stringline.Schedule.build([*first, last]).text
    job = job_of(stringline, "1f1b", ranks, **{"source": text, "class": "Loop"})
    yield {**job, "name": f"{job['name']}, backwards"}


def frozen_jobs(stringline, ranks):
    """Stages of which all parameters are frozen, or some, in schedules with whole backwards, with
    backwards in two parts, and with two pipes; by torch and by the loop."""
    for schedule in ("1f1b", "zb_h1", "zb_v", "dualpipe_v", "chimera"):
        for more in ({}, {"by": "loop"}):
            job = job_of(stringline, schedule, ranks, **more)
            if more and schedule == "chimera":
                continue
            every = [f"{stage}." for stage in range(job["stages"])]
            cases = {
                "the first stage": every[:1], "a stage in the middle": every[1:-1][:1],
                "the last stage": every[-1:], "all but the last stage": every[:-1],
                "all but the first stage": every[1:],
                "the first half": every[: job["stages"] // 2],
                "the first stage's weight": ["0.0.weight"],
                "the first stage, and a bias": [*every[:1], "1.0.bias"],
            }
            for what, frozen in cases.items():
                name = f"{job['name']}, {what} frozen"
                yield {**job, "frozen": frozen, "name": name}
    more = {"source": "zb_v", "torchs": "ScheduleZBVZeroBubble", "frozen": ["0."]}
    job = job_of(stringline, "zb_v", ranks, **more)
    yield {**job, "name": f"{job['name']}, in place of torch's, the first stage frozen"}
    job = job_of(stringline, "zb_h1", ranks, sharded=True, frozen=["0."])
    yield {**job, "name": f"{job['name']}, wrapped by FSDP, the first stage frozen"}


FORMS = {
    "twice": (), "biases first": (), "unused": (), "cut": (), "own": (), "cut beside": (),
    "indices": ("0.",), "embeds": ("0.table",), "bare": ("0.",), "tied": (), "normalizes": (),
}


def form_jobs(stringline, ranks):
    """Stages of every form, whole and with some of it frozen, where backwards are in two parts, by
    torch and by the loop, and with two pipes."""
    for schedule in {2: ("zb_v", "chimera"), 4: ("dualpipe",)}[ranks]:
        for form, frozen in FORMS.items():
            shared = {"class": "Loop"} if form == "tied" else {}
            job = job_of(stringline, schedule, ranks, form=form, **shared)
            if schedule == "zb_v":
                jobs = [job, job_of(stringline, schedule, ranks, form=form, by="loop")]
            elif form == "tied" or job["stages"] < 3 and form in ("own", "cut beside", "bare"):
                continue  # the first and last stage on two ranks, or too few of them
            else:
                jobs = [job]
            for one in jobs:
                yield {**one, "name": f"{one['name']}, {form}"}
                if frozen:
                    name = f"{one['name']}, {form}, {', '.join(frozen)} frozen"
                    yield {**one, "frozen": frozen, "name": name}


def remade_jobs(stringline, ranks):
    """Stages that compute their forward again in R: only the loop can."""
    names = {"1f1b": "one_f_one_b"}
    for schedule in ("1f1b", "zb_h1", "zb_v", "interleaved", "chimera"):
        base = names.get(schedule, schedule)
        text = f'use "{schedule}";\nschedule again(P, M) = {base}(P, M) then recompute by 0;'
        job = job_of(stringline, schedule, ranks, **{"source": text, "class": "Loop"})
        yield {**job, "name": f"{job['name']}, with R"}
        if ranks == 2:
            for more in ({"form": "normalizes"}, {"frozen": ["0.", "1.0.bias"]}):
                yield {**job, **more, "name": f"{job['name']}, with R, {more}"}


def several_steps_jobs(stringline, ranks):
    """Several steps at once, with updates where the order says so: only the loop can."""
    for schedule in ("1f1b", "zb_h1", "zb_v", "interleaved", "chimera", "gems", "mario"):
        job = job_of(stringline, schedule, ranks, steps=3, **{"class": "Loop"})
        yield {**job, "name": f"{job['name']}, 3 steps"}
        if ranks == 2 and schedule in ("zb_v", "chimera"):
            yield {**job, "form": "normalizes", "name": f"{job['name']}, 3 steps, normalizes"}


def check_forward_state(torch):
    """Draws and buffers inside are those of before, and those behind go on as if there had been
    none."""
    from stringline.torch.forward_state import ForwardState

    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("ones", torch.ones(1000))
            self.dropout = torch.nn.Dropout()

        def forward(self):
            self.count += 1
            return self.dropout(self.ones) * self.count

    module = Counts()
    torch.manual_seed(5)
    state = ForwardState(module)
    first = module()
    second = module()
    with state.restored():
        again = module()
    third = module()
    torch.manual_seed(5)
    module.count.zero_()
    expected = [module() for _ in range(3)]
    for seen, right in zip((first, second, third), expected):
        torch.testing.assert_close(seen, right)
    torch.testing.assert_close(again, first)


def check_whole_where_needed(torch):
    """The stages that have a whole backward in I: of those of a form, the second one; no others."""
    from stringline.torch import whole_backward

    for form, whole in {"usual": False, "unused": False, "bare": False, "normalizes": False,
                        "cut": True, "twice": True, "biases first": True, "own": True,
                        "cut beside": True, "indices": False}.items():
        module = whole_model.layers(torch, 3, form=form)[1]
        x = torch.ones(4, whole_model.WIDTH, dtype=torch.float64).requires_grad_()
        inputs = (x, x.argmax(1)) if form == "indices" else (x,)
        output = module(*inputs)
        outputs = output if isinstance(output, tuple) else (output,)
        nodes = map(whole_backward._nodes, (outputs, inputs))
        apart = whole_backward._comes_apart(*nodes, module.parameters())
        assert apart != whole, form


def run_job(group, job):
    outcome, seen = group.run(job, SECONDS)
    passed = outcome == job.get("expected", rank_group.RIGHT)
    verdict = "ok" if passed else f"FAILED, {outcome}, {seen}"
    print(f"{verdict}: {job['name']}", flush=True)
    return passed


def main():
    stringline = import_package(sys.argv[1])
    torch = whole_model.load_torch()[0]
    print("torch", torch.__version__, flush=True)
    check_forward_state(torch)
    check_whole_where_needed(torch)
    good = True
    for ranks in RANKS:
        jobs = list(jobs_of_library(stringline, ranks))
        jobs += other_sources(stringline, sys.argv[2], ranks)
        jobs += frozen_jobs(stringline, ranks)
        jobs += form_jobs(stringline, ranks)
        jobs += remade_jobs(stringline, ranks)
        jobs += several_steps_jobs(stringline, ranks)
        jobs += wrong_uses.jobs(ranks)
        with rank_group.RankGroup(ranks, perform) as group:
            good = all([run_job(group, job) for job in jobs]) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
