"""The figures of `import` beside those of Holistic Trace Analysis (PyPI's HolisticTraceAnalysis).

    hta_test.py STRINGLINE SOURCES TRACE_WRITER

The package counts the work of GPUs, so it reads two kinds of traces:

- those that TRACE_WRITER makes of simulated steps on GPUs (kernel_figures.py: the figures of
  `report`);
- real ones of torch's pipeline runtime on gloo, in which what the host computed and what gloo did
  stands once more as kernels. When that was is found here from the trace as it is.

`tools/environments/torch/run` gives its place; the test is skipped (77) without the package:
tools/install --torch.
"""

import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

import kernel_figures
import trace_test
import whole_model

NEAR_US = 0.1  # of sums of times that are floating-point numbers there
NEAR_PERCENT = 0.0051  # of rounded figures


def json_of_hta(*words):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hta_figures.py")
    ran = subprocess.run([sys.executable, program, *words], capture_output=True,
                         timeout=300)
    if ran.returncode == whole_model.SKIPPED:
        whole_model.skip("Holistic Trace Analysis is not installed: tools/install --torch")
    if ran.returncode != 0:
        sys.exit(f"FAILED: {ran.stderr.decode()}")
    return json.loads(ran.stdout)


def figures_of_hta(folder):
    return {int(rank): row for rank, row in json_of_hta(folder).items()}


def agrees(title, ours, theirs):
    """Prints the two side by side."""
    good = len(ours) == len(theirs)
    names = [("compute_us", "compute_time(us)", NEAR_US), ("idle_us", "idle_time(us)", NEAR_US),
             ("non_compute_us", "non_compute_time(us)", NEAR_US),
             ("total_us", "kernel_time(us)", NEAR_US),
             ("overlap_percent", "comp_comm_overlap_pctg", NEAR_PERCENT)]
    for rank in ours:
        rank["overlap_percent"] = 100 * rank["overlap"]
        other = theirs[rank["rank"]]
        for mine, name, near in names:
            good = good and abs(rank[mine] - other[name]) <= near
        pairs = ", ".join(f"{mine} {rank[mine]:.3f} {other[name]:.3f}" for mine, name, _ in names)
        print(f"  {title} rank {rank['rank']}: {pairs}")
    print("ok:" if good else "FAILED:", title, flush=True)
    return good


def check_written(tool, sources, writer, scratch):
    good = True
    cases = [("1f1b", 4, 8), ("zb_v", 2, 6), ("dualpipe_v", 4, 8), ("interleaved", 4, 8)]
    for seed, (schedule, ranks, microbatches) in enumerate(cases):
        for steps in (1, 3):
            folder = os.path.join(scratch, f"{schedule}_written_{steps}")
            path = os.path.join(sources, "schedules", f"{schedule}.sched")
            subprocess.run([writer, path, str(ranks), str(microbatches), str(steps), str(seed),
                            folder], check=True, timeout=60)
            if steps == 3:  # HTA adds up the first two, we answer for one
                ours = [trace_test.answer(tool, "import", folder, "--step", str(step))["ranks"]
                        for step in (1, 2)]
                theirs = figures_of_hta(folder)
                for first, second in zip(*ours):
                    computed = first["compute_us"] + second["compute_us"]
                    other = theirs[first["rank"]]["compute_time(us)"]
                    assert abs(computed - other) <= NEAR_US, (first, second, other)
                continue
            ours = trace_test.answer(tool, "import", folder)["ranks"]
            good = agrees(f"{schedule} on GPUs", ours, figures_of_hta(folder)) and good
    return good


def with_kernels(trace):
    """The trace with the computations of ranks, and the work of gloo, as kernels."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    annotations = [event for event in events if event["cat"] == "user_annotation"]
    actions = {e["name"][3:]: e for e in annotations if e["name"].startswith("PP:")}
    gloo = [event for event in annotations if event["name"].startswith("gloo:")]

    def arrival(recv):
        """The time at which the waits for the range's requests ended."""
        if recv not in actions:
            return 0
        begin, end = actions[recv]["ts"], actions[recv]["ts"] + actions[recv]["dur"]
        return max(e["ts"] + e["dur"] for e in gloo if begin <= e["ts"] < end)

    kernels = [(e["ts"], e["ts"] + e["dur"], "ncclDevKernel_SendRecv()") for e in gloo]
    for name, event in actions.items():
        first = name.strip("(").partition(";")[0].partition(")")[0]
        stage, kind, microbatch = first[:1], first[1:2], first[2:]
        if kind not in "FBIW" or not microbatch.isdigit():
            continue
        needs = {"F": "RECV_F", "B": "RECV_B", "I": "RECV_B"}.get(kind)
        end = event["ts"] + event["dur"]
        start = max(event["ts"], arrival(f"{stage}{needs}{microbatch}"))
        kernels.append((start, end, "gemm"))
    for i, (start, end, name) in enumerate(kernels):
        trace["traceEvents"].append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start,
             "dur": end - start, "args": {"stream": 7, "correlation": 70000 + i}})
    return trace


def check_real(tool, sources, scratch):
    good = True
    for case in [case for case in trace_test.CASES if case[0] in ("1f1b", "zb_v")]:
        folder, _ = trace_test.traces_of(tool, sources, case, scratch, 1)
        ours = trace_test.answer(tool, "import", folder)["ranks"]
        copies = folder + "_kernels"
        os.makedirs(copies)
        for path in glob.glob(os.path.join(folder, "rank*")):
            with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
                trace = with_kernels(json.load(file))
            name = os.path.basename(path).removesuffix(".gz")
            with open(os.path.join(copies, name), "w") as file:
                json.dump(trace, file)
        title = f"{case[0]} P={case[1]['P']} on gloo"
        good = agrees(title, ours, figures_of_hta(copies)) and good
    return good


def main(tool, sources, writer):
    with tempfile.TemporaryDirectory() as scratch:
        good = kernel_figures.check(tool, sources, writer, scratch)
        good = check_written(tool, sources, writer, scratch) and good
        good = check_real(tool, sources, scratch) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
