"""Schedules of ours in TorchTitan's own pipelining code, on two CPU processes (gloo): TorchTitan
splits the model and makes the schedule, with our file in its setting, and with our runtime in place
of its own. Gradients are compared with those of the model in one piece.

    titan_test.py SITE SOURCES

SITE is the folder with the package (tools/wheel --test leaves it), SOURCES the top of the
repository: the code under test is that of python/TORCHTITAN.md. TorchTitan is in the folder
$STRINGLINE_TITAN; `tools/environments/torch/run` names the folder made by `tools/install --torch`.
The exit status is 77, with a line of explanation, if anything is missing: skipped, for ctest.
"""

import functools
import logging
import os
import re
import sys
import tempfile
import types

import rank_group
import whole_model

SECONDS = 60
RANKS, MICROBATCHES, LAYERS = 2, 8, 8

# TorchTitan's name of a schedule, which determines the number and the ranks of stages; a schedule
# of ours.
CASES = [
    ("1F1B", "zb_h1"), ("1F1B", "gpipe"), ("1F1B", "zb_h2"),
    ("Interleaved1F1B", "interleaved"), ("Interleaved1F1B", "gis"), ("Interleaved1F1B", "kimi_k2"),
    ("ZBVZeroBubble", "zb_v"), ("ZBVZeroBubble", "dualpipe_v"), ("ZBVZeroBubble", "v_half"),
    ("ZBVZeroBubble", "hanayo"),
]


def load(site):
    sys.path[:0] = [path for path in (site, os.environ.get("STRINGLINE_TITAN")) if path]
    try:
        import stringline.torch
        from torchtitan.distributed import pipeline_parallel
    except ImportError as error:
        whole_model.skip(f"{error}: tools/install --torch")
    return stringline, pipeline_parallel


def make_model(torch):
    """Named as TorchTitan's decoders are, and as tolerant of missing parts."""
    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            first, *between, norm, last = whole_model.layers(torch, LAYERS + 3)
            self.tok_embeddings, self.norm, self.lm_head = first, norm, last
            self.layers = torch.nn.ModuleDict({str(i): one for i, one in enumerate(between)})

        def forward(self, x):
            parts = [self.tok_embeddings, *self.layers.values(), self.norm, self.lm_head]
            for part in parts:
                x = x if part is None else part(x)
            return x

    return Decoder()


def code_of_the_page(sources):
    """The definitions in the document's only block of Python."""
    with open(os.path.join(sources, "python/TORCHTITAN.md"), encoding="utf-8") as file:
        [block] = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    found = {}
    exec(block, found)
    return found


def perform(job, rank):
    from torchtitan.config import CompileConfig, ParallelismConfig

    torch = whole_model.load_torch()[0]
    mesh = torch.distributed.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("pp",))
    loss = functools.partial(whole_model.loss, torch)
    code = code_of_the_page(job["sources"])
    make = code["pipeline_llm"] if job["path"] else functools.partial(
        code["pipeline_with"], job["schedule"]
    )
    runtime, parts, first, last = make(
        make_model(torch),
        parallel_dims=types.SimpleNamespace(pp=RANKS, get_mesh=lambda name: mesh),
        training=types.SimpleNamespace(local_batch_size=MICROBATCHES),
        parallelism=ParallelismConfig(
            pipeline_parallel_degree=RANKS, pipeline_parallel_schedule=job["titan"],
            pipeline_parallel_schedule_csv=job["path"],
        ),
        compile_config=CompileConfig(), ac_config=None, dump_folder="",
        device=torch.device("cpu"), model_config=types.SimpleNamespace(layers=range(LAYERS)),
        parallelize_fn=lambda part, **_: part,
        loss_fn=lambda output, target: (loss(output, target) / MICROBATCHES, None),
    )
    x, y = whole_model.data(torch, MICROBATCHES)
    runtime.step(
        arg_mbs=[(one,) for one in x.chunk(MICROBATCHES)] if first else None,
        kwarg_mbs=[{}] * MICROBATCHES,
        target_mbs=list(y.chunk(MICROBATCHES)) if last else None,
        losses=[] if last else None, return_outputs=False,
    )
    whole = make_model(torch)
    loss(whole(x), y).backward()
    worst = 0.0
    for part in parts:
        for name, parameter in part.named_parameters():
            wanted = whole.get_parameter(name).grad
            worst = max(worst, ((parameter.grad - wanted).abs().max() / wanted.abs().max()).item())
    return worst


def main():
    stringline, _ = load(sys.argv[1])
    logging.disable(logging.CRITICAL)
    good = True
    with tempfile.TemporaryDirectory() as scratch, rank_group.RankGroup(RANKS, perform) as group:
        for titan, schedule in CASES:
            path = os.path.join(scratch, f"{schedule}.csv")
            plan = stringline.load(schedule).plan(P=RANKS, M=MICROBATCHES)
            ways = [("in place of what it made", "")]
            if schedule != "kimi_k2":  # torch's notation has no pair of a forward and an I
                with open(path, "w", encoding="utf-8", newline="") as file:
                    file.write(plan.to_torch_csv())
                ways.append(("as its file", path))
            for how, given in ways:
                job = {"titan": titan, "schedule": schedule, "path": given,
                       "sources": sys.argv[2]}
                outcome, seen = group.run(job, SECONDS)
                passed = outcome == rank_group.RIGHT
                good = good and passed
                verdict = "ok" if passed else f"FAILED, {outcome}, {seen}"
                print(f"{verdict}: {schedule} {how}, with {titan}'s stages", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
