"""Training the same models: the suite of `stringline bench`, whose page is SUITE.md."""

import json
import os

from beside.measure import mebibytes, ratio, run, seconds

TOOLS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(TOOLS, "bench")
LIMIT = 1800  # seconds for the whole suite


def measure(given):
    """A row for each case measured on both sides."""
    out = os.path.join(given.sources, "out/bench/suite.json")
    run([given.tool, "bench", os.path.join(BENCH, "suite.yaml"), "--again", "--out", out, "--page",
         os.path.join(BENCH, "SUITE.md")], LIMIT)
    with open(out) as file:
        cases = json.load(file)["cases"]
    rows = []
    for torch in cases:
        ours = next(case for case in cases
                    if case["name"] == torch["name"] and case["side"] == "stringline")
        if torch["side"] != "torch" or not (torch["summary"] and ours["summary"]):
            continue
        rows.append({"name": torch["name"], "model": torch["model"],
                     **{side: {key: case["summary"][key] for key in
                               ("step_us", "processor_us", "resident_bytes")}
                        for side, case in (("torch", torch), ("stringline", ours))}})
        print(f"training: {rows[-1]}", flush=True)
    return rows


def headline(rows):
    """The first case of every model."""
    models = []
    for row in rows:
        if row["model"] in models:
            continue
        models.append(row["model"])
        for key, words in (("processor_us", "processor time of a step"), ("step_us", "time of a step")):
            pair = [row[side][key] / 1e6 for side in ("torch", "stringline")]
            yield f"train {row['name']}: {words}", *map(seconds, pair), ratio(*pair)
    if rows:
        memory = [rows[0][side]["resident_bytes"] / 2**20 for side in ("torch", "stringline")]
        yield (f"train {rows[0]['name']}: memory of one torch rank, and of all of stringline's",
               *map(mebibytes, memory), ratio(*memory))


def page(rows):
    yield "## Training"
    yield ""
    yield (f"[SUITE.md](../bench/SUITE.md): {len(rows)} cases of `stringline bench tools/bench/suite.yaml` "
           "in torch.distributed.pipelining and here. In the table at the top is the first of each model.")
