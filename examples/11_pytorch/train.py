"""Trains the model with any schedule, one process a rank:

    torchrun --nproc-per-node=4 train.py SCHEDULE [STEPS]

SCHEDULE is torch's file, one of Stringline's (.sched, .plan), or the name of one of its library.
The rank with the last stage prints the loss of every step.
"""

import datetime
import logging
import sys

import model
import stringline.torch
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage

MICROBATCHES, ROWS = 8, 2  # of a step, of a microbatch


def main(schedule, steps):
    torch.set_num_threads(1)
    # With GPUs: "nccl", and a device each.
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = stringline.torch.stages_of_rank(schedule, rank, P=ranks, M=MICROBATCHES)
    modules = [model.make_stages()[index] for index in mine]
    stages = [
        PipelineStage(module, index, model.STAGES, torch.device("cpu"))
        for module, index in zip(modules, mine)
    ]
    runtime = stringline.torch.runtime(schedule, stages, model.loss, M=MICROBATCHES)
    optimizer = torch.optim.AdamW([p for module in modules for p in module.parameters()], lr=1e-3)
    for letters, following in model.batches(steps, MICROBATCHES * ROWS):
        losses = []
        arguments = [letters] if 0 in mine else []
        last = {"target": following, "losses": losses} if model.STAGES - 1 in mine else {}
        optimizer.zero_grad()
        runtime.step(*arguments, **last)
        optimizer.step()
        if losses:
            print(f"{torch.stack(losses).mean().item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
