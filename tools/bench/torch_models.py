"""The models of run files as stages of torch modules: GPT (stages/models/gpt.h) and Llama
(stages/models/decoder.h), with the same names of parameters and the same first values
(stages/init.h), so that both sides train the same.
"""

import numpy
import torch
from torch import nn
from torch.nn import functional

GOLDEN = numpy.uint64(0x9E3779B97F4A7C15)


def mix(bits):
    bits = (bits ^ (bits >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> numpy.uint64(31))


def hash_of(name):
    """FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return numpy.uint64(value)


def normal_values(name, count, stddev, seed):
    """The first values of a parameter of ours."""
    def uniform(bits):
        return ((bits >> numpy.uint64(11)).astype(numpy.float64) + 0.5) * 2.0**-53

    with numpy.errstate(over="ignore"):
        key = mix(mix(numpy.uint64(seed) + GOLDEN) ^ hash_of(name))
        twice = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(2)
        first = uniform(mix(key + GOLDEN * (twice + numpy.uint64(1))))
        second = uniform(mix(key + GOLDEN * (twice + numpy.uint64(2))))
    values = float(stddev) * numpy.sqrt(-2 * numpy.log(first)) * numpy.cos(2 * numpy.pi * second)
    return torch.from_numpy(values.astype(numpy.float32))


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.epsilon = epsilon

    def forward(self, x):
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width, heads = sizes["width"], sizes["heads"]
        self.heads, self.kv_heads = heads, sizes.get("kv_heads", heads)
        self.head = sizes.get("head_dim", width // heads)
        self.theta = sizes.get("theta")  # None: nothing is rotated
        packed = (heads + 2 * self.kv_heads) * self.head
        gpt = sizes["kind"] == "gpt"
        self.qkv = nn.Linear(width, packed, bias=gpt or sizes["qkv_bias"])
        self.projection = nn.Linear(heads * self.head, width, bias=gpt)
        if sizes.get("qk_norm"):
            self.query_norm = Norm(self.head, sizes["epsilon"])
            self.key_norm = Norm(self.head, sizes["epsilon"])

    def rotated(self, x):
        half = self.head // 2
        places = torch.arange(x.shape[2], dtype=torch.float32, device=x.device)
        angles = torch.outer(places, self.theta ** (
            -torch.arange(half, dtype=torch.float32, device=x.device) / half))
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)

    def forward(self, x):
        batch, context, _ = x.shape
        counts = [self.heads, self.kv_heads, self.kv_heads]
        q, k, v = (part.view(batch, context, count, self.head).transpose(1, 2)
                   for part, count in zip(
                       self.qkv(x).split([n * self.head for n in counts], dim=2), counts))
        if hasattr(self, "query_norm"):
            q, k = self.query_norm(q), self.key_norm(k)
        if self.theta is not None:
            q, k = self.rotated(q), self.rotated(k)
        y = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.projection(y.transpose(1, 2).reshape(batch, context, -1))


class GptMlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.up = nn.Linear(sizes["width"], 4 * sizes["width"])
        self.down = nn.Linear(4 * sizes["width"], sizes["width"])

    def forward(self, x):
        return self.down(functional.gelu(self.up(x), approximate="tanh"))


class GatedMlp(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate_up = nn.Linear(sizes["width"], 2 * sizes["hidden"], bias=False)
        self.down = nn.Linear(sizes["hidden"], sizes["width"], bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)


def norm_of(sizes):
    if sizes["kind"] == "gpt":
        return nn.LayerNorm(sizes["width"])
    return Norm(sizes["width"], sizes["epsilon"])


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm1, self.norm2 = norm_of(sizes), norm_of(sizes)
        self.attention = Attention(sizes)
        self.mlp = GptMlp(sizes) if sizes["kind"] == "gpt" else GatedMlp(sizes)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Stage(nn.Module):
    """Stage `stage`, with layers[s] layers in stage s. With bf16 its products are in bf16
    (autocast), and its parameters and its output stay fp32."""

    def __init__(self, sizes, layers, stage, precision, device):
        super().__init__()
        width = sizes["width"]
        self.bf16, self.device_type = precision == "bf16", torch.device(device).type
        self.is_last = stage == len(layers) - 1
        if stage == 0:
            self.embedding = nn.Embedding(sizes["vocabulary"], width)
            if sizes["kind"] == "gpt":
                self.position = nn.Embedding(sizes["context"], width)
        before = sum(layers[:stage])
        self.layers = nn.ModuleDict(
            {str(layer): Layer(sizes) for layer in range(before, before + layers[stage])})
        if self.is_last:
            self.norm = norm_of(sizes)
            self.head = nn.Linear(width, sizes["vocabulary"], bias=False)

    def fill(self, sizes, seed):
        stddev = numpy.float32(sizes.get("stddev", 0.02))
        at_ends = stddev / numpy.sqrt(numpy.float32(2) * numpy.float32(sizes["layers"]))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith(".bias"):
                    parameter.zero_()
                elif parameter.dim() == 1:
                    parameter.fill_(1)
                else:
                    ends = name.endswith((".projection.weight", ".down.weight"))
                    values = normal_values(name, parameter.numel(), at_ends if ends else stddev,
                                           seed)
                    parameter.copy_(values.view_as(parameter))

    def forward(self, x):
        with torch.autocast(self.device_type, dtype=torch.bfloat16, enabled=self.bf16):
            if hasattr(self, "embedding"):
                x = self.embedding(x)
                if hasattr(self, "position"):
                    x = x + self.position.weight
            for layer in self.layers.values():
                x = layer(x)
            return self.head(self.norm(x)) if self.is_last else x
