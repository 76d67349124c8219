"""Models with dropout, exported by torch.export in training and trained by us for a step: the loss
and all gradients are those of torch, whose dropouts multiply by masks that are made here, by the
documented rule (executor/cpu/kernels/philox.h) written in numpy.

    dropout_test.py EXPORT_WRITER STRINGLINE SOURCES [NAMES]

Judged by model_zoo.main.
"""

import contextlib
import math
import os
from unittest import mock

import model_zoo
import numpy
from export_test import CONTEXT, MICROBATCHES, ROWS, VOCABULARY
from model_zoo import torch, transformers
from zoo_test import DEPTH, GPT, HEADS, SIZES, WIDTH, Model, Recurrent, of_transformers, tokens

nn, F = torch.nn, torch.nn.functional
RIGHT = 19
SEED = (7 << 32) + 2026  # of the runs: both words count


def philox(counter, key):
    """Philox4x32-10 of counters (N, 4) under a key of two words."""
    low = numpy.uint64(0xFFFFFFFF)
    c = [counter[:, i].astype(numpy.uint64) for i in range(4)]
    k = [numpy.uint64(word) for word in key]
    for _ in range(10):
        a, b = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        c = [(b >> numpy.uint64(32)) ^ c[1] ^ k[0], b & low,
             (a >> numpy.uint64(32)) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + numpy.uint64(0x9E3779B9)) & low, (k[1] + numpy.uint64(0xBB67AE85)) & low]
    return numpy.stack(c, 1)


def check_philox():
    """The known answers of Random123."""
    digits = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    for counter, key, wanted in [
            ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
            ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
            (digits, [0xA4093822, 0x299F31D0], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])]:
        assert philox(numpy.array([counter]), key).tolist() == [wanted]


def mask(sizes, p, site, first_sample):
    """The factors of a dropout: 0, or 1 / (1 - p)."""
    count = math.prod(sizes)
    counter = numpy.zeros(((count + 3) // 4, 4), numpy.uint64)
    counter[:, 0] = numpy.arange(len(counter))
    counter[:, 1:] = site, first_sample & 0xFFFFFFFF, first_sample >> 32
    words = philox(counter, (SEED & 0xFFFFFFFF, SEED >> 32)).reshape(-1)[:count]
    kept = (words >= p * 2.0 ** 32) / (1 - p if p < 1 else 1)
    return torch.tensor(kept.reshape(sizes), dtype=torch.float32)


class Masks:
    """Torch's dropouts of a microbatch, in the order in which the model performs them."""

    def __init__(self, first_sample):
        self.first_sample, self.site = first_sample, 0

    def times(self, x, p, drops=True):
        if not drops or p == 0:
            return x
        self.site += 1
        return x * mask(x.shape, p, self.site - 1, self.first_sample)

    def dropout(self, input, p=0.5, training=True, inplace=False):
        return self.times(input, p, training)

    def native_dropout(self, input, p, train):
        return self.times(input, p, train), None

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                  scale=None, enable_gqa=False):
        if enable_gqa:
            times = query.shape[-3] // key.shape[-3]
            key, value = (x.repeat_interleave(times, -3) for x in (key, value))
        scores = query @ key.transpose(-1, -2) * (scale or query.shape[-1] ** -0.5)
        if is_causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~seen, -math.inf)
        if attn_mask is not None:
            scores = (scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool
                      else scores + attn_mask)
        return self.times(scores.softmax(-1), dropout_p) @ value

    def recurrent(self, layer, x):
        """The layers of a recurrent module one by one; a dropout has (positions, rows, channels)."""
        directions = ["", "_reverse"] if layer.bidirectional else [""]
        x, states = x.transpose(0, 1), []
        for index in range(layer.num_layers):
            params = [getattr(layer, f"{part}_l{index}{direction}") for direction in directions
                      for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            first = x.new_zeros(len(directions), x.shape[1], layer.hidden_size)
            rest = params, True, 1, 0.0, False, layer.bidirectional, False
            if isinstance(layer, nn.LSTM):
                x, state, _ = torch.lstm(x, (first, first), *rest)
            else:
                x, state = torch.gru(x, first, *rest)
            states.append(state)
            x = self.times(x, layer.dropout, index + 1 < layer.num_layers)
        return x.transpose(0, 1), torch.cat(states)

    @contextlib.contextmanager
    def in_torch(self):
        with contextlib.ExitStack() as stack:
            for where, name, own in [(F, "dropout", self.dropout),
                                     (torch, "native_dropout", self.native_dropout),
                                     (F, "scaled_dot_product_attention", self.attention)]:
                stack.enter_context(mock.patch.object(where, name, own))
            for kind in (nn.LSTM, nn.GRU):
                called = kind.__call__
                stack.enter_context(mock.patch.object(
                    kind, "__call__", lambda layer, x, called=called: (
                        self.recurrent(layer, x) if layer.num_layers > 1 else called(layer, x))))
            yield


class Dropping(Model):
    """A model of tokens in training."""

    def __init__(self, name, build, schedule="1f1b"):
        super().__init__(name, build)
        self.schedule = schedule

    def make(self):
        super().make()
        self.one.train()

    def write(self, folder, sources, schedule, ranks):
        with open(os.path.join(folder, "run.yaml"), "w") as file:
            file.write(f"schedule: {{file: {sources}/schedules/{schedule}.sched, P: {ranks}, "
                       f"M: {MICROBATCHES}}}\nmodel: {{export: model.pt2}}\n"
                       f"data: {{tokens: tokens, dtype: uint16, microbatch: {ROWS}}}\n"
                       f"train: {{steps: 1, learning_rate: 0, weight_decay: 0, seed: {SEED}}}\n"
                       "device: cpu\n")

    def trained(self, tools, folder):
        writer, _, sources = tools
        torch.manual_seed(7)
        torch.randint(VOCABULARY, (3000,), dtype=torch.int16).numpy().tofile(
            os.path.join(folder, "tokens"))
        out, said = model_zoo.performed(writer, folder, [
            lambda: self.write(folder, sources, self.schedule, 2),
            lambda: self.write(folder, sources, "gpipe", 1)])
        rows, targets = (torch.tensor(said[key]).reshape(-1, ROWS, CONTEXT)
                         for key in ("tokens", "targets"))
        total, sites = 0.0, 0
        for index, (row, target) in enumerate(zip(rows, targets)):
            masks = Masks(index * ROWS)
            with masks.in_torch():
                logits = self.one(row)
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum")
            loss.backward()
            total += loss.item()
            sites = masks.site
        assert sites > 0, "the model drops nothing"
        return model_zoo.furthest(said["loss"] * targets.numel() / total - 1, out,
                                  {name: param.grad for name, param in self.used.items()
                                   if param.grad is not None})


class Feed(nn.Module):
    """A residual feed-forward with a function in the place of its dropout."""

    def __init__(self, drop):
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH), drop

    def forward(self, x):
        return x + self.down(self.drop(F.gelu(self.up(x))))


def feed(drop):
    return tokens(lambda: Feed(drop))


class Attending(nn.Module):
    """Attention by scaled_dot_product_attention, with fewer heads of keys."""

    def __init__(self, p, keys=HEADS, **options):
        super().__init__()
        size = WIDTH // HEADS
        self.q, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, keys * size), nn.Linear(WIDTH, keys * size)
        self.p, self.options = p, dict(options, enable_gqa=True) if keys < HEADS else options

    def forward(self, x):
        q, k, v = (of(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
                   for of in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, **self.options)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Written(nn.Module):
    """A layer with every dropout of a GPT, written out."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.feed = nn.LayerNorm(WIDTH), Feed(nn.Dropout(0.3))
        self.attention_drop, self.drop = nn.Dropout(0.2), nn.Dropout(0.4)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        seen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril()
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(~seen, -math.inf)
        return self.feed(x + self.drop(self.out(self.attention_drop(scores.softmax(-1)) @ v)))


def encoder(**options):
    return tokens(lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 24, dropout=0.1,
                                                     batch_first=True, **options))


def builders():
    yield "an MLP", feed(nn.Dropout(0.5))
    yield "an MLP, zb_h1", feed(nn.Dropout(0.5)), "zb_h1"
    yield "an MLP, in place", feed(nn.Dropout(0.3, inplace=True))
    yield "dropout of all", feed(lambda x: F.dropout(x, 1.0, True))
    yield "dropout and none", feed(lambda x: F.dropout(F.dropout(F.dropout(
        x, 0.0, True), 0.2, False), 0.7, True))
    yield "dropout of an expanded value", tokens(lambda: Feed(
        lambda x: x * F.dropout(torch.ones(CONTEXT, 24).expand_as(x), 0.3, True)))
    yield "native_dropout", feed(lambda x: torch.native_dropout(x, 0.2, True)[0])
    yield "attention", tokens(lambda: Attending(0.2))
    yield "attention, causal", tokens(lambda: Attending(0.2, is_causal=True)), "zb_h1"
    yield "attention of groups", tokens(lambda: Attending(0.3, 2, is_causal=True))
    yield "a written layer", tokens(Written), "zb_h1"
    yield "TransformerEncoderLayer", encoder()
    yield "TransformerEncoderLayer, norm first", encoder(norm_first=True, activation="gelu")
    for kind in (nn.LSTM, nn.GRU):
        yield f"{kind.__name__} of two layers", tokens(
            lambda kind=kind: Recurrent(kind, num_layers=2, dropout=0.3))
    yield "LSTM of three layers, bidirectional", tokens(
        lambda: Recurrent(nn.LSTM, num_layers=3, dropout=0.2, bidirectional=True))
    yield "GPT-2", of_transformers("AutoModelForCausalLM", "GPT2", GPT, {"use_cache": False})
    yield "BERT", of_transformers("AutoModelForMaskedLM", "Bert", SIZES, {})
    yield "T5's encoder and decoder", of_transformers(
        "AutoModelForSeq2SeqLM", "T5",
        dict(vocab_size=VOCABULARY, d_model=WIDTH, d_ff=24, d_kv=4, num_layers=DEPTH,
             num_heads=HEADS, decoder_start_token_id=0), {"use_cache": False})


if __name__ == "__main__":
    check_philox()
    assert transformers is not None
    model_zoo.main((Dropping(*named) for named in builders()), RIGHT)
