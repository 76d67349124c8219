"""Steps of torch's Schedule1F1B or ScheduleGPipe on gloo, traced by torch's profiler.

    unnamed_step.py SCHEDULE RANKS MICROBATCHES STEPS OPTIONS FOLDER

FOLDER gets a trace per rank, with the steps 1 to STEPS. OPTIONS is plain, or stack for
with_stack=True. Around each forward with its loss, and each backward, stands a range TRUE:0F3 or
TRUE:0B3, with the number that the schedule gives the stage.
"""

import os
import sys
import tempfile

import traced_step
import whole_model


def measure(torch, stage, schedule):
    """Puts the ranges around the stage's computations."""
    index = stage.stage_index

    def within(name, call, *arguments, **keywords):
        with torch.profiler.record_function(f"TRUE:{name}"):
            return call(*arguments, **keywords)

    forward, backward = stage.forward_one_chunk, stage.backward_one_chunk
    stage.backward_one_chunk = lambda chunk, *rest, **more: within(
        f"{index}B{chunk}", backward, chunk, *rest, **more)
    if not stage.is_last:
        stage.forward_one_chunk = lambda chunk, *rest, **more: within(
            f"{index}F{chunk}", forward, chunk, *rest, **more)
        return
    # On the last stage the loss belongs to the forward.
    ranges = []
    loss = schedule._maybe_compute_loss

    def begin(chunk, *rest, **more):
        ranges.append(torch.profiler.record_function(f"TRUE:{index}F{chunk}"))
        ranges[-1].__enter__()
        return forward(chunk, *rest, **more)

    def end(*rest, **more):
        loss(*rest, **more)
        ranges.pop().__exit__(None, None, None)

    stage.forward_one_chunk, schedule._maybe_compute_loss = begin, end


def work(rank, ranks, meeting, name, microbatches, steps, options, folder):
    torch, PipelineStage, schedules = whole_model.load_torch()
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=ranks
    )
    stage = PipelineStage(traced_step.slow_stage(torch), rank, ranks, torch.device("cpu"))
    kind = {"1f1b": schedules.Schedule1F1B, "gpipe": schedules.ScheduleGPipe}[name]
    schedule = kind(
        stage, microbatches, loss_fn=lambda output, target: whole_model.loss(torch, output, target)
    )
    measure(torch, stage, schedule)
    traced_step.record(torch, schedule, microbatches, rank == 0, rank == ranks - 1, steps,
                       os.path.join(folder, f"rank{rank}.json"), with_stack=options == "stack")


def main(name, ranks, microbatches, steps, options, folder):
    torch, _, _ = whole_model.load_torch()
    import torch.multiprocessing  # noqa: F811

    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as meeting:
        torch.multiprocessing.spawn(
            work, nprocs=int(ranks),
            args=(int(ranks), meeting, name, int(microbatches), int(steps), options, folder),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
