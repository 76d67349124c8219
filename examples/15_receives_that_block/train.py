"""Trains four stages on two ranks with torch's runtime, a process each:

    python train.py FILE [--as-it-is]

FILE is a schedule of torch's. Its messages are placed anew by stringline.torch, or stay where they
are with --as-it-is. Gloo performs messages in any order; here those of the two ranks go one after
the other, as on a communicator of NCCL that they share. Where none ends any more, each rank names
the message that it waits at.
"""

import logging
import multiprocessing
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, TimeoutError

import stringline.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

RANKS, STAGES, STEPS, ROWS, WIDTH = 2, 4, 3, 4, 16
SECONDS = 3  # of a message, before it counts as endless


class Communicator:
    """Performs the messages of a rank one after the other, each to its end."""

    def __init__(self, actions):
        names = map(str, actions)
        self.messages = [name for name in names if re.match(r"\d+(SEND|RECV)_", name)]
        self.ended = 0
        self.queue = ThreadPoolExecutor(max_workers=1)

    def start(self, ops, desc=None):
        """Instead of torch's function that starts the message of an action."""
        return [Message(self, self.queue.submit(self.perform, *ops))]

    def perform(self, op):
        op.op(op.tensor, op.peer, op.group, op.tag).wait()
        self.ended += 1


class Message:
    """A message that has been started."""

    def __init__(self, communicator, future):
        self.communicator, self.future = communicator, future

    def wait(self):
        try:
            self.future.result(SECONDS)
        except TimeoutError:
            messages = self.communicator.messages
            at = messages[self.communicator.ended % len(messages)]
            raise RuntimeError(f"waits forever at {at}") from None


def make_stages():
    """The same in every process."""
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(STAGES)]


def optimizer_of(modules):
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.5)


def as_it_is(plan, stages):
    """Torch's runtime with the order of the file, and the waits for sends that torch 2.15 wants."""
    runtime = schedules._PipelineScheduleRuntime(stages, plan.microbatches, nn.functional.mse_loss)
    waits = hasattr(schedules._ComputationType, "WAIT_SEND_F")
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(plan.to_torch_csv("comms" if waits else "comms-2.14"))
        file.flush()
        runtime._load_csv(file.name, format="compute_comms")
    return runtime


def train(rank, plan, unchanged, meeting, batch, target):
    """The losses of a rank with the last stage."""
    dist.init_process_group("gloo", f"file://{meeting}/store", rank=rank, world_size=RANKS)
    mine = stringline.torch.stages_of_rank(plan, rank)
    modules = [make_stages()[index] for index in mine]
    stages = [
        PipelineStage(module, index, STAGES, torch.device("cpu"))
        for module, index in zip(modules, mine)
    ]
    if unchanged:
        runtime = as_it_is(plan, stages)
    else:
        runtime = stringline.torch.runtime(plan, stages, nn.functional.mse_loss)
    communicator = Communicator(runtime.pipeline_order_with_comms[rank])
    schedules._batch_p2p = communicator.start
    optimizer = optimizer_of(modules)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses = []
        runtime.step(
            *([batch] if 0 in mine else []),
            **({"target": target, "losses": losses} if STAGES - 1 in mine else {}),
        )
        optimizer.step()
        found += [torch.stack(losses).mean().item()] if losses else []
    return found


def in_one_piece(batch, target):
    modules = make_stages()
    optimizer = optimizer_of(modules)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(nn.Sequential(*modules)(batch), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def answer_of(rank, answer, *arguments):
    torch.set_num_threads(1)
    try:
        answer.send(" ".join(f"{loss:.6f}" for loss in train(rank, *arguments)))
    except RuntimeError as error:
        answer.send(f"rank {rank} {error}")
    os._exit(0)  # also where messages have not ended


def main(path, unchanged):
    plan = stringline.from_torch(path)
    torch.manual_seed(2)
    batch, target = torch.rand(2, ROWS * plan.microbatches, WIDTH)
    with tempfile.TemporaryDirectory() as meeting:
        fork = multiprocessing.get_context("fork")
        pipes = [fork.Pipe() for _ in range(RANKS)]
        for rank, (_, answer) in enumerate(pipes):
            arguments = (rank, answer, plan, unchanged, meeting, batch, target)
            fork.Process(target=answer_of, args=arguments).start()
        said = [pipe.recv() for pipe, _ in pipes]
    for line in filter(None, said):
        print(line)
    if "forever" not in said[0]:
        print(" ".join(f"{loss:.6f}" for loss in in_one_piece(batch, target)), "in one piece")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # torch prints the whole schedule when it stops
    main(sys.argv[1], "--as-it-is" in sys.argv[2:])
