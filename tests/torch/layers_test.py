"""The layers of small multilayer perceptrons, written in the ways in which people write them, as
`stringline import` lists them.

    layers_test.py STRINGLINE

The exit status is 77, with a line of explanation, without torch or transformers: skipped, for
ctest.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile
import warnings

from export_test import CONTEXT, VOCABULARY, load_torch

torch, _, _ = load_torch()
nn, F = torch.nn, torch.nn.functional
WIDTH = 16


class Model(nn.Module):
    """A table, a body, and a head."""

    def __init__(self, body):
        super().__init__()
        self.table, self.body = nn.Embedding(VOCABULARY, WIDTH), body
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        return self.head(self.body(self.table(ids)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """A list inside of a residual."""

    def __init__(self, depth):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(depth))

    def forward(self, x):
        y = self.norm(x)
        for layer in self.inner:
            y = F.relu(layer(y))
        return x + y


class Called(nn.Module):
    """Modules that are called one after the other, by a function of the module that holds them."""

    def __init__(self, order, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)
        self.order = order

    def forward(self, x):
        for layer in self.order(self):
            x = layer(x)
        return x


def linear():
    return nn.Linear(WIDTH, WIDTH)


def repeated(times, *makers):
    return [make() for _ in range(times) for make in makers]


def listed(*layers):
    return Called(lambda self: self.layers, layers=nn.ModuleList(layers))


def norm():
    return nn.LayerNorm(WIDTH)


def pairs_of_two_lists(self):
    return [layer for pair in zip(self.fcs, self.acts) for layer in pair]


# A body, or a whole model where it begins with an embedding, and its layers.
CASES = {
    "linear, relu": (nn.Sequential(*repeated(3, linear, nn.ReLU)), ["body.0", "body.2", "body.4"]),
    "linear, relu in a list": (listed(*repeated(3, linear, nn.ReLU)),
                               ["body.layers.0", "body.layers.2", "body.layers.4"]),
    "relu, linear": (nn.Sequential(*repeated(2, nn.ReLU, linear)), ["body.0", "body.2"]),
    "linear, relu, dropout": (nn.Sequential(*repeated(3, linear, nn.ReLU, nn.Dropout)),
                              ["body.0", "body.3", "body.6"]),
    "norm, linear, gelu": (nn.Sequential(*repeated(3, norm, linear, nn.GELU)),
                           ["body.0", "body.3", "body.6"]),
    "linear, norm, gelu": (nn.Sequential(*repeated(3, linear, norm, nn.GELU)),
                           ["body.0", "body.3", "body.6"]),
    "the last without its relu": (
        nn.Sequential(nn.Linear(WIDTH, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, WIDTH)),
        ["body.0", "body.2", "body.4"]),
    "pairs as modules": (nn.Sequential(*[nn.Sequential(linear(), nn.ReLU()) for _ in range(4)]),
                         ["body.0", "body.1", "body.2", "body.3"]),
    "mlps": (nn.Sequential(*repeated(3, Mlp)), ["body.0", "body.1", "body.2"]),
    "mlp, norm": (nn.Sequential(*repeated(2, Mlp, norm)), ["body.0", "body.2"]),
    "norm, mlp, and a last norm": (nn.Sequential(*repeated(2, norm, Mlp), norm()),
                                   ["body.0", "body.2"]),
    "mlps of several kinds": (nn.Sequential(Block(2), Mlp(), Block(2), Mlp()),
                              ["body.0", "body.1", "body.2", "body.3"]),
    "blocks with lists inside": (listed(*repeated(4, lambda: Block(3))),
                                 [f"body.layers.{i}" for i in range(4)]),
    "two blocks with long lists inside": (listed(Block(8), Block(8)),
                                          ["body.layers.0", "body.layers.1"]),
    "one block with a list inside": (listed(Block(5)),
                                     [f"body.layers.0.inner.{i}" for i in range(5)]),
    "two lists, called in turn": (
        Called(pairs_of_two_lists, fcs=nn.ModuleList(repeated(4, linear)),
               acts=nn.ModuleList(repeated(4, nn.ReLU))), [f"body.fcs.{i}" for i in range(4)]),
    "a dict": (Called(lambda self: self.layers.values(),
                      layers=nn.ModuleDict({"one": Mlp(), "two": Mlp()})),
               ["body.layers.one", "body.layers.two"]),
    "linears by name": (Called(lambda self: [self.fc1, F.relu, self.fc2, F.relu, self.fc3],
                               fc1=linear(), fc2=linear(), fc3=linear()),
                        ["body.fc1", "body.fc2", "body.fc3"]),
    "a sequence with names": (nn.Sequential(collections.OrderedDict(
        fc1=linear(), act1=nn.ReLU(), fc2=linear(), act2=nn.ReLU())), ["body.fc1", "body.fc2"]),
    "a whole model of linears": (
        nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *repeated(3, linear, nn.ReLU), nn.Linear(WIDTH, VOCABULARY)),
        ["1", "3", "5"]),
    "a whole model of mlps": (
        nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *repeated(3, Mlp), norm(), nn.Linear(WIDTH, VOCABULARY)),
        ["1", "2", "3"]),
}


def layers_of(tool, body, folder):
    begins = isinstance(body, nn.Sequential) and isinstance(body[0], nn.Embedding)
    model = (body if begins else Model(body)).eval()
    program = torch.export.export(model, (torch.zeros(2, CONTEXT, dtype=torch.long),))
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    said = subprocess.run([tool, "import", "model.pt2"], cwd=folder, capture_output=True, text=True)
    if said.returncode != 0:
        return said.stderr
    parts = said.stdout.partition("# part ")[2].partition("# A stage can begin")[0]
    return re.findall(r"^# (\S+) .*%$", parts, re.MULTILINE)[1:-1]


def main():
    warnings.filterwarnings("ignore")
    wrong = 0
    for name, (body, wanted) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = layers_of(sys.argv[1], body, folder)
        if found != wanted:
            wrong += 1
            print(f"wrong: {name}: {found}, expected {wanted}")
    print(f"{len(CASES) - wrong} of {len(CASES)} models have the layers that they are written in")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
