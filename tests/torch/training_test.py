"""Repeats training runs of ours with torch, in double precision and with torch's own attention,
gradients, clipping, optimizer and schedules of the rate, and compares all results of a run.

    training_test.py TRAINING_WRITER

TRAINING_WRITER writes the runs: their first values, batches, and results. The exit status is 77,
with a line of explanation, without torch: skipped, for ctest.
"""

import json
import math
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
NO_TARGET = -1  # of a document's last token

# Our largest errors, relative to the largest value of a tensor: some ten times the observed effect
# of 24 bits. AdamW makes small gradients large, and so their rounding.
LIMITS = {"loss": 5e-7, "norm": 1e-6, "rate": 1e-12, "gradients": 5e-6, "last values": 5e-4}


def load_torch():
    try:
        import torch
    except ImportError as error:
        print(f"skipped: torch is not installed here ({error})")
        sys.exit(SKIPPED)
    return torch


class Run:
    """A run as written by training_writer."""

    def __init__(self, torch, folder):
        self.torch = torch
        with open(os.path.join(folder, "index.json")) as file:
            index = json.load(file)
        with open(os.path.join(folder, "numbers.f64"), "rb") as file:
            self.numbers = torch.frombuffer(bytearray(file.read()), dtype=torch.float64)
        self.settings, self.params, self.steps = (
            index[key] for key in ("settings", "params", "steps"))

    def tensor(self, place):
        count = math.prod(place["shape"])
        return self.numbers[place["at"]:place["at"] + count].reshape(place["shape"]).clone()


def sight_of(torch, positions):
    """Of packed sequences: the tokens of its own document up to itself that each token sees."""
    document = (positions == 0).cumsum(-1)
    same = document[:, :, None] == document[:, None, :]
    return (same & torch.ones_like(same).tril())[:, None]


def loss_of(torch, params, settings, tokens, targets, positions):
    """Mean over all tokens that have a target; positions: None, or those in documents."""
    F = torch.nn.functional
    width, heads = settings["width"], settings["heads"]

    def linear(name, x):
        return F.linear(x, params[name + ".weight"], params.get(name + ".bias"))

    def norm(name, x):
        return F.layer_norm(x, (width,), params[name + ".weight"], params[name + ".bias"])

    def by_head(x):
        return x.unflatten(-1, (heads, width // heads)).transpose(1, 2)

    def attended(name, x, seen):
        """Of the rows of x to all rows of what is seen."""
        k, v = linear(name + ".kv", seen).split(width, dim=-1)
        y = F.scaled_dot_product_attention(by_head(linear(name + ".q", x)), by_head(k), by_head(v))
        return linear(name + ".projection", y.transpose(1, 2).flatten(-2))

    def fed(name, x):
        y = F.gelu(linear(name + "mlp.up", norm(name + "norm2", x)), approximate="tanh")
        return x + linear(name + "mlp.down", y)

    source, encoded = settings["source"], None
    if source:
        x = F.embedding(tokens[:, :source], params["encoder.embedding.weight"])
        x = x + params["encoder.position.weight"]
        for layer in range(settings["encoder_layers"]):
            name = f"encoder.layers.{layer}."
            y = norm(name + "norm1", x)
            x = fed(name, x + attended(name + "attention", y, y))
        encoded = norm("encoder.norm", x)
        tokens, targets = tokens[:, source:], targets[:, source:]
    sight = None if positions is None else sight_of(torch, positions)
    table = params["position.weight"]
    x = F.embedding(tokens, params["embedding.weight"])
    x = x + (table if positions is None else F.embedding(positions, table))
    results = []
    for layer in range(settings["layers"] - settings["encoder_layers"]):
        name = f"layers.{layer}."
        if name + "skip.weight" in params:
            x = x + linear(name + "skip", results[settings["layers"] - 1 - layer])
        q, k, v = linear(name + "attention.qkv", norm(name + "norm1", x)).split(width, dim=-1)
        y = F.scaled_dot_product_attention(by_head(q), by_head(k), by_head(v), attn_mask=sight,
                                           is_causal=sight is None)
        x = x + linear(name + "attention.projection", y.transpose(1, 2).flatten(-2))
        if encoded is not None:
            x = x + attended(name + "cross", norm(name + "norm3", x), encoded)
        x = fed(name, x)
        results.append(x)
    logits = linear("head", norm("norm", x))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET)


def make_optimizer(torch, params, settings):
    groups = [
        {"params": [p for p in params.values() if p.dim() > 1],
         "weight_decay": settings["weight_decay"]},
        {"params": [p for p in params.values() if p.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings["learning_rate"], betas=settings["betas"],
                             eps=settings["epsilon"])


def make_schedule(torch, optimizer, settings):
    rates = torch.optim.lr_scheduler
    warmup, steps = settings["warmup_steps"], settings["steps"]
    if warmup > 1:
        rise = rates.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    else:
        rise = rates.ConstantLR(optimizer, factor=1)
    fall = rates.CosineAnnealingLR(optimizer, steps - warmup, eta_min=settings["final_rate"])
    return rates.SequentialLR(optimizer, [rise, fall], milestones=[warmup])


class Worst:
    """The largest difference of every kind, and its place."""

    def __init__(self):
        self.rows = {what: (0.0, "nowhere") for what in LIMITS}

    def add(self, what, where, difference):
        if not difference <= self.rows[what][0]:  # also for one that is no number
            self.rows[what] = (difference, where)

    def add_tensor(self, what, where, found, wanted):
        scale = wanted.abs().max().item()
        self.add(what, where, (found - wanted).abs().max().item() / (scale or 1))

    def show(self, name):
        good = all(value <= LIMITS[what] for what, (value, _) in self.rows.items())
        row = ", ".join(f"{what} {value:.1e}" for what, (value, _) in self.rows.items())
        print(f"{'ok' if good else 'FAILED'}: {name}: worst {row}", flush=True)
        for what, (value, where) in self.rows.items():
            if not value <= LIMITS[what]:
                print(f"  {what}: {value:.2e} off in {where}, more than {LIMITS[what]:.0e}")
        return good


def without_keys(name, tensor):
    """The keys' bias is left out: its gradient is 0, and AdamW turns rounding into chance."""
    if not name.endswith("attention.qkv.bias"):
        return tensor
    size = len(tensor) // 3
    return tensor[list(range(size)) + list(range(2 * size, 3 * size))]


def compare(torch, run):
    worst = Worst()
    settings = run.settings
    params = {name: run.tensor(places["first"]).requires_grad_()
              for name, places in run.params.items()}
    optimizer = make_optimizer(torch, params, settings)
    schedule = make_schedule(torch, optimizer, settings)
    for number, step in enumerate(run.steps, start=1):
        where = f"step {number}"
        optimizer.zero_grad()
        tokens, targets = run.tensor(step["tokens"]).long(), run.tensor(step["targets"]).long()
        positions = run.tensor(step["positions"]).long() if "positions" in step else None
        loss = loss_of(torch, params, settings, tokens, targets, positions)
        loss.backward()
        if number == 1:
            for name, places in run.params.items():
                worst.add_tensor("gradients", name, run.tensor(places["gradient"]),
                                 params[name].grad)
        norm = torch.nn.utils.clip_grad_norm_(params.values(), settings["clip_norm"] or math.inf)
        rate = optimizer.param_groups[0]["lr"]
        worst.add("loss", where, abs(step["loss"] / loss.item() - 1))
        worst.add("norm", where, abs(step["norm"] / norm.item() - 1))
        worst.add("rate", where, abs(step["rate"] - rate))
        optimizer.step()
        schedule.step()
    for name, places in run.params.items():
        for pipe, last in enumerate(places["last"]):
            worst.add_tensor("last values", f"{name} of pipe {pipe}",
                             without_keys(name, run.tensor(last)),
                             without_keys(name, params[name].detach()))
    return worst


def main():
    torch = load_torch()
    torch.set_num_threads(1)
    print("torch", torch.__version__, flush=True)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True, timeout=120)
        names = sorted(os.listdir(folder))
        for name in names:
            good = compare(torch, Run(torch, os.path.join(folder, name))).show(name) and good
    sys.exit(0 if good and names else 1)


if __name__ == "__main__":
    main()
