"""The cost of an action besides its work: torch's runtime beside the executor."""

import json
import os
import re
import tempfile

from beside.measure import Figures, ratio, run, seconds

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS, MICROBATCHES, STEPS = 4, 64, 20  # those of executor_bench
LIMIT = 400  # seconds for each program

# name on the page, library schedule (None: torch's own loop), ranks, stages in all, the
# corresponding case of executor_bench
CASES = [
    ("1F1B, torch's own loop", None, RANKS, 4, "1f1b"),
    ("1F1B", "1f1b", RANKS, 4, "1f1b"),
    ("ZB-V", "zb_v", RANKS, 8, "zb_v"),
    ("DualPipeV", "dualpipe_v", RANKS, 8, "dualpipe_v"),
    ("1F1B on one rank", "1f1b", 1, 1, None),
]


def measure(given):
    own = {}
    torch = [{"step_s": [], "cpu_s": [], "bare_s": []} for _ in CASES]
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(given.repeats):
            for case, row in zip(CASES, torch):
                answer = torch_step(given, case, scratch)
                for key in ("step_s", "cpu_s", "bare_s"):
                    row[key].append(answer[key])
                row["computations"] = answer["computations"]
                row["rank_peak_mib"] = answer["rank_peak_mib"]
            for name, step in own_steps(given).items():
                row = own.setdefault(name, {"step_s": [], "cpu_s": []})
                row["step_s"].append(step["step_s"])
                row["cpu_s"].append(step["cpu_s"])
    print("actions:", {name: min(row["cpu_s"]) for name, row in own.items()}, flush=True)
    return {"torch": torch, "own": own}


def torch_step(given, case, scratch):
    _, schedule, ranks, stages, _ = case
    command = [*given.torch, f"{HERE}/torch_actions.py", str(ranks), str(MICROBATCHES), str(STEPS)]
    if schedule:
        path = os.path.join(scratch, schedule + ".csv")
        run([given.tool, "export", f"{given.sources}/schedules/{schedule}.sched", f"P={ranks}",
             f"M={MICROBATCHES}", "--to", "torch-compute", "--out", path], LIMIT)
        command += [path, str(stages)]
    return json.loads(run(command, LIMIT).out)


def own_steps(given):
    """By schedule, with as many threads as is fastest."""
    command = [given.executor_bench, "--benchmark_filter=^Step/(1f1b|zb_v|dualpipe_v)/",
               "--benchmark_format=json", "--benchmark_min_time=0.3"]
    steps = {}
    for bench in json.loads(run(command, LIMIT).out)["benchmarks"]:
        name = re.match(r"Step/(\w+)/", bench["name"]).group(1)
        scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[bench["time_unit"]]
        step = {"step_s": bench["real_time"] * scale, "cpu_s": bench["cpu_time"] * scale}
        if name not in steps or step["step_s"] < steps[name]["step_s"]:
            steps[name] = step
    return steps


def compared(rows):
    for case, torch in zip(CASES, rows["torch"]):
        if case[4] is None:
            continue
        own = rows["own"][case[4]]
        count = torch["computations"]
        yield case[0], count, torch, own, [min(s["cpu_s"]) / count for s in (torch, own)]


def alone(rows):
    """Torch's processor time for a computation on a single rank, and the time of the modules
    alone."""
    row = rows["torch"][-1]
    return [min(row[key]) / row["computations"] for key in ("cpu_s", "bare_s")]


def headline(rows):
    """The figure in torch's favour: without messages and without the modules."""
    each, bare = alone(rows)
    own = list(compared(rows))[1][4][1]
    yield ("run an action of 1F1B besides its work, processor time; torch without messages",
           seconds(each - bare), seconds(own), ratio(each - bare, own))


def page(rows):
    yield "## Running an action, besides its work"
    yield ""
    yield (f"A step on {RANKS} ranks with {MICROBATCHES} microbatches and next to no work: torch's "
           "modules multiply one number by another, and its ranks are processes that talk through "
           "gloo, what it has for CPUs; the executor's programs do nothing, its messages are "
           "empty, and its ranks are threads of one process. So torch's figure holds sockets and "
           "the bookkeeping of gradients; *modules alone* is what these need without a pipeline. "
           "Processor time of all ranks over the computations of a step; the least of the runs, "
           "and the median of steps in parentheses.")
    yield ""
    yield ("| schedule | computations | torch, each | modules alone | stringline, each | ratio | "
           "torch, a step | stringline, a step |")
    yield "|---|---|---|---|---|---|---|---|"
    for name, count, torch, own, each in compared(rows):
        steps = [f"{seconds(min(s['step_s']))} ({seconds(Figures(s['step_s']).median)})"
                 for s in (torch, own)]
        yield (f"| {name} | {count:,} | {seconds(each[0])} | "
               f"{seconds(min(torch['bare_s']) / count)} | {seconds(each[1])} | {ratio(*each)} | "
               f"{steps[0]} | {steps[1]} |")
    yield ""
    each, bare = alone(rows)
    yield (f"On one rank, without any message, torch needs {seconds(each)} of processor time for "
           f"each computation, {seconds(bare)} of them for the modules alone. The difference is "
           "what the table at the top takes for torch; the executor's figure there holds its "
           "messages.")
