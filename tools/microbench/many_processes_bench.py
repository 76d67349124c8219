#!/usr/bin/env python3
"""The first step of a run of many processes on this host, and the memory of process 0 beside others.

    tools/microbench/many_processes_bench.py [--processes 64] [--stages 8] [--limit-s 300]
                                             [--most-s 30] [--most-ratio 1.5]

Trains a tiny GPT in copies of a pipeline of some stages, with a process for each rank. Says how long
it takes from the start to the end of the first step, and once some steps are done the memory of
process 0 and the median of the others (PSS: pages that processes share count in parts). With
--most-s or --most-ratio it ends with status 1 where the first step takes longer, or process 0 has
more than so many times the memory of the others.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS_BEFORE = 3

RUN_FILE = """schedule: {{file: {root}/schedules/1f1b.sched, P: {stages}, M: {stages}}}
mesh: {{data: {copies}}}
model: {{layers: {stages}, width: 16, heads: 1, context: 8}}
data: {{text: {root}/schedlang/LANGUAGE.md, microbatch: 1}}
train: {{steps: 1000000, learning_rate: 1e-3, threads: 1}}
device: cpu
timeout: 600s
"""


def steps_done(folder):
    losses = os.path.join(folder, "out", "losses.csv.part")
    if not os.path.exists(losses):
        return 0
    with open(losses) as file:
        return max(0, sum(1 for _ in file) - 1)


def children_of(parent):
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return [int(pid) for pid in file.read().split()]


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))


def files_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rank_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    return int(words[words.index(b"--rank") + 1])


def wait_for_steps(run, folder, steps, limit_s):
    """The time at which so many steps are done; None: the run has ended, or took too long."""
    deadline = time.monotonic() + limit_s
    while run.poll() is None and time.monotonic() < deadline:
        if steps_done(folder) >= steps:
            return time.monotonic()
        time.sleep(0.02)
    return None


def measure(given, folder):
    with open(os.path.join(folder, "run.yaml"), "w") as file:
        file.write(RUN_FILE.format(root=ROOT, stages=given.stages, copies=given.processes // given.stages))
    command = [
        given.stringline,
        "run",
        file.name,
        "--out",
        os.path.join(folder, "out"),
        "--processes",
        str(given.processes),
    ]
    began = time.monotonic()
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        first = wait_for_steps(run, folder, 1, given.limit_s)
        later = first and wait_for_steps(run, folder, 1 + STEPS_BEFORE, given.limit_s)
        if later is None:
            sys.exit(f"{given.processes} processes: no step within {given.limit_s} s")
        ranks = {rank_of(pid): pid for pid in children_of(run.pid)}
        memory = {rank: pss_kib(pid) for rank, pid in ranks.items()}
        files = {rank: files_of(pid) for rank, pid in ranks.items()}
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()
    others = statistics.median(kib for rank, kib in memory.items() if rank > 0)
    ratio = memory[0] / others
    print(
        f"{given.processes} processes: first step after {first - began:.1f} s, then "
        f"{(later - first) / STEPS_BEFORE:.2f} s a step; process 0 has {memory[0] / 1024:.1f} MiB, "
        f"the others {others / 1024:.1f} MiB (ratio {ratio:.2f}); process 0 has {files[0]} files "
        f"open, the others up to {max(count for rank, count in files.items() if rank > 0)}"
    )
    return first - began, ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--stages", type=int, default=8)
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--most-s", type=float)
    parser.add_argument("--most-ratio", type=float)
    parser.add_argument("--stringline", default=os.path.join(ROOT, "build/release/stringline"))
    given = parser.parse_args()
    if given.processes % given.stages != 0:
        parser.error(f"{given.processes} processes are no copies of {given.stages} stages")
    with tempfile.TemporaryDirectory() as folder:
        first_s, ratio = measure(given, folder)
    late = given.most_s is not None and first_s > given.most_s
    large = given.most_ratio is not None and ratio > given.most_ratio
    sys.exit(1 if late or large else 0)


if __name__ == "__main__":
    main()
