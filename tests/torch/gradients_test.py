"""Small programs, each with a single peculiarity, exported by torch.export: our gradients equal
torch's, or the program is refused by the name of the peculiarity.

    gradients_test.py EXPORT_WRITER STRINGLINE SOURCES [--some | NAMES]

With --some one program in four is tried. The exit status is 77, with a line of explanation,
without torch: skipped, for ctest.
"""

import os
import subprocess
import sys
import tempfile

from export_test import CONTEXT, ROWS, VOCABULARY, check_way, draw, write_run
from small_programs import (
    ATTENTION,
    INDICES,
    LAYERS,
    LOSSES,
    PARAMETERS,
    POSITIONS,
    SAME,
    TABLES,
    WIDTHS,
    Layer,
    Model,
    load_file,
    nn,
    torch,
)

# Several values from layer to layer

class Crossed(Layer):
    """A layer that also reads what an earlier one gave."""

    def more(self):
        self.bridge = nn.Linear(self.width, self.width, bias=False)

    def forward(self, x, earlier):
        return super().forward(x + self.bridge(earlier))


class U(Model):
    """The later half reads what the earlier half gave, the last layer what the first one did."""

    def more(self):
        self.layers = nn.ModuleList([Layer(), Layer(), Crossed(), Crossed()])

    def body(self, x):
        given = []
        for layer in self.layers[:2]:
            given.append(x := layer(x))
        for layer in self.layers[2:]:
            x = layer(x, given.pop())
        return x


class Residuals(Model):
    """Each layer reads a sum of all results before, and the head one of all."""

    def body(self, x):
        results = [x]
        for index, layer in enumerate(self.layers):
            results.append(layer(sum(results[1:], results[0]) * (1.0 / (index + 1))))
        return sum(results[1:], results[0])


class Streams(Model):
    """Two streams that exchange halves, as reversible networks do."""

    def body(self, x):
        other = x
        for layer in self.layers:
            x, other = other, x + layer.mix(layer.first(other))
        return x + other


# The program of a U also goes over edges of its own.
U_SHAPED = "../examples/14_skips/u_shaped"
CROSSINGS = [
    ("U-shaped skips", U, SAME),
    ("sums of all results before", Residuals, SAME),
    ("two streams", Streams, SAME),
]
WAYS = {
    "a table read twice": [("gpipe", 1, "")],
    "U-shaped skips": [("1f1b", 2, ""), ("zb_v", 2, ""), (U_SHAPED, 2, ""),
                       ("1f1b", 3, "[layers.1, layers.3]")],
    "sums of all results before": [("1f1b", 3, ""), ("gpipe", 4, "[layers.0, layers.1, head]")],
    "two streams": [("1f1b", 3, "")],
}

PROGRAMS = [*LAYERS, *WIDTHS, *ATTENTION, *POSITIONS, *TABLES, *PARAMETERS, *LOSSES, *CROSSINGS, *INDICES]


class Answer:
    """Results in the form of transformers' models, for export_test's comparison."""

    def __init__(self, logits):
        self.logits = logits


def drop_unused(one):
    """Parameters that a peculiar part does not use are in no program."""
    one(input_ids=torch.zeros(3, CONTEXT, dtype=torch.long)).sum().backward()
    for name, param in list(one.named_parameters(remove_duplicate=False)):
        if param.grad is None and param.requires_grad:
            owner, _, last = name.rpartition(".")
            setattr(one.get_submodule(owner), last, None)
    one.zero_grad()


# Programs that mix the sequences of a batch run with the batch of their export; the others with any.
MIXED = ["a sequence of all batches", "in place behind a view", "a write into a tensor of its own",
         "rows added by value", "numbers put by value", "rows by value, of each sequence",
         "channels by constant numbers"]


def export(one, labelled, path, rows=3):
    tokens = torch.arange(rows * CONTEXT).reshape(rows, CONTEXT) % VOCABULARY
    given = (tokens, tokens.clone()) if labelled else (tokens,)
    torch.export.save(torch.export.export(one, given), path)


def check_frozen(one, name, writer, sources, folder):
    """After a step with weight decay frozen parameters are what they were, and no others are."""
    good = True
    for schedule in ("1f1b", "zb_h1"):
        write_run(folder, sources, schedule, 2, "", rate=1e-2, decay=0.1)
        out = tempfile.mkdtemp(dir=folder)
        subprocess.run([writer, os.path.join(folder, "run.yaml"), out], check=True, timeout=120)
        saved = load_file(os.path.join(out, "saved", "model.safetensors"))
        kept = {key: torch.equal(saved[key], value) for key, value in one.named_parameters()}
        wrong = [key for key, value in one.named_parameters() if kept[key] == value.requires_grad]
        good &= not wrong
        print(f"{'FAILED' if wrong else 'ok'}: {name}, {schedule}: trained and frozen alike "
              f"{wrong}", flush=True)
    return good


def check(name, build, wanted, labelled, tools, folder):
    writer, tool, sources = tools
    one = draw(torch, build)
    if wanted == SAME:
        drop_unused(one)
    try:
        export(one, labelled, os.path.join(folder, "model.pt2"), ROWS if name in MIXED else 3)
    except Exception as error:
        print(f"FAILED: {name}: torch does not export it: {str(error)[:300]}", flush=True)
        return False
    said = subprocess.run([tool, "import", "model.pt2"], cwd=folder, capture_output=True,
                          timeout=60, text=True)
    refused = said.stderr.strip()
    if said.returncode == 0 and wanted == SAME:
        call = one.forward
        one.forward = lambda input_ids, use_cache: Answer(call(input_ids=input_ids))
        try:
            good = all([check_way(torch, load_file, writer, sources, one, name, way, folder)
                        for way in WAYS.get(name, [("1f1b", 2, "")])])
            frozen = any(not param.requires_grad for param in one.parameters())
            return good and (not frozen or check_frozen(one, name, writer, sources, folder))
        except subprocess.CalledProcessError as error:
            print(f"FAILED: {name}: {error}", flush=True)
            return False
    good = said.returncode != 0 and wanted != SAME and any(text in refused for text in wanted.split("|"))
    print(f"{'ok' if good else 'FAILED'}: {name}: {refused or 'not refused'}"
          f"{'' if good else f'; wanted: {wanted}'}", flush=True)
    return good


def main():
    tools = sys.argv[1:4]
    torch.set_num_threads(1)  # of tiny models
    names = [name for name, _, _ in PROGRAMS]
    assert len(set(names)) == len(names)
    labelled = [name for name, _, _ in LOSSES]
    good = True
    some = sys.argv[4:] == ["--some"]
    for index, (name, build, wanted) in enumerate(PROGRAMS):
        if some and index % 4 > 0:
            continue
        if sys.argv[4:] and not some and not any(text in name for text in sys.argv[4:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.manual_seed(7)
            tokens = torch.randint(VOCABULARY, (3000,), dtype=torch.int16)
            tokens.numpy().tofile(os.path.join(folder, "tokens"))
            good &= check(name, build, wanted, name in labelled, tools, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
