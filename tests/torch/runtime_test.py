"""Runs files that stringline exports in torch's own pipeline runtime, on CPU processes (gloo), and
compares every gradient with that of the model run in one piece.

    runtime_test.py STRINGLINE SOURCES

STRINGLINE is the tool, SOURCES the top of the repository. The exit status is 77, with one line that
says why, where torch is missing or too old: ctest counts that as skipped.
"""

import os
import subprocess
import sys
import tempfile

import rank_group
import runtime

SECONDS = 60  # after which a job counts as hanging

# schedule, P, M, stages in all
CASES = [
    ("gpipe", 2, 4, 2),
    ("1f1b", 2, 4, 2),
    ("zb_h1", 4, 6, 4),
    ("interleaved", 2, 4, 4),
    ("looped_bfs", 4, 4, 8),
    ("interleaved_zb", 4, 8, 8),
    ("zb_v", 2, 5, 4),
    ("dualpipe_v", 4, 8, 8),
]


def export_job(tool, folder, case, form, csv_format, scratch):
    schedule, ranks, microbatches, stages = case
    path = os.path.join(scratch, f"{schedule}_{form}.csv")
    subprocess.run(
        [tool, "export", os.path.join(folder, f"{schedule}.sched"), f"P={ranks}",
         f"M={microbatches}", "--to", form, "--out", path],
        check=True, timeout=60,
    )
    return {"name": f"{schedule} P={ranks} M={microbatches}, {form}", "path": path,
            "format": csv_format, "stages": stages, "microbatches": microbatches,
            "expected": rank_group.RIGHT}


def without_reductions(job, scratch):
    """The same file without its REDUCE_GRADs: torch runs it, and the gradients are wrong."""
    path = os.path.join(scratch, "without_reductions.csv")
    with open(job["path"], newline="") as file:
        rows = [line.rstrip("\r\n").split(",") for line in file]
    with open(path, "w", newline="") as file:
        for row in rows:
            file.write(",".join(cell for cell in row if "REDUCE_GRAD" not in cell) + "\r\n")
    name = job["name"] + ", without REDUCE_GRAD: off, as it must be"
    return dict(job, path=path, name=name, expected=rank_group.WRONG)


def swapped_job(tool, sources):
    """Torch's own file with deferred receives, in which messages are swapped: torch runs it to the
    end, and the gradients are wrong. The linter says so without running anything."""
    path = os.path.join(sources, "tests/golden/torch/zbvzerobubble_p4_v2_m16_deferred.csv")
    lint = subprocess.run([tool, "lint", path], stdout=subprocess.PIPE, timeout=60)
    if lint.returncode != 1 or b"meets" not in lint.stdout:
        sys.exit("FAILED: stringline lint finds no swapped messages in " + path)
    return {"name": "zbv P=4 M=16, torch's deferred receives: off, as it must be", "path": path,
            "format": "compute_comms", "stages": 8, "microbatches": 16,
            "expected": rank_group.WRONG}


def run_jobs(ranks, jobs):
    good = True
    with rank_group.RankGroup(ranks) as group:
        for job in jobs:
            outcome, seen = group.run(job, SECONDS)
            passed = outcome == job["expected"]
            good = good and passed
            verdict = "ok" if passed else f"FAILED, {outcome}, {seen}"
            print(f"{verdict}: {job['name']}", flush=True)
    return good


def main():
    tool, sources = sys.argv[1:3]
    torch, _, schedules = runtime.load_torch()
    print("torch", torch.__version__, flush=True)
    comms = runtime.comms_form(torch, schedules)
    forms = [("torch-compute", "compute_only"), (comms, "compute_comms")]
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        for ranks in sorted({case[1] for case in CASES}):
            jobs = [
                export_job(tool, os.path.join(sources, "schedules"), case, form, csv_format, scratch)
                for case in CASES if case[1] == ranks
                for form, csv_format in forms
            ]
            if ranks == 2:
                jobs.append(without_reductions(jobs[-1], scratch))
            if ranks == 4 and comms == "torch-comms":
                jobs.append(swapped_job(tool, sources))
            good = run_jobs(ranks, jobs) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
