"""tools/validate_costs on published rows, on rows that it refuses, and its fit: validate_costs_test.py TOOL."""

import importlib.machinery
import importlib.util
import pathlib
import random
import subprocess
import sys
import tempfile

COLUMNS = "source,gpu,gpus,precision,model,gbs,mbs,seq,fsdp,tp,pp,cp,vp,ep,tokens_s_gpu,tflops_gpu\n"
PUBLISHED = "a,H100,8,FP8-CS,llama3-8b,128,1,8192,8,1,1,1,1,1,14451,744\n"
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "validate_costs"
# A mixture of Bridge 25.09, which drops tokens there but not in 25.11.
MIXTURE = "bridge-25.09,B200,8,FP8-MX,qwen3-30b-a3b,512,1,4096,0,1,1,1,1,8,9299,214\n"
REFUSED = {
    PUBLISHED.replace("FP8-CS", "FP7"): "rows.csv:2: precision 'FP7' is none of BF16",
    PUBLISHED.replace("1,14451", "one,14451"): "rows.csv:2: ep: 'one' is no number",
    PUBLISHED.replace("llama3-8b", "llama9"): "no folder of models has llama9.yaml",
    PUBLISHED.replace("H100", "H99"): "there is no hardware file of H99",
    PUBLISHED.replace("8,1,1,1", "8,3,1,1"): "no mesh of 8 GPUs is so",
}


def validated(tool, rows, columns=COLUMNS):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.csv"
        path.write_text(columns + rows, encoding="utf-8")
        command = [sys.executable, SCRIPT, "--tool", tool, "--rows", path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def predicted(tool, rows, columns=COLUMNS):
    """Tokens a second and GPU, of one row."""
    status, said = validated(tool, rows, columns)
    assert status == 0, said
    row = next(line for line in said.splitlines() if line.startswith("bridge"))
    return float(row.split()[-3])


def check_dropped_tokens(tool):
    dropped = predicted(tool, MIXTURE)
    kept = predicted(tool, MIXTURE.replace("25.09", "25.11"))
    assert dropped > 1.3 * kept, (dropped, kept)
    columns = COLUMNS.replace("tflops_gpu", "tflops_gpu,capacity")
    rows = MIXTURE.replace("25.09", "25.11")
    assert predicted(tool, rows.replace(",214", ",214,1"), columns) == dropped
    assert predicted(tool, rows.replace(",214", ",214,"), columns) == kept
    assert predicted(tool, rows.replace(",214", ",214,1.5"), columns) < dropped


def loaded():
    loader = importlib.machinery.SourceFileLoader("validate_costs", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("validate_costs", loader))
    loader.exec_module(module)
    return module


def made_step(tool, group, kind, constants, draw):
    """A row whose step is known: products, waits for experts, and the rest."""
    products, rest = draw.uniform(2, 8), draw.uniform(0.5, 2)
    waits = draw.uniform(2, 6) if kind == "moe" else 0

    def seconds(values):
        return rest + products / values["efficiency"] + waits * values["experts_overhead"]

    at = tool.FIRST["narrow"]
    less = {**at, "efficiency": tool.LESS * at["efficiency"]}
    more = {**at, "experts_overhead": tool.MORE * at["experts_overhead"]}
    step = tool.Step.__new__(tool.Step)
    step.group, step.name, step.kind = group, kind, kind
    step.measured = seconds(constants)
    step.follow(at, [seconds(values) for values in (at, less, more)])
    assert abs(step.error(constants)) < 1e-9
    return step


def check_fit(seed):
    """Rows made from known constants, one of them far off: the fit finds constants that predict the others."""
    tool, draw = loaded(), random.Random(seed)
    made = {
        ("Hopper", "fp8"): {"efficiency": 0.52, "experts_overhead": 1.4},
        ("Blackwell", "mxfp8"): {"efficiency": 0.4, "experts_overhead": 0.43},
    }
    steps = [
        made_step(tool, group, kind, constants, draw)
        for group, constants in made.items()
        for kind in ["dense", "moe"] * 6
    ]
    steps[3].measured *= 1.9
    found = tool.fit(steps)
    for group, constants in made.items():
        for name, value in constants.items():
            assert abs(found[group][name] / value - 1) < 0.3, (seed, group, name, found[group])
    fitted = sorted(abs(step.error(found[step.group])) for step in steps)
    halves = sorted(map(abs, tool.halved(steps, seed)))
    assert fitted[-2] < 0.06 and halves[-2] < 0.15, (seed, fitted, halves)


def main():
    tool = sys.argv[1]
    status, said = validated(tool, PUBLISHED)
    assert status == 0 and "1 of 1 within 15 %" in said, said
    for rows, why in REFUSED.items():
        status, said = validated(tool, rows)
        assert status == 1 and why in said and "Traceback" not in said, said
    check_dropped_tokens(tool)
    for seed in range(3):
        check_fit(seed)
    print("one row is predicted, and", len(REFUSED), "are refused")


main()
