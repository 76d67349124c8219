"""Training the same small GPT: torch_step.py, and the memory that both take."""

import importlib
import json
import os
import tempfile

from beside.measure import mebibytes, ratio, run, seconds

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(BENCH, "torch_step.py")
MODELS = ("small", "wide")  # those of torch_step.py
LIMIT = 1200  # seconds for each program


def measure(given):
    """None without torch_step.py."""
    if not os.path.exists(SCRIPT):
        print("training: tools/bench/torch_step.py is not there, left out", flush=True)
        return None
    text = f"{given.sources}/schedlang/LANGUAGE.md"
    rows = []
    for model in MODELS:
        step = run([*given.torch, SCRIPT, "--text", text, "--model", model, "--repeat",
                    str(given.repeats), "--stringline", given.tool, "--json"], LIMIT)
        answer = json.loads(step.out)
        del answer["runs"]
        row = {"model": model, "answer": answer, "torch_rank_mib": step.peak_mib,
               "own_mib": own_peak(given, answer, text)}
        rows.append(row)
        print(f"training: {model}, {answer['ratio']}", flush=True)
    return rows


def own_peak(given, answer, text):
    """The most memory of a short run of stringline, with torch_step.py's own run file."""
    torch_step = importlib.import_module("torch_step")
    with tempfile.TemporaryDirectory() as folder:
        path = torch_step.run_file(dict(answer, text=text), folder)
        return run([given.tool, "run", path, "--json", "--steps", "3", "--out", folder],
                   LIMIT).peak_mib


def pair(row, key, which="median"):
    return [row["answer"]["per_step"][side][key][which] for side in ("torch", "stringline")]


def headline(rows):
    for row in rows:
        user, wall = pair(row, "user_s"), pair(row, "wall_s")
        name = f"train a GPT ({row['model']})"
        yield f"{name}: processor time of a step", *map(seconds, user), ratio(*user)
        yield f"{name}: time of a step", *map(seconds, wall), ratio(*wall)
    memory = rows[0]["torch_rank_mib"], rows[0]["own_mib"]
    yield ("the same (small): memory of one torch rank, and of all of stringline's",
           *map(mebibytes, memory), ratio(*memory))


def page(rows):
    first = rows[0]["answer"]
    yield "## Training"
    yield ""
    yield (f"The same byte-level GPT on {first['P']} ranks with {first['M']} microbatches of "
           f"{first['schedule']}, in torch.distributed.pipelining and with `stringline run` "
           "(`torch_step.py --help` says what is alike). Processor time is that of user code, of "
           "all ranks; medians, and the least in parentheses. Torch's ranks are processes with one "
           "thread each; their memory is that of the largest of them, which holds torch itself. "
           "Stringline's is that of its one process.")
    yield ""
    yield ("| model | torch, processor time | stringline | ratio | torch, a step | stringline | "
           "ratio | torch, a rank's memory | stringline, all ranks |")
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        shape = row["answer"]["shape"]
        cells = [f"{row['model']}: {shape['layers']} layers of width {shape['width']}, context "
                 f"{shape['context']}"]
        for key in ("user_s", "wall_s"):
            median, least = pair(row, key), pair(row, key, "min")
            cells += [f"{seconds(m)} ({seconds(l)})" for m, l in zip(median, least)]
            cells.append(ratio(*median))
        cells += [mebibytes(row["torch_rank_mib"]), mebibytes(row["own_mib"])]
        yield f"| {' | '.join(cells)} |"
