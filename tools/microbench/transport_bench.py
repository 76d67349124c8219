#!/usr/bin/env python3
"""Collectives between processes: over TCP, over MPI, of gloo, and of MPI itself, in one table.

    tools/microbench/transport_bench.py [--rounds 5] [--processes 2,4] [--most BYTES] [--torch PYTHON]

Every program measures each operation and size in so many processes of this host; the programs take
turns, and the table has the median of the rounds. Without --torch there is no gloo. Ours add up in
the order of the members, those of gloo and of MPI in any order.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "build/release/transport_bench")
LIMIT_S = 300
SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26]
BYTES_OF_BATCH = 1 << 24  # as in transport_bench.cc
MOST_CALLS = 40
BATCHES = 7


def gloo_process(most):
    """Measures gloo in one process of several; run by torch's Python."""
    import time

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    source = torch.ones(SIZES[-1] // 4)
    target = torch.ones(SIZES[-1] // 4)
    operations = {
        "all-reduce": lambda n: dist.all_reduce(target[:n]),
        "reduce-scatter": lambda n: dist.reduce_scatter_tensor(target[: n // world], source[:n]),
        "all-to-all": lambda n: dist.all_to_all_single(target[:n], source[:n]),
    }
    for name, operation in operations.items():
        for size in SIZES:
            if size > most:
                break
            calls = min(max(BYTES_OF_BATCH // size, 1), MOST_CALLS)
            try:
                operation(size // 4)
            except RuntimeError:
                break  # this gloo does not have it
            dist.barrier()
            operation(size // 4)
            seconds = []
            for _ in range(BATCHES):
                begin = time.perf_counter()
                for _ in range(calls):
                    operation(size // 4)
                seconds.append((time.perf_counter() - begin) / calls)
            if dist.get_rank() == 0:
                print(name, size, statistics.median(seconds), flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def by_hand(command, processes):
    """The standard output of process 0 of so many, which know each other by the environment."""
    port = str(free_port())
    started = []
    for rank in range(processes):
        environment = dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(processes), MASTER_ADDR="127.0.0.1", MASTER_PORT=port
        )
        started.append(
            subprocess.Popen(
                [part.replace("PORT", port) for part in command], env=environment, stdout=subprocess.PIPE, text=True
            )
        )
    outputs = [process.communicate(timeout=LIMIT_S)[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"{' '.join(command)} failed")
    return outputs[0]


def by_mpirun(kind, most, processes):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if kind == "theirs":  # the default, which the session would change
        environment["OMPI_MCA_btl_vader_eager_limit"] = "4096"
    return subprocess.run(
        ["mpirun", "--oversubscribe", "-n", str(processes), BENCH, kind, str(most)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    ).stdout


def size_name(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def time_name(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", default="2,4")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size in bytes")
    parser.add_argument("--torch", help="a Python with torch")
    parser.add_argument("--gloo-process", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.gloo_process:
        return gloo_process(given.most)
    for processes in map(int, given.processes.split(",")):
        programs = {
            "tcp": lambda n: by_hand([BENCH, "tcp", str(given.most), "PORT"], n),
            "mpi": lambda n: by_mpirun("mpi", given.most, n),
        }
        if given.torch:
            script = [given.torch, os.path.abspath(__file__), "--gloo-process", "--most", str(given.most)]
            programs["gloo"] = lambda n, script=script: by_hand(script, n)
        programs["MPI's own"] = lambda n: by_mpirun("theirs", given.most, n)
        times = {}
        for round_ in range(given.rounds):
            for name in programs:
                for line in programs[name](processes).splitlines():
                    operation, size, seconds = line.split()
                    times.setdefault((operation, int(size), name), []).append(float(seconds))
            print(f"{processes} processes, round {round_ + 1}", file=sys.stderr, flush=True)
        print(f"\n{processes} processes\n")
        print(f"| | bytes | {' | '.join(programs)} | mpi to gloo | mpi to MPI's own |")
        print("|---" * (len(programs) + 4) + "|")
        for operation in ("all-reduce", "reduce-scatter", "all-to-all"):
            for size in (size for size in SIZES if size <= given.most):
                medians = {
                    name: statistics.median(times[operation, size, name])
                    for name in programs
                    if (operation, size, name) in times
                }
                cells = [time_name(medians[name]) if name in medians else "-" for name in programs]
                ratios = [
                    f"{medians[other] / medians['mpi']:.2f}" if other in medians else "-"
                    for other in ("gloo", "MPI's own")
                ]
                print(f"| {operation} | {size_name(size)} | {' | '.join(cells + ratios)} |", flush=True)
    return None


if __name__ == "__main__":
    main()
