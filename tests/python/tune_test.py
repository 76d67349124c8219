"""The planner from Python, beside the tool's own answer."""

import json

import stringline
from tool import figures

MODEL = {
    "model": {
        "kind": "llama",
        "layers": 4,
        "width": 256,
        "hidden": 512,
        "heads": 4,
        "vocabulary": 1000,
        "context": 256,
    },
    "precision": "bf16",
}
CLUSTER = {"hardware": "h100", "gpus": 4}


def test_rows_are_those_of_the_tool(tmp_path):
    for name, keys in (("model", MODEL), ("cluster", CLUSTER)):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(keys))
    files = (tmp_path / "model.yaml", tmp_path / "cluster.yaml")
    said = figures("tune", *files, "--global-batch", 8, "--evaluations", 20, "--pin", "tp=1")
    columns = stringline.tune(MODEL, CLUSTER, global_batch=8, evaluations=20, pin={"tp": 1}, frame=False)
    for key in ("pp", "dp", "microbatch", "schedule", "recompute", "step_us", "memory", "mfu"):
        assert list(columns[key]) == [choice[key] for choice in said["choices"]], key
    assert list(columns["bubble_us"]) == [choice["parts_us"]["bubble"] for choice in said["choices"]]
    assert set(columns["tp"]) == {1}
