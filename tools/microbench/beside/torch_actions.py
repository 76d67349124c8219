"""The cost of an action in torch's runtime besides its work: processes on gloo, and modules that
multiply one number by another.

    torch_actions.py RANKS MICROBATCHES STEPS [SCHEDULE.csv STAGES]

Runs STEPS steps of a schedule in the compute form, or without one of 1F1B in torch's own loop.
Prints a JSON object: the time of a step (the median of rank 0's), the processor time of a step of
all ranks, the number of computations in a step, their processor time by themselves, without a
pipeline, and the most memory of a rank.
"""

import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time

import torch
from torch.distributed.pipelining import PipelineStage, schedules

WARM_UP = 3  # steps before the measured ones
SECONDS = 300


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.factor


def loss(output, _):
    return output.sum()


def stages_of(cells):
    """The stages named in a row: numbers followed by a letter."""
    stages = set()
    for cell in cells.replace("(", "").replace(";", ",").split(","):
        digits = cell[: len(cell) - len(cell.lstrip("0123456789"))]
        if digits:
            stages.add(int(digits))
    return sorted(stages)


def computations(rows):
    return sum(
        1 for row in rows for cell in row.replace(";", ",").split(",")
        if cell.strip("()").lstrip("0123456789")[:1] in tuple("FBIW")
    )


def make_schedule(rank, ranks, microbatches, path, stages):
    device = torch.device("cpu")
    if path is None:
        stage = PipelineStage(Scale(), rank, ranks, device)
        return schedules.Schedule1F1B(stage, microbatches, loss_fn=loss), [rank]
    with open(path) as file:
        mine = stages_of(file.read().splitlines()[rank])
    local = [PipelineStage(Scale(), s, stages, device) for s in mine]
    runtime = schedules._PipelineScheduleRuntime(local, microbatches, loss_fn=loss)
    runtime._load_csv(path, format="compute_only")
    return runtime, mine


def work(rank, ranks, meeting, given, answers):
    microbatches, steps, path, stages = given
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=ranks
    )
    schedule, mine = make_schedule(rank, ranks, microbatches, path, stages)
    x = torch.ones(microbatches, 1)
    arguments = [x] if 0 in mine else []
    keywords = {"target": x} if stages - 1 in mine else {}
    walls = []
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            torch.distributed.barrier()
            cpu = time.process_time()
        began = time.perf_counter()
        schedule.step(*arguments, return_outputs=False, **keywords)
        if step >= WARM_UP:
            walls.append(time.perf_counter() - began)
    cpu = (time.process_time() - cpu) / steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answers.put((rank, cpu, statistics.median(walls), peak))
    torch.distributed.barrier()


def bare_seconds(microbatches, stages):
    """Processor time of the modules and their gradients alone."""
    modules = [Scale() for _ in range(stages)]
    times = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(microbatches):
            for module in modules:
                module(torch.ones(1, 1, requires_grad=True)).sum().backward()
        times.append(time.process_time() - began)
    return statistics.median(times)


def main():
    ranks, microbatches, steps = map(int, sys.argv[1:4])
    path = sys.argv[4] if len(sys.argv) > 4 else None
    stages = int(sys.argv[5]) if path else ranks
    count = 2 * ranks * microbatches
    if path:
        with open(path) as file:
            count = computations(file.read().splitlines())
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    given = (microbatches, steps, path, stages)
    with tempfile.TemporaryDirectory() as meeting:
        children = [
            fork.Process(target=work, args=(rank, ranks, meeting, given, answers), daemon=True)
            for rank in range(ranks)
        ]
        for child in children:
            child.start()
        said = sorted(answers.get(timeout=SECONDS) for _ in children)
        for child in children:
            child.join(SECONDS)
    torch.set_num_threads(1)
    print(json.dumps({
        "step_s": said[0][2], "cpu_s": sum(cpu for _, cpu, _, _ in said), "computations": count,
        "bare_s": bare_seconds(microbatches, stages), "rank_peak_mib": max(s[3] for s in said),
    }))


if __name__ == "__main__":
    main()
