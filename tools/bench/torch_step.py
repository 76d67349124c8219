#!/usr/bin/env python3
"""A training step here beside the same step in torch.distributed.pipelining.

    tools/torch/run tools/bench/torch_step.py --text TEXT               the model of examples/01_train
    tools/torch/run tools/bench/torch_step.py --text TEXT --model wide  its products cost most
    tools/torch/run tools/bench/torch_step.py --text TEXT --json        one JSON object, for a page

Both train the same GPT (stages/models/gpt.h: learned positions, pre-norm, GELU in its tanh form, an
untied head without bias, AdamW, clipping at 1) on random windows of the same text, in the same
stages, microbatches and schedule. torch runs a process per rank, on gloo, with one thread each;
stringline runs its ranks on the threads of one process, or of --processes. The first values differ
(each side draws its own, from the same distributions), so losses are alike and not equal. With
--data both train so many copies of the pipeline; torch's stages are then DDP's modules.

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
import resource
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {
    "small": dict(layers=8, width=96, heads=3, context=128, microbatch=4),
    "wide": dict(layers=4, width=512, heads=8, context=256, microbatch=2),
}
# By name: the class in torch, the file here, stages per rank.
SCHEDULES = {
    "1f1b": ("Schedule1F1B", "1f1b.sched", 1),
    "gpipe": ("ScheduleGPipe", "gpipe.sched", 1),
    "interleaved": ("ScheduleInterleaved1F1B", "interleaved.sched", 2),
    "interleaved_zb": ("ScheduleInterleavedZeroBubble", "interleaved_zb.sched", 2),
}
VOCABULARY = 256
LEARNING_RATE = 1e-3
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def layers_of_stage(layers, stages, stage):
    """As SplitEven in stages/layers.cc: the first stages get what is left over."""
    return layers // stages + (1 if stage < layers % stages else 0)


def make_stage(shape, stage, stages):
    """Stage `stage` of the GPT as a torch module."""
    import torch
    from torch import nn
    from torch.nn import functional

    width = shape["width"]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.projection = nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)
            residual = 0.02 / (2 * shape["layers"]) ** 0.5
            for linear, spread in ((self.qkv, 0.02), (self.up, 0.02), (self.projection, residual),
                                   (self.down, residual)):
                nn.init.normal_(linear.weight, std=spread)
                nn.init.zeros_(linear.bias)

        def forward(self, x):
            batch, context, _ = x.shape
            thirds = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (t.view(batch, context, shape["heads"], -1).transpose(1, 2) for t in thirds)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(y.transpose(1, 2).reshape(batch, context, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = stage == 0, stage == stages - 1
            if self.first:
                self.embedding = nn.Embedding(VOCABULARY, width)
                self.position = nn.Parameter(torch.zeros(shape["context"], width))
                nn.init.normal_(self.embedding.weight, std=0.02)
                nn.init.normal_(self.position, std=0.02)
            count = layers_of_stage(shape["layers"], stages, stage)
            self.blocks = nn.ModuleList(Block() for _ in range(count))
            if self.last:
                self.norm = nn.LayerNorm(width)
                self.head = nn.Linear(width, VOCABULARY, bias=False)
                nn.init.normal_(self.head.weight, std=0.02)

        def forward(self, x):
            if self.first:
                x = self.embedding(x) + self.position
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)) if self.last else x

    return Stage()


def torch_rank(rank, options, results):
    """One rank: trains, and puts (user seconds, wall seconds, losses) of a step into `results`."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, schedules
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.manual_seed(rank % options["P"])  # DDP's copies begin alike anyway
    shape, ranks, copies = options["shape"], options["P"], options["data"]
    dist.init_process_group("gloo", init_method="file://" + options["meeting"], rank=rank,
                            world_size=ranks * copies)
    # Rank r of copy d is process d * P + r, here as there. All make all groups.
    pipes = [dist.new_group(range(d * ranks, (d + 1) * ranks)) for d in range(copies)]
    alike = [dist.new_group(range(r, ranks * copies, ranks)) for r in range(ranks)]
    copy, rank = divmod(rank, ranks)
    pipe = pipes[copy]
    name, _, per_rank = SCHEDULES[options["schedule"]]
    stages = per_rank * ranks
    modules = [make_stage(shape, s, stages) for s in range(rank, stages, ranks)]
    parameters = [p for module in modules for p in module.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1]},
         {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0}],
        lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1)

    def loss_of(logits, target):
        return functional.cross_entropy(logits.flatten(0, 1), target.flatten())

    if copies > 1:
        modules = [nn.parallel.DistributedDataParallel(module, process_group=alike[rank])
                   for module in modules]
    wrapped = [PipelineStage(module, s, stages, torch.device("cpu"), group=pipe)
               for module, s in zip(modules, range(rank, stages, ranks))]
    maker = getattr(schedules, name)
    schedule = maker(wrapped if per_rank > 1 else wrapped[0], options["M"], loss_fn=loss_of)
    with open(options["text"], "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    random = torch.Generator().manual_seed(1 + copy)
    rows, context = options["M"] * shape["microbatch"], shape["context"]

    def step():
        places = torch.randint(len(text) - context, (rows,), generator=random)
        windows = torch.stack([text[p:p + context + 1] for p in places.tolist()]).long()
        losses = []
        feeds = (windows[:, :-1].contiguous(),) if rank == 0 else ()
        if rank == ranks - 1:
            schedule.step(*feeds, target=windows[:, 1:].contiguous(), losses=losses)
        else:
            schedule.step(*feeds)
        squares = sum(p.grad.square().sum() for p in parameters)
        dist.all_reduce(squares, group=pipe)
        factor = torch.clamp(1.0 / (squares.sqrt() + 1e-6), max=1.0)
        for p in parameters:
            p.grad.mul_(factor)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(torch.stack(losses).detach().mean()) if losses else 0.0

    losses = [step() for _ in range(options["warmup"])]
    dist.barrier()
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    losses += [step() for _ in range(options["steps"])]
    dist.barrier()
    after, end = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    results.put((copy * ranks + rank, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime,
                 end - start, losses))
    dist.barrier()
    dist.destroy_process_group()


def run_torch(options):
    """A step's cost in torch: {user_s, system_s, wall_s, losses}."""
    import torch.multiprocessing as multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        told = dict(options, meeting=os.path.join(folder, "meeting"))
        processes = [context.Process(target=torch_rank, args=(rank, told, results))
                     for rank in range(options["P"] * options["data"])]
        for process in processes:
            process.start()
        answers = []
        while len(answers) < len(processes):
            try:
                answers.append(results.get(timeout=5))
            except Exception:  # queue.Empty: is everybody still there?
                if any(process.exitcode not in (None, 0) for process in processes):
                    for process in processes:
                        process.kill()
                    sys.exit("a rank of torch ended with an error; its message stands above")
        for process in processes:
            process.join()
    steps = options["steps"]
    last = max(answers)
    return {"user_s": sum(a[1] for a in answers) / steps,
            "system_s": sum(a[2] for a in answers) / steps,
            "wall_s": max(a[3] for a in answers) / steps, "losses": last[4]}


def run_file(options, folder):
    shape = options["shape"]
    _, file, _ = SCHEDULES[options["schedule"]]
    threads = options["threads"]
    if not threads and options["processes"]:
        threads = -(-options["P"] * options["data"] // options["processes"])
    threads = f", threads: {threads}" if threads else ""
    mesh = f"mesh: {{data: {options['data']}}}\n" if options["data"] > 1 else ""
    path = os.path.join(folder, "run.yaml")
    with open(path, "w") as out:
        out.write(f"""schedule:
  file: {os.path.join(ROOT, 'schedules', file)}
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
    """One whole run of stringline: user and system seconds, seconds of its training, its losses."""
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
    """A step's cost here: a run of warm-up steps only is subtracted from one with the steps too."""
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
        parser.error("this Python has no torch: start it with tools/torch/run")
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
            f"({user['min']:.3f} .. {user['max']:.3f})   wall {wall['median']:.3f} s ({wall['min']:.3f} .. {wall['max']:.3f})")
    say(f"stringline / torch: {ratio['user_s']:.2f} of the processor time, "
        f"{ratio['wall_s']:.2f} of the time")


if __name__ == "__main__":
    main()
