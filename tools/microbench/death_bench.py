#!/usr/bin/env python3
"""How long a run of several processes goes on after one of them has died, or has stopped.

    tools/microbench/death_bench.py [--repeats 10] [--processes 4] [--timeout-s 2]

Trains a small GPT in so many processes of this host, and once some steps are done kills one of them
(SIGKILL; another one each time, process 0 among them) or stops one (SIGSTOP). Says how long it then
takes until all others have ended, each with an error, and whether all said the same. Who dies is
noticed by its closed connections; who is stopped is noticed when somebody has waited for it for
`timeout`, and then process 0 asks everybody and waits a second for answers.
"""

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS_BEFORE = 10
PATIENCE_S = 120  # for runs that take a second on an idle machine

RUN_FILE = """schedule: {{file: {root}/schedules/1f1b.sched, P: {ranks}, M: 8}}
model: {{layers: {ranks}, width: 32, heads: 2, context: 32}}
data: {{text: {root}/schedlang/LANGUAGE.md, microbatch: 2}}
train: {{steps: 1000000, learning_rate: 1e-3, threads: 1}}
device: cpu
timeout: {timeout}s
"""


def start(given, folder, process, port):
    """A process of the run; its standard error goes into a file of the folder."""
    errors = open(os.path.join(folder, f"errors_{process}.txt"), "w")
    return subprocess.Popen(
        [given.stringline, "run", os.path.join(folder, "run.yaml"), "--out",
         os.path.join(folder, "out"), "--rank", str(process), "--ranks", str(given.processes),
         "--local-rank", str(process), "--master", f"127.0.0.1:{port}", "--run-id", folder],
        stdout=subprocess.DEVNULL, stderr=errors)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_steps(folder, processes):
    losses = os.path.join(folder, "out", "losses.csv.part")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and all(p.poll() is None for p in processes):
        if os.path.exists(losses):
            with open(losses) as file:
                if sum(1 for _ in file) > STEPS_BEFORE:
                    return
        time.sleep(0.005)
    said = {message(folder, p) for p in range(len(processes))}
    sys.exit(f"the run did not get to step {STEPS_BEFORE}: {said}")


def message(folder, process):
    """The last message, without the places of its losses and its flight record."""
    with open(os.path.join(folder, f"errors_{process}.txt")) as file:
        text = [line for line in file if line.startswith("stringline: ")]
    said = text[-1].strip() if text else ""
    return said.split("; what the ranks did last")[0].split("; " + folder)[0]


def once(given, victim, number):
    """Seconds from the signal until the last of the others has ended; their messages."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "run.yaml"), "w") as file:
            file.write(RUN_FILE.format(root=ROOT, ranks=given.processes, timeout=given.timeout_s))
        port = free_port()
        processes = [start(given, folder, p, port) for p in range(given.processes)]
        try:
            wait_for_steps(folder, processes)
            os.kill(processes[victim].pid, number)
            began = time.monotonic()
            others = [p for p in range(given.processes) if p != victim]
            for other in others:
                processes[other].wait(timeout=PATIENCE_S)
            took = time.monotonic() - began
            if any(processes[other].returncode == 0 for other in others):
                sys.exit("a process ended as if nothing had happened")
            return took, {message(folder, other) for other in others}
        finally:
            for process in processes:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--timeout-s", type=int, default=2)
    parser.add_argument("--stringline", default=os.path.join(ROOT, "build/release/stringline"))
    given = parser.parse_args()
    print(f"{given.processes} processes, {given.repeats} times each; load {os.getloadavg()[0]:.1f} "
          f"on {os.cpu_count()} cores; timeout {given.timeout_s} s")
    for name, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        took, agreed, last = [], 0, ""
        for repeat in range(given.repeats):
            seconds, said = once(given, repeat % given.processes, number)
            took.append(seconds)
            agreed += len(said) == 1
            last = min(said)
        print(f"{name:8} median {statistics.median(took) * 1e3:8.1f} ms   least "
              f"{min(took) * 1e3:8.1f} ms   most {max(took) * 1e3:8.1f} ms   all said the same in "
              f"{agreed} of {given.repeats}")
        print(f"         such as: {last}")
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
