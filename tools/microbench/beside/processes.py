"""Training in several processes: torch's DDP and pipelining on gloo, and `run --processes`."""

import json
import os

from beside.measure import ratio, run, seconds

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(BENCH, "torch_step.py")
MODELS = ("small", "wide")  # those of torch_step.py
MESH = ["-P", "2", "-M", "4", "--data", "2", "--processes", "4"]
LIMIT = 1800  # seconds for each program


def measure(given):
    rows = []
    for model in MODELS:
        step = run([*given.torch, SCRIPT, "--text", f"{given.sources}/schedlang/LANGUAGE.md",
                    "--model", model, *MESH, "--repeat", str(given.repeats), "--stringline",
                    given.tool, "--json"], LIMIT)
        answer = json.loads(step.out)
        del answer["runs"]
        rows.append({"model": model, "answer": answer})
        print(f"processes: {model}, {answer['ratio']}", flush=True)
    return rows


def pair(row, key, which="median"):
    return [row["answer"]["per_step"][side][key][which] for side in ("torch", "stringline")]


def headline(rows):
    """Processor time alone: four processes wait for each other, and their clock says how busy the
    machine is."""
    for row in rows:
        user = pair(row, "user_s")
        name = f"the same in 4 processes, data 2 x pipeline 2 ({row['model']}): processor time"
        yield name, *map(seconds, user), ratio(*user)


def page(rows):
    first = rows[0]["answer"]
    yield "## Training in several processes"
    yield ""
    yield (f"The same models as two copies of a pipeline of {first['P']} ranks with {first['M']} "
           f"microbatches of {first['schedule']} each: {first['processes']} processes on both "
           "sides, with one thread each. Torch: `PipelineStage` over DistributedDataParallel, on "
           "gloo. Stringline: `run --processes 4` with `mesh: {data: 2}`, over TCP; its gradients "
           "are added up in the order of the ranks, so losses are those of one process bit by bit. "
           f"In turns, {first['repeat']} times; medians, and the least in parentheses; processor "
           "time is that of user code, of all processes. The processes wait for each "
           "other, so time by the clock tells little where other programs were running.")
    yield ""
    yield ("| model | torch, processor time | stringline | ratio | torch, a step | stringline | "
           "ratio |")
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        shape = row["answer"]["shape"]
        cells = [f"{row['model']}: {shape['layers']} layers of width {shape['width']}, context "
                 f"{shape['context']}"]
        for key in ("user_s", "wall_s"):
            median, least = pair(row, key), pair(row, key, "min")
            cells += [f"{seconds(middle)} ({seconds(low)})" for middle, low in zip(median, least)]
            cells.append(ratio(*median))
        yield f"| {' | '.join(cells)} |"
