"""Traces of torch's profiler of its pipeline runtime on gloo, imported.

    trace_test.py STRINGLINE SOURCES

Every action is there, in the order of the schedule and within the trace; the timeline compares with
the simulated plan, and costs calibrated from it predict the step. Skipped (77) without torch.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile

import traced_step
import whole_model

STEPS = 3
# schedule, parameters, stages in all; the largest error of a prediction, as a share of the step.
# Torch runs the two actions of a pair in turn, and waits between them.
CASES = [
    ("1f1b", {"P": 2, "M": 4}, 2, 0.25),
    ("interleaved", {"P": 2, "M": 4}, 4, 0.25),
    ("1f1b", {"P": 4, "M": 6}, 4, 0.25),
    ("zb_v", {"P": 4, "M": 8}, 8, 0.25),
    ("dualpipe_v", {"P": 4, "M": 8}, 8, 0.6),
]


def traces_of(tool, sources, case, scratch, steps):
    """The folder with the traces, and the arguments that name the schedule."""
    schedule, parameters, stages, _ = case
    folder = os.path.join(scratch, f"{schedule}_{parameters['P']}_{steps}")
    csv = folder + ".csv"
    named = [os.path.join(sources, "schedules", f"{schedule}.sched")]
    named += [f"{name}={value}" for name, value in parameters.items()]
    subprocess.run([tool, "export", *named, "--to", "torch-compute", "--out", csv], check=True)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "traced_step.py")
    subprocess.run(
        [sys.executable, program, csv, str(stages), str(parameters["M"]), str(steps), folder],
        check=True, timeout=120, stderr=subprocess.DEVNULL,
    )
    return folder, named


def answer(tool, *words):
    ran = subprocess.run([tool, *words, "--json"], stdout=subprocess.PIPE, timeout=60)
    found = json.loads(ran.stdout)
    assert ran.returncode == 0 and found["ok"], found
    return found


def computed(ranks):
    """Computations, in order, in the output of `plan --json`."""
    return [[group for group in rank if "_" not in group and "SHARD" not in group]
            for rank in ranks]


def groups_of(events):
    """Computations of a rank of a shown timeline, in the form of plans, with their times."""
    groups = []
    for event in events:
        if "_" in event["action"] or "SHARD" in event["action"]:
            continue
        if event["joined"]:
            groups[-1][0] += "&" + event["action"]
        else:
            groups.append([event["action"], event["start_us"], event["end_us"]])
    return groups


def length_of(path):
    """From the first event of a trace to the last, in microseconds."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    return max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)


def check_step(tool, folder, named, step):
    """Returns how far the prediction is off, as a share of the step."""
    timeline = f"{folder}_{step}.timeline"
    imported = answer(tool, "import", folder, "--step", str(step), "--out", timeline)
    assert imported["steps"] == list(range(1, STEPS + 1)), imported["steps"]
    assert imported["hosts"] == 1 and imported["clocks_off_us"] == 0
    plan = answer(tool, "plan", *named)
    shown = answer(tool, "show", timeline)
    longest = max(length_of(rank["trace"]) for rank in imported["ranks"])
    assert shown["makespan_us"] < longest, (shown["makespan_us"], longest)
    for rank, (events, expected) in enumerate(zip(shown["ranks"], computed(plan["ranks"]))):
        groups = groups_of(events)
        assert [group[0] for group in groups] == expected, (rank, groups, expected)
        assert groups[0][1] >= 0
        for before, after in zip(groups, groups[1:]):
            assert before[2] <= after[1], (rank, before, after)
        for name, start, end in groups:
            # At least the time of its sleep; torch leaves the backward of the first stage to W.
            backwards = name.count("B") + (name.count("I") if name[0] != "0" else 0)
            least = traced_step.FORWARD_S * name.count("F") + traced_step.BACKWARD_S * backwards
            assert end - start > 0.99e6 * least, (rank, name, end - start, least)
    costs = timeline + ".yaml"
    answer(tool, "calibrate", timeline, "--out", costs)
    words = ["compare", *named, "--costs", costs, "--", timeline]
    compared = answer(tool, *words)
    groups = sum(group.count("&") + 1 for rank in computed(plan["ranks"]) for group in rank)
    assert compared["matched"] == groups, (compared["matched"], groups)
    assert compared["only_first"] == compared["only_second"] == 0
    assert answer(tool, "report", timeline)["critical_us"]
    return abs(compared["first_makespan_us"] / compared["second_makespan_us"] - 1)


def main(tool, sources):
    whole_model.load_torch()
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            folder, named = traces_of(tool, sources, case, scratch, STEPS)
            # Disturbances of the machine leave at least one step alone.
            off = min(check_step(tool, folder, named, step) for step in range(1, STEPS + 1))
            verdict = "ok" if off < case[3] else "FAILED"
            good = good and off < case[3]
            print(f"{verdict}: {case[0]} {case[1]}: predicted {100 * off:.1f} % off", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
