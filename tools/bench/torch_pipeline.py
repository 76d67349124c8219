#!/usr/bin/env python3
"""A training run of a case in torch.distributed.pipelining, for `stringline bench`.

    tools/environments/torch/run tools/bench/torch_pipeline.py CASE.json

CASE.json has the settings of a run file of `stringline run`: `model` (its sizes), `layers` of each
stage, `stages` (the rank of each), `schedule` (its name in our library, or ""), `parameters`, `csv`
(our order in torch's notation, or ""), `P`, `M`, `data` (copies of the pipeline), `microbatch`
(sequences), `precision`, `text` (a file), `seed`, `steps`, `warm_up` and `learning_rate`. First
values and data are those of stringline, so losses are the same but for rounding. A process for each
rank, with one thread, on gloo; if `device` is cuda and the GPUs suffice, a GPU for each, on NCCL.

Torch runs its own schedule, if any; otherwise its runtime performs our order. Copies of a stage are
DistributedDataParallel's in 1F1B; elsewhere their gradients are summed after the step: DDP stops at
an internal assertion in GPipe, and knows no backward in two parts.

Prints one JSON object: `steps_us` and `processor_us` of every step (the slowest rank's; of all
ranks together, user and system; `user_us` without the system's), `losses`, `resident_bytes` of the
largest rank, `params`,
`tokens_per_step`, and `runs`, what performed the schedule; or `error`, with exit status 1.
"""

import json
import logging
import os
import queue
import resource
import sys
import tempfile
import time

# Schedules of our library that torch has.
CLASSES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "looped_bfs": "ScheduleLoopedBFS",
    "interleaved_zb": "ScheduleInterleavedZeroBubble",
    "zb_v": "ScheduleZBVZeroBubble",
    "dualpipe_v": "ScheduleDualPipeV",
}
SINGLE = ("ScheduleGPipe", "Schedule1F1B")
BITS = 2**64


def mixed(z):
    """SplitMix64's step, as in executor/training/data.h."""
    z = (z + 0x9E3779B97F4A7C15) % BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % BITS
    return z ^ (z >> 31)


def window(seed, step, microbatch, row, places):
    """The beginning of row `row` of a microbatch in the text."""
    return mixed(mixed(mixed(mixed(seed) ^ step) ^ microbatch) ^ row) % places


def peak_bytes():
    """The most memory of this process."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def class_of(case):
    """The name of torch's own schedule; None without one for these parameters."""
    own = set(case["parameters"]) <= {"P", "M", "V"}
    return CLASSES.get(case["schedule"]) if own else None


class Rank:
    """Process `index` of P * data, and its training."""

    def __init__(self, case, index, meeting):
        import torch
        import torch.distributed as dist
        import torch_models

        self.case, self.torch, self.dist = case, torch, dist
        torch.set_num_threads(1)
        logging.disable(logging.CRITICAL)  # the runtime prints the whole schedule when it stops
        ranks, copies = case["P"], case["data"]
        self.device = torch.device(case.get("device", "cpu"), index) \
            if case.get("device") == "cuda" else torch.device("cpu")
        dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo",
                                init_method="file://" + meeting, rank=index,
                                world_size=ranks * copies)
        # Rank r of copy d is process d * P + r, as in stringline. All processes make all groups.
        pipes = [dist.new_group(range(d * ranks, (d + 1) * ranks)) for d in range(copies)]
        alike = [dist.new_group(range(r, ranks * copies, ranks)) for r in range(ranks)]
        self.copy, self.rank = divmod(index, ranks)
        self.pipe, self.alike = pipes[self.copy], alike[self.rank]
        self.mine = [s for s, rank in enumerate(case["stages"]) if rank == self.rank]
        modules = []
        for s in self.mine:
            modules.append(torch_models.Stage(case["model"], case["layers"], s, case["precision"],
                                              self.device))
            modules[-1].fill(case["model"], case["seed"])
            modules[-1].to(self.device)
        self.parameters = [p for module in modules for p in module.parameters()]
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for p in self.parameters if p.dim() > 1]},
             {"params": [p for p in self.parameters if p.dim() <= 1], "weight_decay": 0}],
            lr=case["learning_rate"], betas=(0.9, 0.95), weight_decay=0.1)
        self.schedule, self.runs, self.sums = self.make_schedule(modules)
        with open(case["text"], "rb") as file:
            self.text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)

    def make_schedule(self, modules):
        """The schedule, its name, and True if gradients of copies are summed after the step."""
        from torch import nn
        from torch.distributed.pipelining import PipelineStage, schedules

        case, copies = self.case, self.case["data"]
        name = class_of(case)
        single = name in SINGLE
        parallel = copies > 1 and name == "Schedule1F1B"
        if parallel:
            modules = [nn.parallel.DistributedDataParallel(module, process_group=self.alike)
                       for module in modules]
        stages = [PipelineStage(module, s, len(case["stages"]), self.device, group=self.pipe)
                  for module, s in zip(modules, self.mine)]
        sums = copies > 1 and not parallel
        if name is not None:
            maker = getattr(schedules, name)
            made = maker(stages[0] if single else stages, case["M"], loss_fn=self.loss)
            return made, name, sums
        actions = {action.value for action in schedules._ComputationType}
        if not case["csv"]:
            raise ValueError("torch has no such schedule, and its notation cannot say it")
        if "WAIT_SEND_F" not in actions:
            raise ValueError("torch has no such schedule; our order is for torch 2.15 and later")
        runtime = schedules._PipelineScheduleRuntime(stages, case["M"], loss_fn=self.loss)
        runtime._load_csv(case["csv"], format="compute_comms")
        return runtime, "our order", sums

    def loss(self, logits, target):
        return self.torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(),
                                                      target.flatten())

    def windows(self, step):
        case, torch = self.case, self.torch
        context, count = case["model"]["context"], case["M"]
        places = len(self.text) - context
        begins = [window(case["seed"], step, self.copy * count + m, row, places)
                  for m in range(count) for row in range(case["microbatch"])]
        rows = torch.stack([self.text[b:b + context + 1] for b in begins]).long()
        return rows.to(self.device)

    def step(self, number):
        """The loss, where the last stage is here; otherwise None."""
        torch, dist = self.torch, self.dist
        rows = self.windows(number)
        losses = []
        feeds = (rows[:, :-1].contiguous(),) if 0 in self.mine else ()
        last = len(self.case["stages"]) - 1 in self.mine
        if last:
            self.schedule.step(*feeds, target=rows[:, 1:].contiguous(), losses=losses)
        else:
            self.schedule.step(*feeds)
        if self.sums:
            flat = torch.cat([p.grad.flatten() for p in self.parameters])
            dist.all_reduce(flat, group=self.alike)
            flat /= self.case["data"]
            pieces = flat.split([p.numel() for p in self.parameters])
            for p, piece in zip(self.parameters, pieces):
                p.grad.copy_(piece.view_as(p))
        squares = sum(p.grad.square().sum() for p in self.parameters)
        dist.all_reduce(squares, group=self.pipe)
        factor = 1 / torch.clamp(squares.sqrt(), min=1.0)
        for p in self.parameters:
            p.grad.mul_(factor)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(torch.stack(losses).detach().mean()) if last else None

    def train(self):
        walls, users, processors, losses = [], [], [], []
        for number in range(self.case["warm_up"] + self.case["steps"]):
            start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
            losses.append(self.step(number))
            if self.device.type == "cuda":
                self.torch.cuda.synchronize()
            walls.append(1e6 * (time.monotonic() - start))
            after = resource.getrusage(resource.RUSAGE_SELF)
            users.append(1e6 * (after.ru_utime - before.ru_utime))
            processors.append(users[-1] + 1e6 * (after.ru_stime - before.ru_stime))
        self.dist.barrier()
        return {"walls": walls, "users": users, "processors": processors, "losses": losses, "copy": self.copy,
                "bytes": peak_bytes(), "params": sum(p.numel() for p in self.parameters),
                "runs": self.runs}


def told(error):
    """The first error, on a single line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[0][:300]}"


def first_failure(answers):
    """The cause among the ranks' errors: other ranks only miss the failed rank."""
    errors = [answer["error"] for answer in answers if "error" in answer]
    return {"error": next((e for e in errors if "Connection" not in e), errors[0])}


def serve(case, index, meeting, results):
    """A rank's process."""
    try:
        rank = Rank(case, index, meeting)
        answer = rank.train()
        rank.dist.destroy_process_group()
    except Exception as error:  # whatever torch says is an answer
        answer = {"error": f"rank {index}: {told(error)}"}
    results.put(answer)


def run(case):
    """The answer for a case; {"error": …} where a rank has failed."""
    import torch
    import torch.multiprocessing as multiprocessing

    if case.get("device") == "cuda" and torch.cuda.device_count() < case["P"] * case["data"]:
        return {"error": f"torch's ranks need a GPU each, and here are {torch.cuda.device_count()}"}
    # A forked process has torch at once; but a process that has used CUDA cannot be forked.
    context = multiprocessing.get_context("spawn" if case.get("device") == "cuda" else "fork")
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        results = context.Queue()
        processes = [context.Process(target=serve,
                                     args=(case, i, os.path.join(folder, "meeting"), results))
                     for i in range(case["P"] * case["data"])]
        for process in processes:
            process.start()
        failed = False
        while len(answers) < len(processes):
            try:
                answers.append(results.get(timeout=2))
            except queue.Empty:  # is everybody still there?
                if failed:
                    break
                if any(process.exitcode not in (None, 0) for process in processes):
                    answers.append({"error": "a rank of torch died"})
            failed = any("error" in answer for answer in answers)
        for process in processes:
            if failed:
                process.kill()
            process.join()
    if failed:
        return first_failure(answers)
    steps = range(len(answers[0]["walls"]))
    losses = [[answer["losses"][s] for answer in answers if answer["losses"][s] is not None]
              for s in steps]
    rows = case["M"] * case["data"] * case["microbatch"]
    return {"torch": torch.__version__, "runs": answers[0]["runs"],
            "steps_us": [max(answer["walls"][s] for answer in answers) for s in steps],
            "processor_us": [sum(answer["processors"][s] for answer in answers) for s in steps],
            "user_us": [sum(answer["users"][s] for answer in answers) for s in steps],
            "losses": [sum(values) / len(values) for values in losses],
            "resident_bytes": max(answer["bytes"] for answer in answers),
            "params": sum(answer["params"] for answer in answers) // case["data"],
            "tokens_per_step": rows * case["model"]["context"]}


def main():
    with open(sys.argv[1]) as file:
        case = json.load(file)
    answer = run(case)
    print(json.dumps(answer))
    sys.exit(1 if "error" in answer else 0)


if __name__ == "__main__":
    main()
