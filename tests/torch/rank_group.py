"""Processes that stand for the ranks: they meet once and then perform job after job.

They are forked from a process that has imported torch, so that a group is made at once. A rank that
stops with an error, or does not answer in time, ends the group; the next job gets a new group. So
no job can hold up another, nor leave messages behind for the next.
"""

import datetime
import logging
import multiprocessing
import multiprocessing.connection
import tempfile
import time

import whole_model

RIGHT, WRONG, UNCLEAR, STOPPED, HANGS = "right", "wrong", "unclear", "stopped", "hangs"
RIGHT_UP_TO = 1e-9  # how far gradients may be off, as a share of the largest of their stage
WRONG_FROM = 1e-6  # how far they are off at least when something went astray


def serve(rank, ranks, meeting, pipe, perform):
    """A rank's process: takes jobs until the queue is closed."""
    torch, _, _ = whole_model.load_torch()
    logging.disable(logging.CRITICAL)  # the runtime prints the whole schedule when it stops
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}/store", rank=rank, world_size=ranks,
        timeout=datetime.timedelta(seconds=120),
    )
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((perform(job, rank), ""))
        except Exception as error:  # whatever torch says is an answer
            pipe.send((None, f"rank {rank}: {type(error).__name__}: {error}"))


class RankGroup:
    """As many processes as a job has ranks; `with` ends them.

    In each of them `perform(job, rank)` says how far its gradients are off.
    """

    def __init__(self, ranks, perform):
        self.ranks = ranks
        self.perform = perform
        self.processes = []
        self.pipes = []
        self.meeting = None  # the folder where the processes find each other

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def start(self):
        fork = multiprocessing.get_context("fork")
        self.meeting = tempfile.TemporaryDirectory()
        for rank in range(self.ranks):
            mine, theirs = fork.Pipe()
            process = fork.Process(
                target=serve, args=(rank, self.ranks, self.meeting.name, theirs, self.perform),
                daemon=True,
            )
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(mine)

    def end(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()
        for pipe in self.pipes:
            pipe.close()
        if self.meeting:
            self.meeting.cleanup()
        self.processes, self.pipes, self.meeting = [], [], None

    def run(self, job, seconds):
        """(outcome, observations) of a job with this limit in seconds."""
        if not self.processes:
            self.start()
        for pipe in self.pipes:
            pipe.send(job)
        outcome, seen = self.answer(time.monotonic() + seconds)
        if outcome != RIGHT:
            self.end()
        return outcome, seen

    def answer(self, deadline):
        waiting = list(self.pipes)
        worst = 0.0
        while waiting:
            ready = multiprocessing.connection.wait(waiting, max(0, deadline - time.monotonic()))
            if not ready:
                return HANGS, f"{len(waiting)} of {self.ranks} ranks have not ended"
            for pipe in ready:
                try:
                    difference, error = pipe.recv()
                except EOFError:
                    return STOPPED, "a rank died"
                if difference is None:
                    return STOPPED, error
                worst = max(worst, difference)
                waiting.remove(pipe)
        seen = f"gradients are {worst:.1e} off"
        if worst < RIGHT_UP_TO:
            return RIGHT, seen
        return (WRONG if worst > WRONG_FROM else UNCLEAR), seen
