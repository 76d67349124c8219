"""Traces of torch's Schedule1F1B and ScheduleGPipe, which write no PP: ranges, imported.

    unnamed_trace_test.py STRINGLINE SOURCES

The test puts ranges of its own around every forward and backward (unnamed_step.py), and takes them
out of the traces before the import. The imported step has the order of the library's schedule of
that name, which the ranges have, too, and their times. Skipped (77) without torch.
"""

import json
import os
import subprocess
import sys
import tempfile

import trace_test
import traced_step
import whole_model

STEPS = 2
# schedule, ranks, microbatches, the profiler's options
CASES = [
    ("1f1b", 2, 4, "plain"),
    ("1f1b", 2, 4, "stack"),
    ("1f1b", 4, 6, "plain"),
    ("1f1b", 3, 5, "stack"),
    ("gpipe", 2, 4, "plain"),
    ("gpipe", 3, 5, "stack"),
]
# The range begins and ends in Python, an operator in C++; a busy machine stops some rank between them.
NEAR_US, NEAR_SHARE = 2_000, 0.9


def traced(case, folder):
    """Makes the traces, without the test's ranges; returns these, by rank and step."""
    schedule, ranks, microbatches, options = case
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unnamed_step.py")
    subprocess.run([sys.executable, program, schedule, str(ranks), str(microbatches), str(STEPS),
                    options, folder], check=True, timeout=300, stderr=subprocess.DEVNULL)
    truths = []
    for rank in range(ranks):
        path = os.path.join(folder, f"rank{rank}.json")
        with open(path) as file:
            trace = json.load(file)
        kept = [e for e in trace["traceEvents"] if not e["name"].startswith("TRUE:")]
        steps = {e["name"].partition("#")[2]: e for e in kept
                 if e["name"].startswith("ProfilerStep#") and e["ph"] == "X"}
        truths.append({int(number): [
            (e["name"][len("TRUE:"):], e["ts"], e["dur"])
            for e in sorted(trace["traceEvents"], key=lambda event: event.get("ts", 0))
            if e["name"].startswith("TRUE:") and step["ts"] <= e["ts"] < step["ts"] + step["dur"]]
            for number, step in steps.items()})
        trace["traceEvents"] = kept
        with open(path, "w") as file:
            json.dump(trace, file)
    return truths


def without_steps(folder, other):
    """The traces without the ranges of steps."""
    os.makedirs(other)
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            trace = json.load(file)
        trace["traceEvents"] = [e for e in trace["traceEvents"]
                                if not e["name"].startswith("ProfilerStep#")]
        with open(os.path.join(other, name), "w") as file:
            json.dump(trace, file)


def computed(tool, folder, step, scratch):
    """By rank, the computations of the imported step: name, start and length."""
    timeline = os.path.join(scratch, "seen.timeline")
    imported = trace_test.answer(tool, "import", folder, "--step", str(step), "--out", timeline)
    shown = trace_test.answer(tool, "show", timeline)
    return imported, [[(name, start, end - start) for name, start, end in
                       trace_test.groups_of(events)] for events in shown["ranks"]]


def check_case(tool, sources, case, scratch):
    schedule, ranks, microbatches, options = case
    title = f"{schedule} P={ranks} M={microbatches} {options}"
    folder = os.path.join(scratch, title.replace(" ", "_"))
    truths = traced(case, folder)
    path = os.path.join(sources, "schedules", f"{schedule}.sched")
    plan = trace_test.answer(tool, "plan", path, f"P={ranks}", f"M={microbatches}")["ranks"]
    off = []
    for step in range(1, STEPS + 1):
        imported, found = computed(tool, folder, step, scratch)
        assert imported["steps"] == list(range(1, STEPS + 1)), imported["steps"]
        first = min(truth[step][0][1] for truth in truths)
        for rank, (events, truth) in enumerate(zip(found, truths)):
            names = [name for name, _, _ in truth[step]]
            assert names == plan[rank], (title, names, plan[rank])
            assert [name for name, _, _ in events] == names, (title, rank, events, names)
            for (name, start, length), (_, at, true_length) in zip(events, truth[step]):
                off.append(abs(length - true_length))
                off.append(abs(start - (at - first)))
                least = traced_step.BACKWARD_S if "B" in name else traced_step.FORWARD_S
                assert length > 0.99e6 * least, (title, name, length)
    uncounted = folder + "_uncounted"
    without_steps(folder, uncounted)
    for step in range(STEPS):
        imported, found = computed(tool, uncounted, step, scratch)
        assert imported["steps"] == list(range(STEPS)), (title, imported["steps"])
        names = [[name for name, _, _ in truth[step + 1]] for truth in truths]
        assert [[name for name, _, _ in events] for events in found] == names, title
    off.sort()
    usual = off[int(NEAR_SHARE * len(off))]
    good = usual <= NEAR_US
    print(f"{'ok' if good else 'FAILED'}: {title}: {len(off)} times, nine in ten within "
          f"{usual / 1000:.3f} ms, all within {off[-1] / 1000:.3f} ms", flush=True)
    return good


def main(tool, sources):
    whole_model.load_torch()
    with tempfile.TemporaryDirectory() as scratch:
        good = [check_case(tool, sources, case, scratch) for case in CASES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
