"""The judgement of many small models: each is exported by torch.export, read and trained by us for a
step, and is right, refused by name, or wrong.

A model is an object with a name and these members:

    make()                  makes `one`, the model in torch; an error: torch or transformers does not
    seen(rows)              an input of so many sequences, to export with
    trained(tools, folder)  trains the folder's model.pt2 for a step, and returns how far the loss
                            and the gradients are off, and which is the furthest
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

from export_test import LIMIT, ROWS, load_torch

torch, transformers, load_file = load_torch()


def performed(writer, folder, runs):
    """The folder with the results of the first run file that has no more stages than the model has
    layers, and what its batch.json says. A run is a function that writes run.yaml."""
    out = tempfile.mkdtemp(dir=folder)
    for write in runs:
        write()
        said = subprocess.run([writer, os.path.join(folder, "run.yaml"), out], timeout=300,
                              capture_output=True)
        # Layers that share their parameters are one, in one stage.
        if b"cannot split 1 layers into 2 stages" not in said.stderr:
            break
    said.check_returncode()
    with open(os.path.join(out, "batch.json")) as file:
        return out, json.load(file)


def furthest(loss_off, out, grads):
    """The largest of the loss's and the gradients' distances, as shares of each one's size, and its
    name."""
    found = load_file(os.path.join(out, "gradients", "model.safetensors"))
    largest = max(grad.abs().max().item() for grad in grads.values())
    worst, where = abs(loss_off), "the loss"
    for name, grad in grads.items():
        size = max(grad.abs().max().item(), 1e-3 * largest)
        off = (found[name] - grad).abs().max().item() / size
        if found[name].shape != grad.shape:
            return float("inf"), f"the shape of {name}"
        if not off <= worst:
            worst, where = off, name
    return worst, where


def why_refused(one, seen, tool, folder):
    """Why the model is refused when it is exported with this input; "" if it is not."""
    try:
        program = torch.export.export(one, (seen,))
        torch.export.save(program, os.path.join(folder, "model.pt2"))
    except Exception as error:
        return f"torch does not export it: {str(error).splitlines()[0][:150]}"
    said = subprocess.run([tool, "import", "model.pt2"], cwd=folder, capture_output=True,
                          timeout=120)
    if said.returncode == 2 and said.stderr.startswith(b"stringline: model.pt2: "):
        return said.stderr.decode().strip()[:300]
    said.check_returncode()
    return ""


def judged(model, tools, folder):
    """"right", "refused" or "wrong", and a line about it."""
    try:
        model.make()
    except Exception as error:
        return "refused", f"not made: {type(error).__name__}: {str(error)[:200]}"
    # First with another number of sequences than it is trained with; programs that count them are
    # refused by the run, and tried with the same.
    for rows in (3, ROWS):
        try:
            refused = why_refused(model.one, model.seen(rows), tools[1], folder)
            if refused:
                return "refused", refused
            off, where = model.trained(tools, folder)
            break
        except subprocess.CalledProcessError as error:
            if rows == ROWS or b"export the model with the microbatch" not in error.stderr:
                return "wrong", f"exit status {error.returncode}: {error.stderr.decode()[-300:]}"
    return ("right" if off <= LIMIT else "wrong"), f"off by {off:.1e} at most, in {where}"


def main(models, right):
    """Judges the models, or those that the command line names. The last line counts those that are
    right, refused, and wrong. The exit status is 1 if one is wrong, or, of all models, fewer are right
    than `right`; 77, with a line of explanation, without torch or transformers: skipped, for ctest."""
    tools, wanted = sys.argv[1:4], sys.argv[4:]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # of tiny models
    counts = {"right": 0, "refused": 0, "wrong": 0}
    for model in models:
        if wanted and model.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(7)
            result, line = judged(model, tools, folder)
        counts[result] += 1
        print(f"{result}: {model.name}: {line}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    enough = bool(wanted) or counts["right"] >= right
    sys.exit(0 if counts["wrong"] == 0 and enough else 1)
