"""Steps of a schedule in torch's own pipeline runtime on gloo, traced by torch's profiler.

    traced_step.py CSV STAGES MICROBATCHES STEPS FOLDER

CSV is the schedule in torch's compute form. FOLDER gets a trace per rank, with the steps 1 to
STEPS. A computation takes a known time, most of which is sleep: so ranks on shared cores, among
themselves and beside anything else, hardly disturb each other.
"""

import os
import sys
import tempfile

import raw_file
import whole_model

FORWARD_S, BACKWARD_S = 0.03, 0.06


def slow_stage(torch):
    """A module that takes FORWARD_S forward and BACKWARD_S backward."""
    import time

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(FORWARD_S)
            return x + 0

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(BACKWARD_S)
            return gradient

    class Stage(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(whole_model.WIDTH, whole_model.WIDTH, dtype=torch.float64)

        def forward(self, x):
            return Slow.apply(self.linear(x))

    return Stage()


def work(rank, ranks, meeting, csv, stages, microbatches, steps, folder):
    torch, PipelineStage, schedules = whole_model.load_torch()
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=ranks
    )
    with open(csv) as file:
        mine = raw_file.stages_of_rank(file.read(), rank)
    local = [
        PipelineStage(slow_stage(torch), s, stages, torch.device("cpu")) for s in mine
    ]
    schedule = schedules._PipelineScheduleRuntime(
        local, microbatches, loss_fn=lambda output, target: whole_model.loss(torch, output, target)
    )
    schedule._load_csv(csv, format="compute_only")
    record(torch, schedule, microbatches, 0 in mine, stages - 1 in mine, steps,
           os.path.join(folder, f"rank{rank}.json" + (".gz" if rank % 2 else "")))


def record(torch, schedule, microbatches, first, last, steps, path, **options):
    """Performs the steps, traced with these options of the profiler, and leaves the group. `first`
    and `last`: this rank has the first stage, or the last."""
    x, y = whole_model.data(torch, microbatches)
    arguments = [x] if first else []
    keywords = {"target": y} if last else {}
    profiler = torch.profiler
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], **options,
        schedule=profiler.schedule(wait=0, warmup=1, active=steps),
        on_trace_ready=lambda profile: profile.export_chrome_trace(path),
    ) as profile:
        for _ in range(1 + steps):
            schedule.step(*arguments, **keywords)
            profile.step()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main(csv, stages, microbatches, steps, folder):
    torch, _, _ = whole_model.load_torch()
    import torch.multiprocessing  # noqa: F811

    with open(csv) as file:
        ranks = len(file.read().splitlines())
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as meeting:
        torch.multiprocessing.spawn(
            work, nprocs=ranks,
            args=(ranks, meeting, csv, int(stages), int(microbatches), int(steps), folder),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
