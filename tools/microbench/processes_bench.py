#!/usr/bin/env python3
"""Many processes on one host: the time to the first step, the time of a step, and what each holds.

    tools/microbench/processes_bench.py [--processes 64] [--data 1,32] [--steps 40] [--rounds 3]
                                        [--against OTHER_STRINGLINE] [--most-s 30] [--most-ratio 1.5]

Trains a model of tiny layers in so many processes, a rank each: a pipeline with --data 1, or so
many copies of a shorter one. There is next to nothing to compute, so what a step takes is what
messages take. Prints medians over the rounds, and of the processes the mean and the most: sockets,
and memory that is theirs (PSS: shared pages divided by those that share them). With --against, a
program that was built before, the rounds of both alternate, and the last line is the ratio, which
depends on the machine less than times do. With --most-s or --most-ratio it ends with status 1 where
a first step takes longer, or process 0 has more than so many times the memory of the median process.
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
PATIENCE_S = 300

RUN_FILE = """schedule: {{file: {root}/schedules/1f1b.sched, P: {stages}, M: 8}}
mesh: {{data: {data}}}
model: {{layers: {stages}, width: 8, heads: 1, context: 8}}
data: {{text: {root}/schedlang/LANGUAGE.md, microbatch: 1}}
train: {{steps: 1000000, learning_rate: 1e-3, threads: 1}}
device: cpu
timeout: 120s
"""


def children(parent):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(int(entry))
        except (OSError, IndexError, ValueError):
            continue
    return found


def rank_of(process):
    with open(f"/proc/{process}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    return int(words[words.index(b"--rank") + 1])


def sockets(process):
    folder = f"/proc/{process}/fd"
    return sum(os.readlink(os.path.join(folder, file)).startswith("socket:") for file in os.listdir(folder))


def memory_mib(process):
    with open(f"/proc/{process}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def losses(folder):
    try:
        with open(os.path.join(folder, "out", "losses.csv.part")) as file:
            return max(sum(1 for _ in file) - 1, 0)  # without the header
    except FileNotFoundError:
        return 0


def until(folder, run, count):
    """Waits for so many losses."""
    deadline = time.monotonic() + PATIENCE_S
    while losses(folder) < count:
        if run.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"the run did not come to step {count}")
        time.sleep(0.01)
    return time.monotonic()


def once(program, given, data):
    """Seconds to the first step, milliseconds of a step; sockets and memory of each process."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "run.yaml")
        with open(file, "w") as text:
            text.write(RUN_FILE.format(root=ROOT, stages=given.processes // data, data=data))
        began = time.monotonic()
        run = subprocess.Popen(
            [program, "run", file, "--processes", str(given.processes), "--out", os.path.join(folder, "out")],
            stdout=subprocess.DEVNULL,
        )
        try:
            first = until(folder, run, 1)
            last = until(folder, run, given.steps + 1)
            processes = sorted(children(run.pid), key=rank_of)
            held = [sockets(p) for p in processes], [memory_mib(p) for p in processes]
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait()
        return first - began, (last - first) / given.steps * 1e3, *held


def measure(programs, given, data):
    """Prints a line for each program; returns their times, to the first step and of a step, and memory of process 0."""
    rounds = [[once(program, given, data) for program in programs] for _ in range(given.rounds)]
    times = []
    for i, program in enumerate(programs):
        first, step = (statistics.median(one[i][k] for one in rounds) for k in (0, 1))
        held = rounds[-1][i][2:]
        said = "   ".join(
            f"{name} {statistics.mean(of):.1f}, most {max(of):.1f}" for name, of in zip(("sockets", "MiB"), held)
        )
        ratio = held[1][0] / statistics.median(held[1])
        print(
            f"data {data:3}   first step {first:6.2f} s   a step {step:8.1f} ms   {said}, "
            f"process 0 {held[1][0]:.1f}: {ratio:.2f} of the median   {os.path.relpath(program)}"
        )
        times.append((first, step, ratio))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--data", default="1,32")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stringline", default=os.path.join(ROOT, "build/release/stringline"))
    parser.add_argument("--against")
    parser.add_argument("--most-s", type=float)
    parser.add_argument("--most-ratio", type=float)
    given = parser.parse_args()
    programs = [given.stringline] + ([given.against] if given.against else [])
    print(
        f"{given.processes} processes, {given.rounds} rounds; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    beyond = False
    for data in map(int, given.data.split(",")):
        times = measure(programs, given, data)
        beyond |= given.most_s is not None and times[0][0] > given.most_s
        beyond |= given.most_ratio is not None and times[0][2] > given.most_ratio
        if given.against:
            first, step = (times[1][k] / times[0][k] for k in (0, 1))
            print(
                f"data {data:3}   the other takes {first:.2f} times as long to the first step, "
                f"and {step:.2f} times for a step"
            )
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()
