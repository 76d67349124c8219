"""A suite with torch beside it: GPT and Llama, in fp32 and bf16, with schedules of torch's and a
schedule that torch lacks, and copies of a pipeline. First values and data are the same on both
sides, so the losses must be, too.

    suite_test.py STRINGLINE SOURCES

The exit status is 77, with a line of explanation, without torch: skipped, for ctest.
"""

import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
LIMITS = {"fp32": 2e-5, "bf16": 5e-3}  # how far losses may be apart, in nats
SUITE = """
models:
  gpt: {{layers: 4, width: 32, heads: 2, context: 16}}
  llama: {{kind: llama, layers: 4, width: 32, heads: 4, kv_heads: 2, hidden: 64, context: 16,
          qk_norm: true, qkv_bias: true}}
  moe: {{kind: moe, layers: 4, width: 32, heads: 4, experts: 4, top_k: 2, expert_hidden: 32,
        context: 16}}
schedules:
  - {{file: 1f1b, P: 2, M: 4}}
  - {{file: zb_h1, P: 2, M: 4}}
  - {{file: dualpipe_v, P: 2, M: 4}}
  - {{file: dualpipe, P: 2, M: 4}}
data: {{text: {sources}/schedlang/LANGUAGE.md, microbatch: 2}}
meshes: [{{}}, {{data: 2}}]
precision: [fp32, bf16]
device: cpu
repetitions: 1
steps: 3
warm_up: 1
beside: torch
only:
  - {{model: gpt, schedule: 1f1b, precision: fp32}}
  - {{model: gpt, schedule: zb_h1, precision: fp32, mesh: {{data: 2}}}}
  - {{model: gpt, schedule: dualpipe, precision: fp32, mesh: {{}}}}
  - {{model: llama, schedule: dualpipe_v, precision: fp32, mesh: {{}}}}
  - {{model: llama, schedule: zb_h1, precision: bf16, mesh: {{}}}}
  - {{model: moe, schedule: 1f1b, precision: fp32, mesh: {{}}}}
"""
# The runtime of torch's side for each schedule; None: not possible.
RUNS = {"1f1b": "Schedule1F1B", "zb_h1": "our order", "dualpipe_v": "ScheduleDualPipeV",
        "dualpipe": None}


def load_torch():
    try:
        import torch
    except ImportError as error:
        print(f"skipped: torch is not installed here ({error})")
        sys.exit(SKIPPED)
    return torch


def check(name, ours, torch):
    """The faults of a case, a line each."""
    schedule = ours["schedule"].split()[0]
    if ours["reason"] is not None:
        yield f"{name}: {ours['reason']}"
        return
    if RUNS[schedule] is None or ours["model"] == "moe":
        if not torch["reason"]:
            yield f"{name}: torch's side should have a reason"
        return
    if torch["reason"] is not None:
        yield f"{name} in torch: {torch['reason']}"
        return
    if torch["runs"] != RUNS[schedule]:
        yield f"{name}: torch runs {torch['runs']}"
    for key in ("params", "tokens_per_step"):
        if ours[key] != torch[key]:
            yield f"{name}: {key} is {ours[key]} here, {torch[key]} in torch"
    apart = abs(ours["summary"]["loss"] - torch["summary"]["loss"])
    if not apart <= LIMITS[ours["precision"]]:
        yield f"{name}: losses are {apart:.1e} apart"
    for side in (ours, torch):
        for figure in ("step_us", "processor_us", "resident_bytes"):
            if not side["summary"][figure] > 0:
                yield f"{name}: {figure} is {side['summary'][figure]}"


def main():
    tool, sources = sys.argv[1:3]
    print("torch", load_torch().__version__, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        suite = os.path.join(folder, "suite.yaml")
        with open(suite, "w") as file:
            file.write(SUITE.format(sources=sources))
        command = [tool, "bench", suite, "--out", os.path.join(folder, "results.json"), "--page",
                   os.path.join(folder, "page.md"), "--json"]
        environment = dict(os.environ, STRINGLINE_TORCH_PYTHON=sys.executable)
        ended = subprocess.run(command, stdout=subprocess.PIPE, timeout=550, env=environment)
        answer = json.loads(ended.stdout)
        if ended.returncode != 0:
            sys.exit(f"FAILED: {answer}")
        with open(os.path.join(folder, "page.md")) as file:
            page = file.read()
    cases = {(case["name"], case["side"]): case for case in answer["cases"]}
    wrong = [line for (name, side), case in cases.items() if side == "stringline"
             for line in check(name, case, cases[name, "torch"])]
    if "## Beside torch" not in page or "not the same" in page:
        wrong.append("the page:\n" + page)
    for line in wrong:
        print("FAILED:", line)
    print(f"{len(cases)} rows, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
