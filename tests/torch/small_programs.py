"""Small programs, each with a single peculiarity: its name, its builder, and SAME if its gradients are
torch's, or else what its refusal says."""

import math

from export_test import CONTEXT, VOCABULARY, load_torch

torch, _, load_file = load_torch()
nn, F = torch.nn, torch.nn.functional
WIDTH, HEADS, HIDDEN, DEPTH = 16, 4, 24, 3
CHANNELS = WIDTH // HEADS
SAME = "same"  # gradients are torch's


class Layer(nn.Module):
    """A layer of Llama's kind, with parts that a peculiar layer replaces."""

    width, keys, bias, channels = WIDTH, HEADS, False, CHANNELS

    def __init__(self):
        super().__init__()
        sizes = {"q": HEADS * self.channels, "k": self.keys * self.channels,
                 "v": self.keys * self.channels}
        for name, size in sizes.items():
            setattr(self, name, nn.Linear(self.width, size, bias=self.bias))
        self.o = nn.Linear(HEADS * self.channels, self.width, bias=self.bias)
        self.gate, self.up = (nn.Linear(self.width, HIDDEN, bias=self.bias) for _ in "gu")
        self.down = nn.Linear(HIDDEN, self.width, bias=self.bias)
        self.first, self.second = nn.LayerNorm(self.width), nn.RMSNorm(self.width, 1e-4)
        self.more()

    def more(self):
        """The further parts of a peculiar layer."""

    def forward(self, x):
        x = x + self.mix(self.first(x))
        return x + self.feed(self.second(x))

    def heads(self, rows, keys):
        return rows.view(*rows.shape[:2], keys, self.channels).transpose(1, 2)

    def of(self, x):
        return (self.heads(self.q(x), HEADS), self.heads(self.k(x), self.keys),
                self.heads(self.v(x), self.keys))

    def mix(self, x):
        return self.o(self.joined(self.attend(*self.of(x))))

    def joined(self, y):
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def feed(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Model(nn.Module):
    def __init__(self, layer=Layer):
        super().__init__()
        self.table, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(layer() for _ in range(DEPTH))
        self.norm = nn.RMSNorm(WIDTH, 1e-5)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.more()

    def more(self):
        """The further parts of a peculiar model."""

    def forward(self, input_ids, labels=None):
        return self.end(self.body(self.begin(input_ids)), labels)

    def begin(self, ids):
        return self.table(ids) + self.places(torch.arange(CONTEXT))

    def body(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def end(self, x, labels):
        return self.head(self.norm(x))


def layer(**parts):
    return lambda: Model(type("Peculiar", (Layer,), parts))


def model(**parts):
    return lambda: type("Peculiar", (Model,), parts)()


def prepared(change, make=Model):
    """A model changed after its construction."""
    def made():
        one = make()
        change(one)
        return one
    return made


def losing(loss):
    """A program with the loss of its logits, and the logits."""
    def end(self, x, labels):
        logits = self.head(self.norm(x))
        if labels is None:
            return logits
        return loss(logits, labels), logits
    return model(end=end)


def entropy(**options):
    return losing(lambda logits, labels: F.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                                                         **options))


def embedding(**options):
    def more(self):
        self.table = nn.Embedding(VOCABULARY, WIDTH, **options)
    return model(more=more)


# Attention

def mask_of(value, seen):
    hidden = torch.full((CONTEXT, CONTEXT), value)
    return torch.where(seen, 0.0, hidden)


def row_and_column():
    at = torch.arange(CONTEXT)
    return at[:, None], at[None, :]


SCALE = 1 / math.sqrt(CHANNELS)


def written_out(scores_to_weights, scale=SCALE):
    def attend(self, q, k, v):
        return scores_to_weights(q @ k.transpose(2, 3) * scale) @ v
    return layer(attend=attend)


def masked(scores, value=-1e9):
    row, column = row_and_column()
    return scores.masked_fill(column > row, value)


def scaled_dot(**options):
    return layer(attend=lambda self, q, k, v: F.scaled_dot_product_attention(q, k, v, **options))


def with_mask(make, **options):
    return layer(attend=lambda self, q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=make(*row_and_column()), **options))


def angles(theta=100.0, channels=CHANNELS):
    power = torch.arange(0, channels, 2) / channels
    angle = torch.arange(CONTEXT)[:, None] * theta ** -power[None, :]
    return torch.cat([angle, angle], -1)


def halves(x):
    return x[..., : CHANNELS // 2], x[..., CHANNELS // 2:]


def turned(x, cut=halves, join=lambda low, high: torch.cat([-high, low], -1), angle=angles):
    return x * angle().cos() + join(*cut(x)) * angle().sin()


def rotated(turn_q=turned, turn_k=None):
    return layer(attend=lambda self, q, k, v: Layer.attend(self, turn_q(q), (turn_k or turn_q)(k), v))


def normed_heads(order, epsilons=(1e-5, 1e-5), shared=False):
    def more(self):
        self.q_norm, self.k_norm = (nn.RMSNorm(CHANNELS, epsilon) for epsilon in epsilons)
        if shared:
            self.k_norm = self.q_norm

    def attend(self, q, k, v):
        return Layer.attend(self, order(self.q_norm, q), order(self.k_norm, k), v)
    return layer(more=more, attend=attend)


def grouped(repeat, keys=2):
    return layer(keys=keys, attend=lambda self, q, k, v: Layer.attend(self, q, repeat(k), repeat(v)))


def expanded(x, at):
    return x.unsqueeze(at).expand(*x.shape[:at], 2, *x.shape[at:]).reshape(x.shape[0], 4, CONTEXT, -1)


def packed(cut):
    def more(self):
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def of(self, x):
        return [self.heads(part, HEADS) for part in cut(self.qkv(x))]
    return layer(more=more, of=of)


ATTENTION = [
    ("attention written out, its mask filled", written_out(lambda s: masked(s).softmax(-1)), SAME),
    ("attention written out, its mask added", written_out(
        lambda s: (s + mask_of(-1e9, row_and_column()[1] <= row_and_column()[0])).softmax(-1)),
     SAME),
    ("a softmax over queries", written_out(lambda s: masked(s).softmax(-2)), SAME),
    ("a softmax over heads", written_out(lambda s: masked(s).softmax(1)), SAME),
    ("a mask of truths that is added", written_out(
        lambda s: (s + (row_and_column()[1] > row_and_column()[0])).softmax(-1)), SAME),
    ("a mask that hides little", written_out(lambda s: masked(s, -2.0).softmax(-1)), SAME),
    ("a mask that hides nothing", with_mask(lambda row, column: torch.zeros(1, 1, 1, 1)), SAME),
    ("a mask of zeros", with_mask(lambda row, column: 0.0 * (row + column)), SAME),
    ("a mask of a window", with_mask(lambda row, column: (column <= row) & (column > row - 4)), SAME),
    ("a mask for each head", with_mask(lambda row, column: torch.cat(
        3 * [(column <= row)[None]] + [(column + row >= 0)[None]])), SAME),
    ("a mask for each head, all causal", with_mask(lambda row, column: torch.cat(
        4 * [(column <= row)[None]])), SAME),
    ("a mask of bits", with_mask(lambda row, column: ((column <= row).long() * 3 & 2) == 2), SAME),
    ("a mask of bits that differ", with_mask(
        lambda row, column: ((column <= row).long() * 3 & 4) == 0), SAME),
    ("a mask of rounded numbers", with_mask(
        lambda row, column: ((column - row) / CONTEXT).to(torch.long) == 0), SAME),
    ("no mask", scaled_dot(), SAME),
    ("dropout of weights that is off", written_out(
        lambda s: F.dropout(masked(s).softmax(-1), 0.3, False)), SAME),
    ("a scale of attention", scaled_dot(is_causal=True, scale=0.3), SAME),
    ("a scale of 0", scaled_dot(is_causal=True, scale=0.0), "its scale is 0"),
    ("a scale that is the default", scaled_dot(is_causal=True, scale=CHANNELS ** -0.5), SAME),
    ("no scale", written_out(lambda s: masked(s).softmax(-1), 1.0), SAME),
    ("a softmax whose gradient stops", written_out(lambda s: masked(s).softmax(-1).detach()),
     "it stops gradients"),
    ("a sequence of all batches", layer(
        of=lambda self, x: [y.view(1, -1, HEADS, CHANNELS).transpose(1, 2)
                            for y in (self.q(x), self.k(x), self.v(x))],
        joined=lambda self, y: y.transpose(1, 2).reshape(-1, CONTEXT, WIDTH)), SAME),
    ("heads beside tokens", layer(heads=lambda self, rows, keys: rows.view(
        rows.shape[0], keys, CONTEXT, CHANNELS)), SAME),
    ("grouped queries, repeated", grouped(lambda x: x.repeat_interleave(2, 1)), SAME),
    ("grouped queries, expanded", grouped(lambda x: expanded(x, 2)), SAME),
    ("grouped queries in another order", grouped(lambda x: expanded(x, 1)), SAME),
    ("grouped queries, tiled", grouped(lambda x: x.repeat(1, 2, 1, 1)), SAME),
    ("grouped queries, told", layer(keys=2, attend=lambda self, q, k, v:
     F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)), SAME),
    ("one head of keys", layer(keys=1), SAME),
    ("keys twice as long", layer(attend=lambda self, q, k, v: F.scaled_dot_product_attention(
        q, torch.cat([k, k], 2), torch.cat([v, v], 2), is_causal=True)), SAME),
    ("queries that are keys", prepared(lambda m: [setattr(of, "k", of.q) for of in m.layers]), SAME),
    ("keys that are queries", layer(of=lambda self, x: (
        self.heads(self.q(x), HEADS), self.heads(self.q(x), HEADS), self.heads(self.v(x), HEADS))), SAME),
    ("keys of something else", layer(of=lambda self, x: (
        self.heads(self.q(x), HEADS), self.heads(self.k(self.second(x)), HEADS),
        self.heads(self.v(x), HEADS))), SAME),
    ("queries, keys and values split", packed(lambda y: y.split(WIDTH, -1)), SAME),
    ("queries, keys and values chunked", packed(lambda y: y.chunk(3, 2)), SAME),
    ("queries, keys and values sliced", packed(
        lambda y: (y[..., :WIDTH], y[..., WIDTH:-WIDTH], y[..., -WIDTH:])), SAME),
    ("keys before queries", packed(lambda y: [y.chunk(3, -1)[i] for i in (1, 0, 2)]), SAME),
    ("columns by steps", packed(lambda y: (y[..., ::3], y[..., 1::3], y[..., 2::3])), SAME),
    ("columns that overlap", packed(
        lambda y: (y[..., :WIDTH], y[..., 8:8 + WIDTH], y[..., -WIDTH:])), SAME),
]

POSITIONS = [
    ("rotary positions", rotated(), SAME),
    ("rotary positions of chunks", rotated(lambda x: turned(x, lambda y: y.chunk(2, -1))), SAME),
    ("rotary positions of interleaved halves", rotated(
        lambda x: turned(x, lambda y: (y[..., ::2], y[..., 1::2]))), SAME),
    ("one half by steps", rotated(lambda x: turned(x, lambda y: (y[..., ::2], y[..., 2:]))), SAME),
    ("slices that are not halves", rotated(
        lambda x: turned(x, lambda y: (y[..., :3], y[..., 3:]))), SAME),
    ("halves that overlap", rotated(lambda x: turned(x, lambda y: (y[..., :2], y[..., 1:3]))), SAME),
    ("halves the other way", rotated(
        lambda x: turned(x, join=lambda low, high: torch.cat([high, -low], -1))), SAME),
    ("rotary positions backwards", rotated(
        lambda x: x * angles().cos() - turned(x).sub(x * angles().cos())), SAME),
    ("rotary positions of queries alone", rotated(turned, lambda x: x), SAME),
    ("two thetas", rotated(turned, lambda x: turned(x, angle=lambda: angles(200.0))), SAME),
    ("angles for each head", rotated(lambda x: turned(x, angle=lambda: torch.cat(
        3 * [angles()[None]] + [2 * angles()[None]]))), SAME),
    ("angles for each head, all alike", rotated(lambda x: turned(x, angle=lambda: torch.cat(
        4 * [angles()[None]]))), SAME),
    ("angles from 1 on", rotated(lambda x: turned(x, angle=lambda: angles() + 1)), SAME),
    ("rotation twice", rotated(lambda x: turned(turned(x))), SAME),
    ("angles of whole numbers", rotated(lambda x: turned(
        x, angle=lambda: (angles() * 1.9).to(torch.long))), SAME),
    ("norms of heads, then rotation", normed_heads(lambda norm, x: turned(norm(x))), SAME),
    ("rotation, then norms of heads", normed_heads(lambda norm, x: norm(turned(x))), SAME),
    ("norms of heads alone", normed_heads(lambda norm, x: norm(x)), SAME),
    ("one norm for queries and keys", normed_heads(lambda norm, x: norm(x), shared=True), SAME),
    ("two epsilons", normed_heads(lambda norm, x: norm(x), (1e-5, 1e-3)), SAME),
    ("positions from 1 on", model(begin=lambda self, ids: self.table(ids) + self.places(
        torch.cat([torch.arange(1, CONTEXT), torch.zeros(1, dtype=torch.long)]))), SAME),
    ("positions backwards", model(begin=lambda self, ids: self.table(ids) + self.places(
        torch.arange(CONTEXT - 1, -1, -1))), SAME),
    ("positions that halve", model(begin=lambda self, ids: self.table(ids) + self.places(
        (torch.arange(CONTEXT) / 2).long())), SAME),
    ("positions by a sum", model(begin=lambda self, ids: self.table(ids) + self.places(
        torch.ones(1, CONTEXT, dtype=torch.long).cumsum(-1) - 1)), SAME),
    ("a position that is padding", model(more=lambda self: setattr(
        self, "places", nn.Embedding(CONTEXT, WIDTH, padding_idx=0))), SAME),
    ("no positions", model(begin=lambda self, ids: self.table(ids)), SAME),
]

TABLES = [
    ("padding", embedding(padding_idx=3), SAME),
    ("scale_grad_by_freq", embedding(scale_grad_by_freq=True), "its 'scale_grad_by_freq' is True"),
    ("sparse", embedding(sparse=True), "its 'sparse' is True"),
    ("max_norm", embedding(max_norm=1.0), "aten.embedding_renorm_.default"),
    ("a table with a factor", model(begin=lambda self, ids: self.table(ids) * 4.0), SAME),
    ("a table read twice", model(begin=lambda self, ids: self.table(ids) + self.table(ids)), SAME),
    ("tokens that are counted from 1", model(begin=lambda self, ids: self.table(ids - 1)),
     "no input of token numbers"),
    ("tokens as truths", model(begin=lambda self, ids: self.table(ids.bool().long())),
     "no input of token numbers"),
    ("tokens in few bits", model(begin=lambda self, ids: self.table(ids.to(torch.int8).int())),
     "no input of token numbers"),
    ("tokens that are detached", model(begin=lambda self, ids: self.table(ids.detach())), SAME),
]


def tie(one):
    one.head.weight = one.table.weight


def share(one):
    one.head.weight = nn.Parameter(one.table.weight.data)


def lend(one):
    one.layers[1].q.weight = nn.Parameter(one.layers[0].up.weight.data[:WIDTH])


def freeze(*names):
    def change(one):
        for name in names:
            one.get_parameter(name).requires_grad_(False)
    return prepared(change)


PARAMETERS = [
    ("tied", prepared(tie), SAME),
    ("two parameters in one memory", prepared(share),
     "parameters 'head.weight' and 'table.weight' are two"),
    ("a part of a parameter's memory", prepared(lend), "are two, with a gradient each"),
    ("tied with a factor", prepared(tie, model(
        end=lambda self, x, labels: self.head(self.norm(x)) * 0.5)), SAME),
    ("a frozen product", freeze("layers.1.up.weight"),
     SAME),
    ("a frozen table", freeze("table.weight"), SAME),
    ("a frozen norm", freeze("norm.weight"), SAME),
    ("a frozen bias", freeze("layers.0.first.bias"), SAME),
    ("a frozen beginning", prepared(lambda m: [
        part.requires_grad_(False) for part in (m.table, m.places, m.layers[0], m.layers[1])]), SAME),
    ("a frozen end", prepared(lambda m: [
        part.requires_grad_(False) for part in (m.head, m.norm, m.layers[2])]), SAME),
    ("a model that is frozen", prepared(lambda m: m.requires_grad_(False)),
     "all of its parameters have requires_grad=False"),
    ("a product with itself turned", layer(feed=lambda self, x: F.linear(x, self.q.weight.t())),
     "is used in two ways"),
    ("a matrix turned", layer(feed=lambda self, x: x @ self.extra.transpose(0, 1),
                              more=lambda self: setattr(self, "extra", nn.Parameter(
                                  torch.randn(WIDTH, WIDTH)))), SAME),
    ("a matrix not turned", layer(feed=lambda self, x: x @ self.extra.permute(0, 1),
                                  more=lambda self: setattr(self, "extra", nn.Parameter(
                                      torch.randn(WIDTH, WIDTH)))), SAME),
    ("a product twice in a layer", layer(feed=lambda self, x: self.extra(F.gelu(
        self.extra(x), approximate="tanh")), more=lambda self: setattr(
            self, "extra", nn.Linear(WIDTH, WIDTH))), SAME),
    ("a norm twice in a layer", layer(
        forward=lambda self, x: (lambda y: y + self.feed(self.second(y)))(
            x + self.mix(self.second(x)))), SAME),
    ("a gate that is the other product", layer(
        feed=lambda self, x: self.down(F.silu(self.gate(x)) * self.gate(x))), SAME),
    ("a matrix that is a buffer", layer(
        more=lambda self: self.register_buffer("extra", torch.randn(WIDTH, WIDTH)),
        feed=lambda self, x: x @ self.extra), SAME),
    ("a factor that is a buffer", layer(
        more=lambda self: self.register_buffer("extra", torch.tensor(0.7)),
        feed=lambda self, x: self.down(F.gelu(self.up(x), approximate="tanh")) * self.extra), SAME),
    ("a factor that is a parameter", layer(
        more=lambda self: setattr(self, "extra", nn.Parameter(torch.tensor(0.7))),
        feed=lambda self, x: x * self.extra), SAME),
    ("weights of a norm beside 1", layer(
        feed=lambda self, x: F.rms_norm(x, (WIDTH,), self.second.weight + 1)), SAME),
    ("a bias for all rows", layer(
        more=lambda self: setattr(self, "extra", nn.Parameter(torch.randn(WIDTH))),
        feed=lambda self, x: x + self.extra), SAME),
    ("biases", layer(bias=True), SAME),
    ("a parameter cast to whole numbers", layer(
        feed=lambda self, x: F.linear(x, self.q.weight.long().float())), SAME),
    ("a parameter whose gradient stops", layer(
        feed=lambda self, x: F.linear(x, self.q.weight.detach())), "it stops gradients"),
]


def without_gradient(self, x):
    with torch.no_grad():
        return Layer.feed(self, x)


def with_gradient_inside(self, x):
    with torch.no_grad(), torch.enable_grad():
        return Layer.feed(self, x)


def in_autocast(self, x):
    with torch.autocast("cpu", torch.bfloat16):
        return Layer.feed(self, x)


def without_autocast(self, x):
    with torch.autocast("cpu", enabled=False):
        return Layer.feed(self, x)


def in_place(self, x):
    y = self.up(x)
    y.mul_(2.0)
    return self.down(y)


def behind_a_view(self, x):
    y = self.down(self.up(x))
    y.view(-1)[3:].add_(1.0)
    return y


def rms(epsilon=1e-5, keep=True, gamma=lambda self: self.second.weight, dim=-1, base=lambda x: x):
    def feed(self, x):
        mean = base(x).pow(2).mean(dim, keepdim=keep)
        return self.down(F.gelu(self.up(gamma(self) * (x * torch.rsqrt(mean + epsilon))),
                                approximate="tanh"))
    return layer(feed=feed)


# Writes in place, choices by value, and places that are values

def changed(change):
    """A layer whose hidden values, of HIDDEN channels, are changed by a function of its own."""
    def feed(self, x):
        return self.down(change(self, self.up(x), self.gate(x)) + self.up(x) * self.gate(x))
    return layer(feed=feed)


def slices_written(self, y, g):
    y = y.clone()
    y[:, 1:, ::2] = g[:, :-1, ::2]
    y[:, 0, 3] = 0.5
    y[..., -4:-1] *= g[..., 1:4]
    return y


def base_written(self, y, g):
    rows = y.view(-1, HIDDEN)
    turned = rows.t()
    y.mul_(0.5).add_(g)
    return y + turned.t().view_as(y)


def views_of_views_written(self, y, g):
    y.transpose(1, 2)[:, 3].add_(1.0)
    y.permute(2, 0, 1).unsqueeze(0)[0, 2:5].mul_(g.permute(2, 0, 1)[:3])
    return y


def parts_written(self, y, g):
    first, second = y[..., : HIDDEN // 2], y[..., HIDDEN // 2:]
    first.add_(second)
    second.mul_(2.0)
    g[:, 1].zero_()
    return y + g


def copied(self, y, g):
    made = torch.empty_like(y)
    made.copy_(g)
    made[:, 2:4].copy_(y[:, 4:6])
    made.masked_fill_(y > 1, 0.25)
    made[:, :, :1].fill_(2.0)
    return made


def perhaps_a_view(self, y, g):
    turned = y.transpose(1, 2)
    turned.reshape(-1).add_(1.0)
    return y


def over_positions(self, y, g):
    order = y.sum(-1).argsort(-1)
    return y + g[torch.arange(y.shape[0])[:, None], order]


def added_rows(self, y, g):
    rows = y.flatten(0, 1)
    to = (g.flatten(0, 1).argmax(-1) % 5) * 2 - 1
    return torch.zeros_like(rows).index_add(0, to.clamp(min=0), rows, alpha=2.0).view_as(y)


def rows_put(self, y, g):
    heads = g.argmax(-1, keepdim=True)
    y = y.scatter(-1, heads, 3.0).scatter_add(-1, heads + 0 * heads, g.tanh()[..., :1])
    order = y.sum(1).argsort(-1)
    out = torch.zeros_like(y)
    out[torch.arange(y.shape[0])[:, None], :, order] = y.transpose(1, 2)
    return out


def largest(self, y, g):
    values, at = g.topk(3, -1)
    return torch.zeros_like(g).scatter(-1, at, values.softmax(-1)) * y


def numbered(self, ids):
    """Positions that count tokens other than 1, as RoBERTa's."""
    there = ids.ne(1).int()
    places = (torch.cumsum(there, 1).type_as(there) * there).long()
    return self.table(ids) + self.places(places % CONTEXT)


INDICES = [
    ("slices written", changed(slices_written), SAME),
    ("views read after a write into their base", changed(base_written), SAME),
    ("views of views written", changed(views_of_views_written), SAME),
    ("halves written", changed(parts_written), SAME),
    ("copy_, masked_fill_ and fill_", changed(copied), SAME),
    ("a write into a tensor of its own", changed(lambda self, y, g: torch.zeros_like(y).add_(y)
                                                 .index_fill_(1, torch.tensor([1, 4]), 0.5)), SAME),
    ("a write into what is perhaps a view", changed(perhaps_a_view), "may share memory with what"),
    ("a write through detach", changed(lambda self, y, g: (y.detach().mul_(0.5), y)[1]),
     "it writes through detach()"),
    ("a write into a buffer", layer(
        more=lambda self: self.register_buffer("count", torch.zeros(HIDDEN)),
        feed=lambda self, x: self.down(self.up(x) + self.count.add_(1.0))),
     "which keeps what is written"),
    ("sizes changed in place", changed(lambda self, y, g: y.unsqueeze_(0).sum(0)),
     "it changes its operand's sizes"),
    ("the largest", changed(largest), SAME),
    ("the smallest positions", changed(lambda self, y, g: y + g.topk(
        4, dim=1, largest=False)[0].sum(1, keepdim=True)), SAME),
    ("sorted", changed(lambda self, y, g: y.sort(-1, descending=True)[0]
                       + g.gather(-1, y.argsort(-1))), SAME),
    ("a gather of fewer", changed(lambda self, y, g: y + g[:, :, :3].gather(
        2, g[:, :1, :2].argsort(-1)).sum((1, 2), keepdim=True)), SAME),
    ("one-hot of the largest", changed(lambda self, y, g: y * F.one_hot(
        g.argmax(-1), HIDDEN).float() + y), SAME),
    ("the largest along a dimension", changed(lambda self, y, g: y + g.max(1, keepdim=True)[0]
                                              + g.min(-1)[0][..., None]), SAME),
    ("the largest of all", changed(lambda self, y, g: y + g.max()), "give it a dim"),
    ("the larger and the smaller of two", changed(
        lambda self, y, g: torch.max(y, g) - torch.min(y, g * 0.5)), SAME),
    ("ops by their long names", changed(lambda self, y, g: torch.concat(
        [torch.multiply(y, g), torch.subtract(g, y, alpha=2)], -1)[..., :HIDDEN].clip(-1, 1)
        * torch.greater(g, 0.1).float() + torch.negative(y).multiply_(0.5)), SAME),
    ("rows of a parameter by value", layer(
        more=lambda self: setattr(self, "extra", nn.Parameter(torch.randn(HIDDEN, HIDDEN))),
        feed=lambda self, x: self.down(self.up(x) * self.extra[self.gate(x).argmax(-1)]
                                       + self.gate(x))), SAME),
    ("rows by value, of each sequence", changed(over_positions), SAME),
    ("channels by constant numbers", changed(
        lambda self, y, g: y + g[:, :, torch.arange(HIDDEN - 1, -1, -1)]), SAME),
    ("rows added by value", changed(added_rows), SAME),
    ("numbers put by value", changed(rows_put), SAME),
    ("whole quotients", changed(lambda self, y, g: y * (
        g.argmax(-1) // 3 + g.argmax(-1) % 3)[..., None].float()), SAME),
    ("an index by a mask", changed(lambda self, y, g: y * g[g > 0].sum()),
     "depends on the values of a tensor|does not export"),
    ("positions made of tokens", model(begin=numbered), SAME),
    ("tokens as numbers", model(begin=lambda self, ids: Model.begin(self, ids)
                                * (1 + ids[..., None] / 61.0)), SAME),
    ("a mask of tokens", model(begin=lambda self, ids: Model.begin(self, ids).masked_fill(
        (ids == 3)[..., None], 0.0)), SAME),
]


LAYERS = [
    ("plain", Model, SAME),
    ("detach", layer(feed=lambda self, x: Layer.feed(self, x.detach())), "aten.detach.default"),
    ("detach of what is added", model(body=lambda self, x: Model.body(self, x) + x.detach()),
     "it stops gradients"),
    ("no_grad", layer(feed=without_gradient), "it runs under torch.no_grad"),
    ("enable_grad", layer(feed=with_gradient_inside), SAME),
    ("autocast", layer(feed=in_autocast), "it runs under torch.autocast"),
    ("autocast that is off", layer(feed=without_autocast), SAME),
    ("in place", layer(feed=in_place), SAME),
    ("in place behind a view", layer(feed=behind_a_view), SAME),
    ("a cast to bfloat16", layer(feed=lambda self, x: Layer.feed(self, x.bfloat16().float())),
     "its result is bfloat16, narrower than every parameter"),
    ("a cast to double", layer(feed=lambda self, x: Layer.feed(self, x.double().float())), SAME),
    ("a cast to whole numbers", layer(feed=lambda self, x: Layer.feed(self, x.long().float())),
     SAME),
    ("dropout of channels", layer(feed=lambda self, x: F.dropout1d(Layer.feed(self, x), 0.2, True)),
     "feature_dropout.default is not known here: dropout of whole channels"),
    ("dropout of channels that is off", layer(
        feed=lambda self, x: F.dropout1d(Layer.feed(self, x), 0.2, False)), SAME),
    ("alpha dropout", layer(feed=lambda self, x: F.alpha_dropout(Layer.feed(self, x), 0.2, True)),
     "alpha_dropout.default is not known here: dropout of whole channels, or of another kind"),
    ("a dropout's mask", layer(feed=lambda self, x: torch.native_dropout(
        Layer.feed(self, x), 0.2, True)[1].float() * x), "its mask is read"),
    ("dropout of nothing", layer(feed=lambda self, x: F.dropout(Layer.feed(self, x), 0.0, True)),
     SAME),
    ("another epsilon of LayerNorm", layer(more=lambda self: setattr(
        self, "first", nn.LayerNorm(WIDTH, 0.1))), SAME),
    ("no epsilon of RMSNorm", layer(more=lambda self: setattr(
        self, "second", nn.RMSNorm(WIDTH))), SAME),
    ("LayerNorm over tokens, too", layer(more=lambda self: setattr(
        self, "first", nn.LayerNorm([CONTEXT, WIDTH]))), SAME),
    ("RMSNorm over tokens, too", layer(more=lambda self: setattr(
        self, "second", nn.RMSNorm([CONTEXT, WIDTH]))), SAME),
    ("LayerNorm without bias", layer(more=lambda self: setattr(
        self, "first", nn.LayerNorm(WIDTH, bias=False))), SAME),
    ("RMSNorm written out", rms(), SAME),
    ("RMSNorm written out, over another dimension", rms(dim=1), SAME),
    ("RMSNorm written out, of something else", rms(base=lambda x: x + x), SAME),
    ("RMSNorm written out, a weight beside 1", rms(gamma=lambda self: self.second.weight + 1), SAME),
    ("GELU by tanh", layer(feed=lambda self, x: self.down(F.gelu(self.up(x), approximate="tanh"))),
     SAME),
    ("GELU by the error function", layer(feed=lambda self, x: self.down(F.gelu(self.up(x)))), SAME),
    ("an encoder's layer of torch", lambda: Model(lambda: nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, activation="gelu")), SAME),
    ("SiLU alone", layer(feed=lambda self, x: self.down(F.silu(self.up(x)))), SAME),
    ("ReLU", layer(feed=lambda self, x: self.down(F.relu(self.up(x)))), SAME),
    ("a square", layer(feed=lambda self, x: self.down(self.up(x) * self.gate(x))), SAME),
    ("a square of one value", layer(feed=lambda self, x: (lambda y: self.down(y * y))(self.up(x))),
     SAME),
    ("a sum with itself", layer(feed=lambda self, x: (lambda y: y + y)(Layer.feed(self, x))), SAME),
    ("a quotient", layer(feed=lambda self, x: Layer.feed(self, x) / 3.0), SAME),
    ("a quotient rounded down", layer(
        feed=lambda self, x: torch.div(Layer.feed(self, x), 3.0, rounding_mode="floor")),
     SAME),
    ("a quotient without its fraction", layer(
        feed=lambda self, x: torch.div(Layer.feed(self, x), 3.0, rounding_mode="trunc")),
     "its rounding_mode is trunc"),
    ("a clamp by a tensor", layer(
        feed=lambda self, x: Layer.feed(self, x.clamp(min=torch.tensor(-0.5)))),
     "its 'min' is a tensor"),
    ("bits of whole numbers", layer(
        feed=lambda self, x: Layer.feed(self, x * ((x > 0).long() & 2).float())),
     "of whole numbers"),
    ("a sum of truths", layer(
        feed=lambda self, x: Layer.feed(self, x * ((x > 0) + (x > -1)).float())), "of truths"),
    ("logits of positions first", model(
        end=lambda self, x, labels: self.head(self.norm(x)).transpose(0, 1)),
     "its logits are (12, 3, 61), not (3, 12, ...) of the tokens"),
    ("a sum with a factor", layer(feed=lambda self, x: torch.add(
        Layer.feed(self, x), x, alpha=2.0)), SAME),
    ("a number that is added", layer(feed=lambda self, x: Layer.feed(self, x) + 1.0), SAME),
    ("a view of bits", layer(feed=lambda self, x: Layer.feed(
        self, x.view(torch.int32).view(torch.float32))), "its argument 'dtype' is not read"),
    ("rows turned", layer(feed=lambda self, x: Layer.feed(self, x.transpose(0, 1)).transpose(0, 1)), SAME),
    ("another residual", layer(forward=lambda self, x: Layer.forward(self, x) + 0.5 * x), SAME),
    ("layers of several widths", layer(
        forward=lambda self, x: self.down(F.gelu(self.up(x), approximate="tanh")) * 2.0), SAME),
    ("one layer for all", model(body=lambda self, x: self.layers[0](self.layers[0](x))), SAME),
]


def wide(first):
    """Layers of which every second one gives, or takes, another width."""
    class Wide(nn.Module):
        def __init__(self, width, to):
            super().__init__()
            self.norm, self.out = nn.RMSNorm(width, 1e-5), nn.Linear(width, to)

        def forward(self, x):
            return self.out(F.gelu(self.norm(x), approximate="tanh"))

    widths = [WIDTH, 20, 12, 20, WIDTH] if first else [WIDTH, WIDTH, 20, WIDTH, WIDTH]
    return model(more=lambda self: setattr(self, "layers", nn.ModuleList(
        Wide(a, b) for a, b in zip(widths, widths[1:]))))


WIDTHS = [
    ("layers of other widths in between", wide(False), SAME),
    ("layers all of other widths", wide(True), SAME),
]


def shifted(logits, labels):
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), labels[:, 1:].reshape(-1))


def padded(value):
    def loss(logits, labels):
        following = F.pad(labels, (0, 1), value=value)[..., 1:]
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), following.reshape(-1))
    return losing(loss)


def plain(logits, labels):
    return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1))


def alone(loss):
    def end(self, x, labels):
        logits = self.head(self.norm(x))
        return logits if labels is None else loss(logits, labels)
    return model(end=end)


LOSSES = [
    ("a loss", entropy(), SAME),
    ("a loss alone", alone(plain), SAME),
    ("a loss of the tokens behind", losing(shifted), SAME),
    ("a loss alone, of the tokens behind", alone(shifted), SAME),
    ("a loss of padded targets", padded(-100), SAME),
    ("a loss of targets padded with a token", padded(0), "changes the loss's targets"),
    ("label_smoothing", entropy(label_smoothing=0.1), "its 'label_smoothing' is 0.1"),
    ("label_smoothing alone", alone(lambda logits, labels: F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)), "its 'label_smoothing'"),
    ("ignore_index", entropy(ignore_index=3), "its 'ignore_index' is 3"),
    ("ignore_index as by default", entropy(ignore_index=-100), SAME),
    ("a sum", entropy(reduction="sum"), "its 'reduction' is 2"),
    ("no reduction", entropy(reduction="none"), "its 'reduction' is 0"),
    ("weights of classes", entropy(weight=torch.linspace(0.5, 1.5, VOCABULARY)),
     "its 'weight' is the tensor"),
    ("targets that are masked", losing(lambda logits, labels: plain(
        logits, labels.masked_fill(labels == 3, -100))), "changes the loss's targets"),
    ("every second target", losing(lambda logits, labels: plain(
        logits[:, ::2].contiguous(), labels[:, ::2].contiguous())), "targets"),
    ("a loss with a factor", losing(lambda logits, labels: 2.0 * plain(logits, labels)),
     "no cross-entropy of logits alone"),
    ("a loss and another term", losing(
        lambda logits, labels: plain(logits, labels) + 1e-2 * logits.logsumexp(-1).pow(2).mean()),
     "no cross-entropy of logits alone"),
    ("a loss of logits with a factor", model(end=lambda self, x, labels: (
        lambda logits: 2.0 * logits if labels is None else (plain(2.0 * logits, labels), logits))(
            self.head(self.norm(x)))), SAME),
    ("a loss of classes in the middle", losing(lambda logits, labels: F.cross_entropy(
        logits.transpose(1, 2), labels)), "its classes are not the last"),
    ("two losses", model(end=lambda self, x, labels: (lambda logits: logits if labels is None else (
        logits, plain(logits, labels), shifted(logits, labels)))(self.head(self.norm(x)))),
     "several losses"),
    ("two outputs", model(end=lambda self, x, labels: (
        lambda logits: (x, logits) if labels is not None else logits)(self.head(self.norm(x)))),
     "several outputs of three dimensions"),
    ("logits with a factor", model(end=lambda self, x, labels: self.head(self.norm(x)) / 4.0), SAME),
]
