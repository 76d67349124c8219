"""Stages whose graphs autograd can hardly take apart into an input and a weight gradient.

A form makes the layers of a model in one piece, a layer a stage, the same in every process. A layer
may give a tuple, and the next one takes its parts.
"""

WIDTH = 8  # of every layer


def _linear(torch):
    linear = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    torch.nn.init.orthogonal_(linear.weight)
    return linear


def _module(torch, compute, **parts):
    """A module with these parts, registered in their order."""

    class Layer(torch.nn.Module):
        def forward(self, *inputs):
            return compute(self, *inputs)

    made = Layer()
    for name, part in parts.items():
        setattr(made, name, part)
    return made


def _usual(torch):
    return torch.nn.Sequential(_linear(torch), torch.nn.Tanh())


def _parameter(torch, *shape):
    return torch.nn.Parameter(torch.randn(*shape, dtype=torch.float64))


def _twice(torch):
    """One linear layer called twice, the second time behind a layer of its own."""
    return _module(
        torch, lambda m, x: m.shared(m.own(m.shared(x).tanh())).tanh(),
        shared=_linear(torch), own=_linear(torch))


def _biases_first(torch):
    """A weight used in two places, each with a bias that is registered before the weight."""
    linear = torch.nn.functional.linear
    return _module(
        torch, lambda m, x: linear(linear(x, m.weight, m.first).tanh(), m.weight, m.second).tanh(),
        first=_parameter(torch, WIDTH), second=_parameter(torch, WIDTH),
        weight=_linear(torch).weight)


def _unused(torch):
    """A layer with a parameter that its forward has no use for."""
    return _module(
        torch, lambda m, x: m.linear(x).tanh(), linear=_linear(torch), idle=_linear(torch))


def _cut(torch):
    """A layer that lets no gradient through to its input."""
    return _module(torch, lambda m, x: m.linear(x.detach()).tanh(), linear=_linear(torch))


def _gives_own(torch):
    """A second output that depends on a parameter only, which the first one depends on, too."""
    return _module(
        torch, lambda m, x: (m.linear(x).tanh(), m.linear.weight * m.gain),
        linear=_linear(torch), gain=_parameter(torch, WIDTH))


def _gives_cut(torch):
    """A second output that takes the input, but no gradient back to it."""
    return _module(
        torch, lambda m, x: (m.linear(x).tanh(), m.other(x.detach())),
        linear=_linear(torch), other=_linear(torch))


def _takes_two(torch):
    return _module(
        torch, lambda m, x, y: (m.linear(x) @ (y.T @ y) / 8).tanh(), linear=_linear(torch))


def _gives_indices(torch):
    """A second output in whole numbers, for which there is no gradient."""
    return _module(
        torch, lambda m, x: (m.linear(x).tanh(), x.argmax(1)), linear=_linear(torch))


def _takes_indices(torch):
    return _module(
        torch, lambda m, x, index: (m.linear(x) + m.table(index % WIDTH)).tanh(),
        linear=_linear(torch), table=torch.nn.Embedding(WIDTH, WIDTH, dtype=torch.float64))


def _embeds(torch):
    """A table beside a layer, as at the beginning of a model of language."""
    return _module(
        torch, lambda m, x: m.linear(m.table(x.argmax(1))).tanh(), linear=_linear(torch),
        table=torch.nn.Embedding(WIDTH, WIDTH, dtype=torch.float64))


def _normalizes(torch):
    """Running figures of what was seen in training, of every second feature together: a microbatch
    has too few rows for figures of each."""
    return _module(
        torch, lambda m, x: m.norm(m.linear(x).view(-1, 2)).view_as(x).tanh(),
        linear=_linear(torch), norm=torch.nn.BatchNorm1d(2, dtype=torch.float64))


def _every(make):
    return lambda torch, stages: [make(torch) for _ in range(stages)]


def _among(*makes):
    """These layers behind the first, usual ones behind them."""
    def made(torch, stages):
        layers = [_usual(torch) for _ in range(stages)]
        layers[1:1 + len(makes)] = [make(torch) for make in makes]
        return layers[:stages]
    return made


def _tied(torch, stages):
    """The first and the last stage have one weight."""
    layers = [_usual(torch) for _ in range(stages)]
    layers[-1][0].weight = layers[0][0].weight
    return layers


def _bare(torch, stages):
    """A stage in the middle without any parameter."""
    return [torch.nn.Tanh() if stage == 1 else _usual(torch) for stage in range(stages)]


def _two_outputs(gives, takes):
    """All stages but the last give two outputs or take them, in turn."""
    def made(torch, stages):
        return [(takes if stage % 2 else gives)(torch) for stage in range(stages)]
    return made


def _shifted(gives, takes):
    """Two outputs of the second stage, taken by the third."""
    return _among(gives, takes)


_MAKES = {
    "usual": _every(_usual),
    "twice": _every(_twice),
    "biases first": _every(_biases_first),
    "unused": _every(_unused),
    "cut": _among(_cut),
    "own": _shifted(_gives_own, _takes_two),
    "cut beside": _shifted(_gives_cut, _takes_two),
    "indices": _two_outputs(_gives_indices, _takes_indices),
    "embeds": lambda torch, stages: [_embeds(torch), *_every(_usual)(torch, stages - 1)],
    "tied": _tied,
    "bare": _bare,
    "normalizes": _every(_normalizes),
}


def layers(torch, stages, form):
    return _MAKES[form](torch, stages)


def run(modules, x):
    """The output of a model in one piece."""
    for module in modules:
        x = module(*x) if isinstance(x, tuple) else module(x)
    return x
