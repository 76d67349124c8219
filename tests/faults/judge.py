"""Faults of real runs, in every phase: each is judged, and becomes a line of a table.

A run of a very small model is started, something is done to one of its processes, and the judge asks:
do all end within a limit, with the right status and one same message that blames the right process,
is every file whole, and are the losses, after the run has gone on, been resumed or started again,
those of an unharmed run of one process, to the bit? judge_runs.py has the runs, judge_faults.py the
faults and what follows from each.

    judge.py TOOL FOLDER --csv FILE [--faults N] [--saves N] [--seed S] [--jobs J] [--page FILE]
             [--only TEXT] [--mutant]

It ends with 1 if a fault was judged wrong. With --mutant it blames another process, and must end
with 1.
"""

import argparse
import concurrent.futures
import csv
import os
import pathlib
import random
import statistics
import sys
import time
import traceback

from judge_faults import KINDS, PHASES, SAVES, Case
from judge_runs import SHAPES, Truths

FIELDS = ["fault", "start", "phase", "shape", "processes", "whom", "right", "seconds", "wrong", "said"]
STARTS = {"each": "", "parent": ", under a parent", "restarts": ", --restarts", "heal": ", heal"}


def row(cells):
    return "| " + " | ".join(cells) + " |\n"


def header(cells):
    return row(cells) + "|---" * len(cells) + "|\n"


def count(lines):
    """ "12", or "11 of 12" if one was judged wrong."""
    right = sum(line["right"] == "yes" for line in lines)
    return "" if not lines else str(right) if right == len(lines) else f"{right} of {len(lines)}"


def summary(lines):
    """How many, how soon, and the shortest of what was said: others list more ranks and messages."""
    took = [float(line["seconds"]) for line in lines if line["seconds"]]
    times = [f"{statistics.median(took):.2f} s", f"{max(took):.2f} s"] if took else ["", ""]
    said = min((line["said"] for line in lines if line["said"]), key=len, default="")
    right = sum(line["right"] == "yes" for line in lines)
    return [str(len(lines)), str(right), *times, said.replace("|", "/")[:170]]


def crossed(by_fault, columns, column_of):
    """A row for each fault, with a number for each phase or shape."""
    text = header(["judged right", *columns])
    for fault, lines in by_fault.items():
        cells = [count([line for line in lines if column_of(line) == column]) for column in columns]
        text += row([fault, *cells])
    return text


def write_page(page, table):
    """Three tables: what was said of each fault, faults by phase, and faults by shape."""
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    lines.sort(key=lambda line: (list(STARTS).index(line["start"]), line["fault"]))
    by_fault = {}
    for line in lines:
        by_fault.setdefault(line["fault"] + STARTS[line["start"]], []).append(line)
    text = header(["what was done", "faults", "right", "median", "most", "an example of what was said"])
    for fault, found in by_fault.items():
        text += row([fault, *summary(found)])
    text += row(["all", *summary(lines)[:2], "", "", ""])
    known = {line["phase"] for line in lines}
    phases = [phase for phase in ("connect", *PHASES) if phase in known]
    text += "\n" + crossed(by_fault, phases, lambda line: line["phase"])

    def shape(line):
        return f"{line['shape'].split(',')[0]} {line['processes']}"

    order = [f"{one.name.split(',')[0]} {one.processes}" for one in SHAPES]
    shapes = sorted({shape(line) for line in lines if line["shape"]}, key=order.index)
    page.write_text(text + "\n" + crossed(by_fault, shapes, shape))


class Judge:
    """Cases in a pool of threads, each with a folder of its own below `root`."""

    def __init__(self, asked):
        self.asked = asked
        self.tool = asked.tool.resolve()
        self.source = pathlib.Path(__file__).resolve().parents[2]
        self.root = asked.folder.resolve() / f"judge-{os.getpid()}"
        self.truths = Truths(self.tool, self.source, self.root)
        self.wrong, self.over = 0, 0

    def kinds(self, sort):
        known = KINDS if sort == "fault" else SAVES
        kinds = [kind for kind in known for _ in range(kind.weight)]
        only = self.asked.only
        kinds = [kind for kind in kinds if only in f"{kind.fault} {kind.phase} {kind.start}"]
        random.Random(self.asked.seed).shuffle(kinds)
        return kinds

    def one(self, kind, sort, number):
        chance = random.Random(f"{self.asked.seed} {sort} {number}")
        folder = self.root / f"{sort}-{number}"
        try:
            case = Case(self.tool, self.source, folder, self.truths, kind, chance, self.asked.mutant)
            line = case.judge()
            if line is None and os.environ.get("JUDGE_OVER"):
                print("over:", kind, case.run.shape.name, case.run.count, flush=True)
            return line
        except Exception:
            traceback.print_exc()
            where = [kind.fault, kind.start, kind.phase, "", 0, ""]
            return [*where, "no", "", f"the judge failed: {sys.exc_info()[1]}", ""]

    def run(self, sort, wanted, table, flush):
        """Cases until so many were judged; some runs are over before their fault."""
        kinds, number, done, running = self.kinds(sort), 0, 0, set()
        with concurrent.futures.ThreadPoolExecutor(self.asked.jobs) as pool:
            while kinds and (done < wanted or running):
                while len(running) < min(self.asked.jobs, wanted - done):
                    running.add(pool.submit(self.one, kinds[number % len(kinds)], sort, number))
                    number += 1
                if not running:
                    break
                first = concurrent.futures.FIRST_COMPLETED
                ended, running = concurrent.futures.wait(running, return_when=first)
                for line in [case.result() for case in ended]:
                    done += self.note(line, table)
                    if line is not None and done % 50 == 0:
                        flush()
                        print(f"{sort}: {done} of {wanted}, {self.wrong} wrong", flush=True)

    def note(self, line, table):
        """Returns 1 if the case counts."""
        if line is None:
            self.over += 1
            return 0
        table.writerow(line)
        if line[6] == "no":
            self.wrong += 1
            print(*line[:6], line[8], flush=True)
        return 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, help="also a summary, in Markdown")
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--saves", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--only", default="", help="faults whose name, phase and start hold this text")
    parser.add_argument("--mutant", action="store_true")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    judge = Judge(asked)
    with asked.csv.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(FIELDS)
        judge.run("fault", asked.faults, table, file.flush)
        judge.run("save", asked.saves, table, file.flush)
    if asked.page:
        write_page(asked.page, asked.csv)
    print(f"{judge.wrong} wrong; {judge.over} runs were over before their fault")
    return 1 if judge.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
