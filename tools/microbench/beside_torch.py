#!/usr/bin/env python3
"""Stringline beside PyTorch: their common abilities, measured on this machine.

    tools/environments/torch/run tools/microbench/beside_torch.py [--quick] [--repeats N] [--parts NAME,…]

Builds nothing: build/release/stringline and build/release/executor_bench have to be there. Each
part puts its figures into beside/figures.json, and the page is written from all figures in this
file: so a part can be measured again alone, and `--parts ""` only writes the page (`--out FILE`
elsewhere). `--quick` leaves out the large schedules, which take torch minutes. Figures are
processor time where possible, which depends less on other programs; both sides take turns.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from beside import actions, processes, tooling, training
from beside.measure import run

SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIGURES = os.path.join(SOURCES, "tools/microbench/beside/figures.json")
PARTS = {"tooling": tooling, "actions": actions, "training": training,
         "processes": processes}


def machine():
    """In words, without names."""
    model = "a CPU"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {model}, {memory:.0f} GiB of memory"


def versions(given):
    torch = run([*given.torch, "-c", "import torch; print(torch.__version__)"], 120).out.strip()
    return {"machine": machine(), "torch": torch, "python": platform.python_version(),
            "stringline": run([given.tool, "--version"], 60).out.split()[1],
            "date": datetime.date.today().isoformat(), "load": os.getloadavg()[0]}


def page(figures):
    yield "# Beside torch"
    yield ""
    yield ("`tools/environments/torch/run tools/microbench/beside_torch.py` measures and writes this page. Processor "
           "time moves little when a machine does other work as well; time by the clock does: where "
           "more programs than cores were running, only its ratio means something, and not much.")
    yield ""
    yield "| to … | torch | stringline | torch / stringline |"
    yield "|---|---|---|---|"
    for name, part in PARTS.items():
        if name in figures:
            for row in part.headline(figures[name]["rows"]):
                yield f"| {' | '.join(row)} |"
    for name, part in PARTS.items():
        if name in figures:
            yield ""
            yield from part.page(figures[name]["rows"])
            about = figures[name]["about"]
            yield ""
            yield (f"{about['date']}, {about['machine']}; torch {about['torch']} on Python "
                   f"{about['python']}, stringline {about['stringline']}; "
                   f"{about['load']:.1f} programs were running when it began.")
    yield ""
    yield "## To repeat it"
    yield ""
    yield "```"
    yield "tools/install --torch"
    yield "cmake --preset release && cmake --build --preset release"
    yield "tools/environments/torch/run tools/microbench/beside_torch.py   # half an hour"
    yield "tools/environments/torch/run tools/microbench/beside_torch.py --quick   # without the large schedules"
    yield "```"


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", default=os.path.join(SOURCES, "tools/microbench/BESIDE_TORCH.md"))
    given = parser.parse_args()
    given.parts = [name for name in given.parts.split(",") if name]
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    binaries = os.path.join(SOURCES, "build/release")
    given = types.SimpleNamespace(
        **vars(given), sources=SOURCES, torch=[sys.executable],
        tool=f"{binaries}/stringline", executor_bench=f"{binaries}/executor_bench",
    )
    for path in (given.tool, given.executor_bench):
        if not os.path.exists(path):
            sys.exit(f"{os.path.relpath(path)} is missing: build it first")
    return given


def main():
    given = arguments()
    figures = {}
    if os.path.exists(FIGURES):
        with open(FIGURES) as file:
            figures = json.load(file)
    for name in given.parts:
        about = versions(given)
        rows = PARTS[name].measure(given)
        if rows is not None:
            figures[name] = {"about": about, "rows": rows}
        with open(FIGURES, "w") as file:
            json.dump(figures, file, indent=1)
            file.write("\n")
    with open(given.out, "w") as file:
        file.write("\n".join(page(figures)) + "\n")


if __name__ == "__main__":
    main()
