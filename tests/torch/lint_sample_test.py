"""A sample of files: does torch's runtime do with each what `stringline lint` predicts?

    lint_sample_test.py STRINGLINE SOURCES [--seed N] [--runs N]

Files are made by torch's own schedule classes, with odd numbers of ranks, stages and microbatches;
most are changed in one place (changes.py). The linter gives its verdict, torch's runtime runs the
file on CPU processes (gloo), and the gradients are compared with those of the model in one piece. A
file without findings has right gradients; a file with findings has wrong gradients, stops with an
error or hangs. Files with findings about NCCL's queues, which gloo does not have, may be right
here, and files that are wrong with FSDP only are not run. A quarter of the runs are exports of the
library's schedules, which all have to be right.

Prints a line per unexpected run, with the file; then a table. The exit status is 77 without torch.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import changes
import rank_group
import raw_file
import torch_orders
import whole_model

SECONDS = 60  # limit after which a job that has to be right counts as hanging
HANG_SECONDS = 10  # the same for any other, which need not end
HANGS = 3  # after so many, files with a predicted deadlock are not run any more

RANKS = (2, 3, 4, 5)
STAGES = (1, 2, 3)  # on a rank
MICROBATCHES = range(2, 14)

# Lint's verdict, in a word, and the possible ends of torch's runs.
GOOD, SWAPPED, STUCK, BROKEN, NCCL, FSDP = "ok", "swapped", "stuck", "broken", "nccl", "fsdp"
MEANINGS = {
    GOOD: "nothing is wrong",
    SWAPPED: "messages are swapped or missing",
    STUCK: "ranks wait for each other",
    BROKEN: "something is missing, twice or too early",
    NCCL: "hangs where messages share a communicator",
}
NOT_RIGHT = (rank_group.WRONG, rank_group.STOPPED, rank_group.HANGS)
ENDS = {
    GOOD: (rank_group.RIGHT,), NCCL: (rank_group.RIGHT,), SWAPPED: NOT_RIGHT, BROKEN: NOT_RIGHT,
    STUCK: (rank_group.STOPPED, rank_group.HANGS),
}


def word_of(finding):
    code, message = finding["code"], finding["message"]
    if code == "torch-runtime":
        if "FSDP torch stops here" in message:
            return FSDP
        if "never ends where" in message:
            return STUCK if "of one direction" in message else NCCL
        return BROKEN
    if code == "collectives":
        return FSDP if "shard" in message else BROKEN
    return {"matching": SWAPPED, "progress": STUCK}.get(code, BROKEN)


def lint(tool, path):
    """The gravest word, and the messages."""
    answer = subprocess.run(
        [tool, "lint", path, "--json"], stdout=subprocess.PIPE, timeout=60, text=True
    )
    report = json.loads(answer.stdout)
    if "error" in report:
        sys.exit(f"FAILED: lint {path}: {report['error']}")
    words = [word_of(finding) for finding in report["findings"]]
    if report["ok"] != (not words):
        sys.exit(f"FAILED: lint {path}: ok is {report['ok']} with {len(words)} findings")
    gravest = next((w for w in (STUCK, SWAPPED, BROKEN, NCCL, FSDP) if w in words), GOOD)
    return gravest, [finding["message"] for finding in report["findings"]]


def draw_file(generator, schedules, change, scratch):
    """A file of torch's own, perhaps with a change; None if torch or the change cannot make the
    file."""
    name, fixed = generator.choice(torch_orders.CLASSES)
    ranks, microbatches = generator.choice(RANKS), generator.choice(MICROBATCHES)
    stages = fixed or generator.choice(STAGES)
    form = generator.choice(
        (torch_orders.COMPUTE, torch_orders.COMMS, torch_orders.COMMS, torch_orders.DEFERRED)
    )
    try:
        rows = torch_orders.rows(schedules, name, form, ranks, stages, microbatches)
    except (ValueError, AssertionError):
        return None
    done = change(generator, rows) if change else "as it is"
    if done is None:
        return None
    path = os.path.join(scratch, "file.csv")
    with open(path, "w", newline="") as file:
        for row in rows:
            file.write(",".join(row) + "\r\n")
    return {"name": f"{name} P={ranks} V={stages} M={microbatches}, {form} form: {done}",
            "path": path, "ranks": ranks, "stages": ranks * stages, "microbatches": microbatches,
            "change": change.__name__ if change else "unchanged",
            "format": "compute_only" if form == torch_orders.COMPUTE else "compute_comms"}


def draw_export(generator, tool, sources, scratch):
    """An export of a library schedule; None if the schedule or torch does not take these
    numbers."""
    folder = os.path.join(sources, "schedules")
    library = sorted(name for name in os.listdir(folder) if name.endswith(".sched"))
    name, ranks = generator.choice(library), generator.choice(RANKS)
    microbatches = generator.choice(MICROBATCHES)
    form, csv_format = generator.choice(
        (("torch-compute", "compute_only"), ("torch-comms", "compute_comms"))
    )
    path = os.path.join(scratch, "file.csv")
    answer = subprocess.run(
        [tool, "export", os.path.join(folder, name), f"P={ranks}",
         f"M={microbatches}", "--to", form, "--out", path, "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, text=True,
    )
    if answer.returncode != 0:
        codes = {finding["code"] for finding in json.loads(answer.stdout)["findings"]}
        if codes and codes <= {"require", "torch-export"}:
            return None
        sys.exit(f"FAILED: export of {name} P={ranks} M={microbatches}: {answer.stdout}")
    with open(path) as file:
        text = file.read()
    named = [raw_file.stages_of_rank(text, rank) for rank in range(ranks)]
    return {"name": f"{name} P={ranks} M={microbatches}, {form}", "path": path, "ranks": ranks,
            "stages": sum(map(len, named)), "microbatches": microbatches, "change": "exported",
            "format": csv_format}


def draw(generator, given, schedules, scratch):
    """A job: a quarter are exports, another quarter are torch's own files, the others are
    changed."""
    way = generator.randrange(4)
    change = generator.choice(changes.CHANGES) if way >= 2 else None
    job = None
    while job is None:
        if way == 0:
            job = draw_export(generator, given.tool, given.sources, scratch)
        else:
            job = draw_file(generator, schedules, change, scratch)
    return job


def known_files(sources):
    """Faults that no change makes often: a wait too early, messages swapped by torch's own deferred
    receives, and gradients without a reduction."""
    files = [
        ("tests/golden/lint/waits_hang.csv", 2, 2, 3),
        ("tests/golden/torch/zbvzerobubble_p4_v2_m16_deferred.csv", 4, 8, 16),
        ("examples/05_torch/no_reduce_grad.csv", 2, 2, 3),
    ]
    return [
        {"name": path, "path": os.path.join(sources, path), "ranks": ranks, "stages": stages,
         "microbatches": microbatches, "change": "known", "format": "compute_comms"}
        for path, ranks, stages, microbatches in files
    ]


class Sample:
    """Runs jobs and keeps count."""

    def __init__(self, tool):
        self.tool = tool
        self.groups = {ranks: rank_group.RankGroup(ranks, raw_file.perform) for ranks in RANKS}
        self.counts = collections.Counter()
        self.ways = collections.Counter()
        self.failures = 0

    def end(self):
        for group in self.groups.values():
            group.end()

    def runs(self):
        return sum(self.counts.values())

    def add(self, job):
        word, messages = lint(self.tool, job["path"])
        hung = self.counts[STUCK, rank_group.HANGS]
        if word == FSDP or (word == STUCK and hung >= HANGS):
            return
        seconds = SECONDS if rank_group.RIGHT in ENDS[word] else HANG_SECONDS
        outcome, seen = self.groups[job["ranks"]].run(job, seconds)
        self.counts[word, outcome] += 1
        self.ways[job["change"]] += 1
        if outcome not in ENDS[word] or (job["change"] == "exported" and word != GOOD):
            self.failures += 1
            said = "; ".join(messages) or MEANINGS[GOOD]
            print(f"FAILED: {job['name']}\n  lint: {said}\n  torch: {outcome}, {seen}")
            with open(job["path"]) as file:
                print(file.read(), flush=True)

    def print_table(self):
        print("ways:", ", ".join(f"{way} {n}" for way, n in sorted(self.ways.items())))
        print(f"{'runs':>5}  {'lint':42}  torch")
        for (word, outcome), n in sorted(self.counts.items()):
            print(f"{n:5}  {MEANINGS[word]:42}  {outcome}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("tool")
    arguments.add_argument("sources")
    arguments.add_argument("--seed", type=int, default=9)
    arguments.add_argument("--runs", type=int, default=100)
    given = arguments.parse_args()
    torch, _, schedules = whole_model.load_torch()
    if not hasattr(schedules, "WAIT_SEND_F"):
        whole_model.skip(f"torch {torch.__version__} has no waits for sends")
    print(f"torch {torch.__version__}, seed {given.seed}, {given.runs} runs", flush=True)
    generator = random.Random(given.seed)
    sample = Sample(given.tool)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for job in known_files(given.sources):
                sample.add(job)
            while sample.runs() < given.runs:
                job = draw(generator, given, schedules, scratch)
                sample.add(job)
    finally:
        sample.end()
    sample.print_table()
    print(f"{sample.failures} of {sample.runs()} not as they must be, "
          f"{time.monotonic() - began:.0f} s")
    sys.exit(1 if sample.failures else 0)


if __name__ == "__main__":
    main()
