"""Runs files that stringline exports in torch's own pipeline runtime, on CPU processes (gloo), and
compares every gradient with that of the model run in one piece.

    runtime_test.py STRINGLINE SOURCES

STRINGLINE is the tool, SOURCES the top of the repository. The exit status is 77, with one line that
says why, where torch is missing or too old: ctest counts that as skipped.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile

SKIPPED = 77
WIDTH = 8  # of every layer
ROWS = 2  # of every microbatch
SECONDS = 150  # after which a run counts as hanging

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


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def load_torch():
    try:
        import torch
        import torch.distributed
        from torch.distributed.pipelining import PipelineStage, schedules
    except ImportError as error:
        skip(f"torch is not installed here ({error})")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        skip("this torch has no gloo")
    if not hasattr(schedules, "_PipelineScheduleRuntime"):
        skip(f"torch {torch.__version__} has no pipeline runtime")
    return torch, PipelineStage, schedules


def comms_form(torch, schedules):
    """The comms form that this torch reads."""
    actions = {action.value for action in schedules._ComputationType}
    if "REDUCE_GRAD" not in actions:
        skip(f"torch {torch.__version__} is too old: it knows no REDUCE_GRAD")
    return "torch-comms" if "WAIT_SEND_F" in actions else "torch-comms-2.14"


def layers(torch, stages):
    """One layer a stage, the same in every process."""
    torch.manual_seed(7)
    return [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(stages)
    ]


def data(torch, microbatches):
    torch.manual_seed(11)
    rows = ROWS * microbatches
    return torch.randn(rows, WIDTH), torch.randn(rows, WIDTH)


def loss(torch, output, target):
    return torch.nn.functional.mse_loss(output, target)


def gradients(modules):
    return [parameter.grad.clone() for module in modules for parameter in module.parameters()]


def expected_gradients(torch, stages, microbatches):
    """The whole model on the whole batch. A microbatch's loss is a mean over equally many rows."""
    modules = layers(torch, stages)
    x, y = data(torch, microbatches)
    loss(torch, torch.nn.Sequential(*modules)(x), y).backward()
    return [gradients([module]) for module in modules]


def stages_of_rank(text, rank):
    """The stages that the row of the rank names."""
    digits = ""
    stages = set()
    for char in text.splitlines()[rank] + ",":
        if char.isdigit():
            digits += char
            continue
        # A number that a letter follows is a stage; others are microbatches.
        if digits and char.isalpha():
            stages.add(int(digits))
        digits = ""
    return sorted(stages)


def worst_difference(torch, PipelineStage, schedules, job, rank):
    """How far the rank's gradients are from those of the whole model."""
    stages, microbatches = job["stages"], job["microbatches"]
    with open(job["path"]) as file:
        mine = stages_of_rank(file.read(), rank)
    modules = layers(torch, stages)
    local = [PipelineStage(modules[s], s, stages, torch.device("cpu")) for s in mine]
    runtime = schedules._PipelineScheduleRuntime(
        local, microbatches, loss_fn=lambda output, target: loss(torch, output, target)
    )
    runtime._load_csv(job["path"], format=job["format"])
    x, y = data(torch, microbatches)
    arguments = [x] if 0 in mine else []
    keywords = {"target": y} if stages - 1 in mine else {}
    runtime.step(*arguments, **keywords)
    expected = expected_gradients(torch, stages, microbatches)
    worst = 0.0
    for s in mine:
        for found, wanted in zip(gradients([modules[s]]), expected[s]):
            worst = max(worst, (found - wanted).abs().max().item())
    return worst


def run_rank(rank, ranks, port, jobs):
    """Runs the jobs one after the other, all ranks in step; rank 0 says how each went."""
    torch, PipelineStage, schedules = load_torch()
    dist = torch.distributed
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
    )
    torch.set_num_threads(1)
    good = True
    for job in jobs:
        worst = torch.tensor([worst_difference(torch, PipelineStage, schedules, job, rank)])
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        passed = worst.item() > 1e-3 if job["is_wrong"] else worst.item() < 1e-5
        good = good and passed
        if rank == 0:
            verdict = "ok" if passed else f"FAILED, {worst.item()} off"
            print(f"{verdict}: {job['name']}", flush=True)
    dist.destroy_process_group()
    sys.exit(0 if good else 1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
            "is_wrong": False}


def without_reductions(job, scratch):
    """The same file without its REDUCE_GRADs: torch runs it, and the gradients are wrong."""
    path = os.path.join(scratch, "without_reductions.csv")
    with open(job["path"], newline="") as file:
        rows = [line.rstrip("\r\n").split(",") for line in file]
    with open(path, "w", newline="") as file:
        for row in rows:
            file.write(",".join(cell for cell in row if "REDUCE_GRAD" not in cell) + "\r\n")
    name = job["name"] + ", without REDUCE_GRAD: off, as it must be"
    return dict(job, path=path, name=name, is_wrong=True)


def swapped_job(tool, sources):
    """Torch's own file with deferred receives, in which messages are swapped: torch runs it to the
    end, and the gradients are wrong. The linter says so without running anything."""
    path = os.path.join(sources, "tests/golden/torch/zbvzerobubble_p4_v2_m16_deferred.csv")
    lint = subprocess.run([tool, "lint", path], stdout=subprocess.PIPE, timeout=60)
    if lint.returncode != 1 or b"meets" not in lint.stdout:
        sys.exit("FAILED: stringline lint finds no swapped messages in " + path)
    return {"name": "zbv P=4 M=16, torch's deferred receives: off, as it must be", "path": path,
            "format": "compute_comms", "stages": 8, "microbatches": 16, "is_wrong": True}


def run_jobs(ranks, jobs):
    port = str(free_port())
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--rank", str(rank), str(ranks), port, json.dumps(jobs)]
        )
        for rank in range(ranks)
    ]
    try:
        return all([child.wait(timeout=SECONDS) == 0 for child in children])
    except subprocess.TimeoutExpired:
        print(f"FAILED: {ranks} ranks still run after {SECONDS} seconds")
        return False
    finally:
        for child in children:
            child.kill()
            child.wait()


def main():
    if sys.argv[1:2] == ["--rank"]:
        rank, ranks, port, jobs = sys.argv[2:]
        run_rank(int(rank), int(ranks), port, json.loads(jobs))
    tool, sources = sys.argv[1:3]
    torch, _, schedules = load_torch()
    print("torch", torch.__version__, flush=True)
    forms = [("torch-compute", "compute_only"), (comms_form(torch, schedules), "compute_comms")]
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
            if ranks == 4 and forms[-1][0] == "torch-comms":
                jobs.append(swapped_job(tool, sources))
            good = run_jobs(ranks, jobs) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
