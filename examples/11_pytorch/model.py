"""A small language model of bytes, in eight stages, and what its stages cost on this machine."""

import pathlib
import time

import torch
from torch import nn
from torch.nn import functional

STAGES, WIDTH, HEADS, CONTEXT, LETTERS = 8, 128, 4, 64, 256


class Block(nn.Module):
    """Attention to what came before, then two linear layers."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, length, 3, HEADS, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Stage(nn.Module):
    """One block; the first stage also reads the letters, the last one names them."""

    def __init__(self, index):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, WIDTH) if index == 0 else None
        self.block = Block()
        self.head = nn.Linear(WIDTH, LETTERS) if index == STAGES - 1 else None

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        x = self.block(x)
        return x if self.head is None else self.head(x)


def make_stages():
    """The same in every process."""
    torch.manual_seed(1)
    return [Stage(index) for index in range(STAGES)]


def loss(logits, letters):
    return functional.cross_entropy(logits.flatten(0, 1), letters.flatten())


def batches(steps, rows):
    """Letters, and those that follow them, from this folder's own text."""
    text = "".join(path.read_text() for path in sorted(pathlib.Path(__file__).parent.glob("*.py")))
    letters = torch.tensor(list(text.encode()))
    draw = torch.Generator().manual_seed(2)
    for _ in range(steps):
        places = torch.randint(len(letters) - CONTEXT - 1, (rows,), generator=draw)
        rows_of_text = torch.stack([letters[p : p + CONTEXT + 1] for p in places.tolist()])
        yield rows_of_text[:, :-1], rows_of_text[:, 1:]


def microseconds(work, times=15):
    """The least of several times: whatever else the machine does makes it longer."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(1e6 * (time.perf_counter() - began))
    return min(taken)


def measure(rows):
    """What a forward (F), an input gradient (I) and a weight gradient (W) of every stage take, in
    microseconds, for a microbatch of so many rows."""
    torch.set_num_threads(1)  # as train.py
    stages = make_stages()
    x, target = next(iter(batches(1, rows)))
    costs = {"F": [], "I": [], "W": []}
    for index, stage in enumerate(stages):
        if index > 0:
            x = x.detach().requires_grad_()

        def forward():
            output = stage(x)
            return loss(output, target) if index == STAGES - 1 else output.sum()

        scalar = forward()
        whole = microseconds(lambda: scalar.backward(retain_graph=True))
        of_input = 0  # torch's first stage does it all in W
        if index > 0:
            of_input = microseconds(lambda: torch.autograd.grad(scalar, x, retain_graph=True))
        costs["F"].append(round(microseconds(forward)))
        costs["I"].append(round(of_input))
        costs["W"].append(max(1, round(whole - of_input)))
        x = stage(x)
    return costs
