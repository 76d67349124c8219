#!/usr/bin/env python3
"""A training step here beside the same step in torch.distributed.pipelining.

    tools/environments/torch/run tools/microbench/torch_step.py --text TEXT               the model of examples/01_train
    tools/environments/torch/run tools/microbench/torch_step.py --text TEXT --model wide  its products cost most
    tools/environments/torch/run tools/microbench/torch_step.py --text TEXT --json        one JSON object, for a page

Both train the same GPT (stages/models/gpt.h) from the same first values on the same windows of the
text, in the same stages, microbatches and schedule, so losses are the same but for rounding. Torch's
side is torch_pipeline.py: a process per rank, on gloo, with one thread each; stringline runs its
ranks on the threads of one process, or of --processes. With --data both train so many copies of the
pipeline. `stringline bench` does the same for many models and schedules, in one process; this is for
one, by hand, and for several processes.

Cost is the processor time that user code takes in a step, all ranks together: on a machine that
others use as well it moves less than the clock does. Startup and the first steps do not count:
torch's ranks ask for their usage after them, and of stringline a short run is subtracted from a
long one. The two take turns, --repeat times; the ratio is that of the medians.

  --model small|wide   8 layers of width 96, 3 heads, context 128, microbatches of 4 sequences; or
                       4 layers of width 512, 8 heads, context 256, microbatches of 2
  --layers --width --heads --context --microbatch   the same one by one
  --schedule NAME      1f1b (default), gpipe, interleaved or interleaved_zb (two stages a rank)
  -P, -M               ranks (4) and microbatches (8) of a pipeline
  --data               copies of the pipeline (1): torch has so many times P processes
  --processes          stringline's processes (0: one); each has then one thread for each rank
  --steps, --warmup    steps that count (5) and steps before them (2)
  --repeat             repetitions (3)
  --threads            stringline's train.threads (default: its own)
  --stringline FILE    the tool (build/release/stringline)
  --json               print one JSON object and nothing else
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "bench"))
import torch_pipeline  # noqa: E402

MODELS = {
    "small": dict(layers=8, width=96, heads=3, context=128, microbatch=4),
    "wide": dict(layers=4, width=512, heads=8, context=256, microbatch=2),
}
# By name: stages per rank. The names are those of the library.
SCHEDULES = {"1f1b": 1, "gpipe": 1, "interleaved": 2, "interleaved_zb": 2}
LEARNING_RATE = 1e-3


def layers_of_stage(layers, stages, stage):
    """As SplitEven in stages/layers.cc: the first stages get the remainder."""
    return layers // stages + (1 if stage < layers % stages else 0)


def run_torch(options):
    """A step's cost in torch: {user_s, system_s, wall_s, losses}."""
    shape, ranks = options["shape"], options["P"]
    stages = SCHEDULES[options["schedule"]] * ranks
    sizes = {"kind": "gpt", "vocabulary": 256, "tied": False,
             **{key: shape[key] for key in ("layers", "width", "heads", "context")}}
    answer = torch_pipeline.run({
        "model": sizes, "layers": [layers_of_stage(shape["layers"], stages, s)
                                   for s in range(stages)],
        "stages": [s % ranks for s in range(stages)], "schedule": options["schedule"], "parameters": {},
        "csv": "", "P": ranks, "M": options["M"], "data": options["data"],
        "microbatch": shape["microbatch"], "precision": "fp32", "text": options["text"], "seed": 1,
        "steps": options["steps"], "warm_up": options["warmup"], "learning_rate": LEARNING_RATE})
    if "error" in answer:
        sys.exit(f"torch: {answer['error']}")

    def seconds(key):
        return sum(answer[key][options["warmup"]:]) / options["steps"] / 1e6

    user = seconds("user_us")
    return {"user_s": user, "system_s": seconds("processor_us") - user,
            "wall_s": seconds("steps_us"), "losses": answer["losses"]}


def run_file(options, folder):
    shape = options["shape"]
    threads = options["threads"]
    if not threads and options["processes"]:
        threads = -(-options["P"] * options["data"] // options["processes"])
    threads = f", threads: {threads}" if threads else ""
    mesh = f"mesh: {{data: {options['data']}}}\n" if options["data"] > 1 else ""
    path = os.path.join(folder, "run.yaml")
    with open(path, "w") as out:
        out.write(f"""schedule:
  file: {os.path.join(ROOT, 'schedules', options['schedule'] + '.sched')}
  P: {options['P']}
  M: {options['M']}
model: {{layers: {shape['layers']}, width: {shape['width']}, heads: {shape['heads']},
  context: {shape['context']}}}
data: {{text: {options['text']}, microbatch: {shape['microbatch']}}}
{mesh}device: cpu
train: {{steps: 1, learning_rate: {LEARNING_RATE}, final_learning_rate: {LEARNING_RATE}{threads}}}
""")
    return path


def run_once(options, steps):
    """A whole run of stringline: user and system seconds, seconds of its training, its losses."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options["stringline"], "run", run_file(options, folder), "--json", "--steps",
                   str(steps), "--out", folder]
        if options["processes"]:
            command += ["--processes", str(options["processes"])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{answer}")
        report = json.loads(answer)
        return usage.ru_utime, usage.ru_stime, report["elapsed_s"], report


def run_stringline(options):
    """A step's cost here: the cost of a run with warm-up steps only is subtracted."""
    short = run_once(options, options["warmup"])
    whole = run_once(options, options["warmup"] + options["steps"])
    user, system, wall = ((whole[i] - short[i]) / options["steps"] for i in range(3))
    return {"user_s": user, "system_s": system, "wall_s": wall,
            "losses": [whole[3]["first_loss_nats"], whole[3]["final_loss_nats"]]}


def summary(runs):
    return {key: {"min": min(run[key] for run in runs),
                  "median": statistics.median(run[key] for run in runs),
                  "max": max(run[key] for run in runs)}
            for key in ("user_s", "system_s", "wall_s")}


def read_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True)
    parser.add_argument("--model", choices=MODELS, default="small")
    for name in MODELS["small"]:
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--schedule", choices=SCHEDULES, default="1f1b")
    parser.add_argument("-P", type=int, default=4)
    parser.add_argument("-M", type=int, default=8)
    parser.add_argument("--data", type=int, default=1)
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--stringline", default=os.path.join(ROOT, "build/release/stringline"))
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    options = vars(flags)
    options["shape"] = {name: options.pop(name) or value
                        for name, value in MODELS[options["model"]].items()}
    options["text"] = os.path.abspath(options["text"])
    if not os.path.exists(options["stringline"]):
        parser.error(f"{options['stringline']}: no such file; build it, or name it with "
                     "--stringline")
    try:
        import torch
    except ImportError:
        parser.error("this Python has no torch: start it with tools/environments/torch/run")
    options["torch"] = torch.__version__
    return options


def main():
    options = read_options()
    say = (lambda *_: None) if options["json"] else print
    say(f"{options['schedule']} P={options['P']} M={options['M']}, {options['data']} copies, "
        + ", ".join(f"{key} {value}" for key, value in options["shape"].items())
        + f"; torch {options['torch']}")
    runs = {"torch": [], "stringline": []}
    for repetition in range(options["repeat"]):
        for name, run in (("torch", run_torch), ("stringline", run_stringline)):
            runs[name].append(run(options))
            last = runs[name][-1]
            say(f"  {repetition + 1}: {name:10}  user {last['user_s']:8.3f} s   system "
                f"{last['system_s']:7.3f} s   wall {last['wall_s']:8.3f} s a step   loss "
                f"{last['losses'][0]:.3f} -> {last['losses'][-1]:.3f}")
    sums = {name: summary(all_runs) for name, all_runs in runs.items()}
    ratio = {key: sums["stringline"][key]["median"] / sums["torch"][key]["median"]
             for key in ("user_s", "wall_s")}
    if options["json"]:
        kept = ("schedule", "P", "M", "data", "processes", "shape", "steps", "warmup", "repeat", "threads", "torch")
        print(json.dumps({**{key: options[key] for key in kept}, "cores": os.cpu_count(),
                          "per_step": sums, "ratio": ratio, "runs": runs}))
        return
    for name in runs:
        user, wall = sums[name]["user_s"], sums[name]["wall_s"]
        say(f"{name:10}  user {user['median']:.3f} s a step "
            f"({user['min']:.3f} .. {user['max']:.3f})   "
            f"wall {wall['median']:.3f} s ({wall['min']:.3f} .. {wall['max']:.3f})")
    say(f"stringline / torch: {ratio['user_s']:.2f} of the processor time, "
        f"{ratio['wall_s']:.2f} of the time")


if __name__ == "__main__":
    main()
