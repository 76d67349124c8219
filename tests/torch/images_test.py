"""Small random models that read no running text: of images and sounds, and of sequences with one
class each. Each is exported by torch.export, cut into two stages and trained by us for a step on
samples with targets. Its loss and all its gradients are torch's, or it is refused by name.

    images_test.py EXPORT_WRITER STRINGLINE SOURCES [NAMES]

Judged by model_zoo.main.
"""

import copy
import os

import model_zoo
from export_test import MICROBATCHES, ROWS, draw
from model_zoo import load_file, torch, transformers

nn, F = torch.nn, torch.nn.functional
RIGHT = 47
CLASSES, SIDE, SAMPLES, IGNORED = 7, 16, 40, -100
IMAGE = (3, SIDE, SIDE)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class Residual(nn.Module):
    def __init__(self, body, skip=None):
        super().__init__()
        self.body, self.skip = body, skip or nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def norm(width):
    return nn.BatchNorm2d(width)


def basic(inner, width, stride=1, groups=1):
    """ResNet's block, or ResNeXt's with groups."""
    skip = None
    if stride > 1 or inner != width:
        skip = nn.Sequential(nn.Conv2d(inner, width, 1, stride, bias=False), norm(width))
    return Residual(nn.Sequential(
        nn.Conv2d(inner, width, 3, stride, 1, groups=groups, bias=False), norm(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, 1, 1, groups=groups, bias=False), norm(width)), skip)


def bottleneck(inner, width, stride=1):
    return Residual(nn.Sequential(
        nn.Conv2d(inner, width // 2, 1, bias=False), norm(width // 2), nn.ReLU(),
        nn.Conv2d(width // 2, width // 2, 3, stride, 1, bias=False), norm(width // 2), nn.ReLU(),
        nn.Conv2d(width // 2, width, 1, bias=False), norm(width)),
        nn.Sequential(nn.Conv2d(inner, width, 1, stride, bias=False), norm(width)))


class ResNet(nn.Module):
    def __init__(self, block, **options):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), norm(8), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        self.layers = nn.ModuleList([block(8, 8, **options), block(8, 16, 2, **options),
                                     block(16, 16, **options)])
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Inverted(nn.Module):
    """MobileNetV2's block, or EfficientNet's with a gate."""

    def __init__(self, width, act, gate=False):
        super().__init__()
        self.up = nn.Sequential(nn.Conv2d(width, 2 * width, 1, bias=False), norm(2 * width), act())
        self.deep = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, 1, 1, groups=2 * width,
                                            bias=False), norm(2 * width), act())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2 * width, 4, 1), nn.SiLU(),
                                  nn.Conv2d(4, 2 * width, 1), nn.Sigmoid()) if gate else None
        self.down = nn.Sequential(nn.Conv2d(2 * width, width, 1, bias=False), norm(width))

    def forward(self, x):
        y = self.deep(self.up(x))
        if self.gate is not None:
            y = y * self.gate(y)
        return x + self.down(y)


class Dense(nn.Module):
    """DenseNet's layer."""

    def __init__(self, inner):
        super().__init__()
        self.norm, self.conv = norm(inner), nn.Conv2d(inner, 4, 3, 1, 1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)


class Permuted(nn.Module):
    """ConvNeXt's block, with a scale of each channel."""

    def __init__(self, width):
        super().__init__()
        self.deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 24), nn.GELU(),
                                 nn.Linear(24, width))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = self.mlp(self.deep(x).permute(0, 2, 3, 1)) * self.scale
        return x + y.permute(0, 3, 1, 2)


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, 16))
        self.places = nn.Parameter(torch.zeros(1, 17, 16))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(
            16, 4, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(2))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class UNet(nn.Module):
    """A class for each pixel."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1),
                                   nn.Conv2d(8, 16, 3, stride=2, padding=1)])
        self.up = nn.Conv2d(24, 8, 3, padding="same")
        self.head = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        high = F.relu(self.down[0](x))
        low = F.relu(self.down[1](high))
        low = low.repeat_interleave(2, 2).repeat_interleave(2, 3)
        y = self.head(F.relu(self.up(torch.cat([high, low], 1))))
        return y.flatten(2).transpose(1, 2)


class Scalar(nn.Module):
    """A parameter without dimensions."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 8), nn.Tanh())
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.layers(x) * self.scale)


def of_images():
    """Pairs of a name and a function that makes the model."""
    conv, pool = nn.Conv2d, nn.MaxPool2d
    yield "an MLP of images", lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 16), nn.ReLU(), nn.Linear(16, 16), nn.GELU(),
        nn.Linear(16, CLASSES))
    yield "LeNet", lambda: nn.Sequential(
        conv(3, 6, 5), nn.ReLU(), pool(2), conv(6, 8, 3), nn.ReLU(), pool(2), nn.Flatten(),
        nn.Linear(32, 12), nn.ReLU(), nn.Linear(12, CLASSES))
    yield "VGG", lambda: nn.Sequential(
        conv(3, 8, 3, padding=1), norm(8), nn.ReLU(), conv(8, 8, 3, padding=1), norm(8), nn.ReLU(),
        pool(2, 2), conv(8, 12, 3, padding=1), nn.ReLU(), pool(3, 2, ceil_mode=True),
        nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(108, CLASSES))
    yield "ResNet", lambda: ResNet(basic)
    yield "ResNet of bottlenecks", lambda: ResNet(bottleneck)
    yield "ResNet in training", lambda: ResNet(basic)
    yield "norms in training without averages or weights", lambda: nn.Sequential(
        conv(3, 8, 3, 2), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU(), conv(8, 8, 3, 2),
        nn.BatchNorm2d(8, affine=False, momentum=0.3), nn.ReLU(), nn.Flatten(),
        nn.Linear(72, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    yield "ResNeXt", lambda: ResNet(
        lambda *sizes: basic(*sizes, groups=2))
    yield "ResNet of groups", lambda: nn.Sequential(
        conv(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.ReLU(), conv(8, 8, 3, 1, 1, bias=False),
        nn.GroupNorm(4, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))
    yield "MobileNetV2", lambda: nn.Sequential(
        conv(3, 8, 3, 2, 1), Inverted(8, nn.ReLU6), Inverted(8, nn.ReLU6),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))
    yield "MobileNetV3", lambda: nn.Sequential(
        conv(3, 8, 3, 2, 1), Inverted(8, nn.Hardswish, gate=True), Inverted(8, nn.Hardswish),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))
    yield "EfficientNet", lambda: nn.Sequential(
        conv(3, 8, 3, 2, 1), Inverted(8, nn.SiLU, gate=True), Inverted(8, nn.SiLU, gate=True),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))
    yield "DenseNet", lambda: nn.Sequential(
        conv(3, 8, 3, 2, 1), Dense(8), Dense(12), norm(16), nn.ReLU(), conv(16, 8, 1),
        nn.AvgPool2d(2), Dense(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, CLASSES))
    yield "ConvNeXt", lambda: nn.Sequential(
        conv(3, 8, 4, 4), Permuted(8), Permuted(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.LayerNorm(8), nn.Linear(8, CLASSES))
    yield "ConvMixer", lambda: nn.Sequential(
        conv(3, 8, 2, 2), nn.GELU(), norm(8),
        Residual(nn.Sequential(conv(8, 8, 5, groups=8, padding="same"), nn.GELU(), norm(8))),
        conv(8, 8, 1), nn.GELU(), norm(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, CLASSES))
    yield "SqueezeNet", lambda: nn.Sequential(
        conv(3, 8, 3, 2), nn.ReLU(), pool(3, 2, ceil_mode=True), conv(8, 4, 1), nn.ReLU(),
        conv(4, 8, 3, padding=1), nn.ReLU(), conv(8, CLASSES, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten())
    yield "ViT", ViT
    yield "UNet", UNet
    yield "a dilated convolution", lambda: nn.Sequential(
        conv(3, 6, 3, dilation=2, padding=(2, 1), stride=(1, 2)), nn.ReLU(), conv(6, 6, 1),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.AvgPool2d(2, ceil_mode=True),
        nn.Flatten(), nn.Linear(48, CLASSES))
    yield "a number as a parameter", Scalar


class Loudness(nn.Module):
    """Convolutions over time."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(2, 8, 5, 2, 1), nn.GELU(), nn.Conv1d(8, 8, 3, groups=4), nn.BatchNorm1d(8),
            nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 12, 3), nn.AdaptiveAvgPool1d(2), nn.Flatten())
        self.head = nn.Linear(24, CLASSES)

    def forward(self, x):
        return self.head(self.layers(x))


class Logits(nn.Module):
    def __init__(self, model, **options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x):
        return self.model(x, **self.options).logits


VISION = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
              image_size=SIDE, patch_size=4, num_labels=CLASSES)
STEPS = dict(image_size=SIDE, num_labels=CLASSES)
# Configurations of transformers, by the names of their classes, for AutoModelForImageClassification.
IMAGES = {
    "ViT": VISION, "DeiT": VISION, "Dinov2": dict(VISION, mlp_ratio=2),
    "Dinov2WithRegisters": dict(VISION, mlp_ratio=2), "Beit": VISION, "ViTMSN": VISION,
    "Data2VecVision": VISION, "IJepa": VISION,
    "ResNet": dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=CLASSES,
                   layer_type="basic"),
    "RegNet": dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4,
                   num_labels=CLASSES),
    "ConvNext": dict(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, **STEPS),
    "ConvNextV2": dict(hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, **STEPS),
    "PoolFormer": dict(hidden_sizes=[8, 12], depths=[1, 1], num_encoder_blocks=2,
                       patch_sizes=[3, 3], strides=[2, 2], padding=[1, 1], num_labels=CLASSES),
    "MobileNetV1": dict(depth_multiplier=0.25, **STEPS), "MobileNetV2": dict(STEPS),
    "Swin": dict(embed_dim=8, depths=[1, 1], num_heads=[2, 4], window_size=2, patch_size=2,
                 **STEPS),
    "Swinv2": dict(embed_dim=8, depths=[1, 1], num_heads=[2, 4], window_size=2, patch_size=2,
                   **STEPS),
    "Segformer": dict(num_encoder_blocks=2, depths=[1, 1], hidden_sizes=[8, 16],
                      sr_ratios=[2, 1], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
                      patch_sizes=[7, 3], strides=[4, 2], num_labels=CLASSES),
    "Cvt": dict(patch_sizes=[7, 3], patch_stride=[4, 2], patch_padding=[2, 1], embed_dim=[8, 16],
                num_heads=[1, 2], depth=[1, 1], mlp_ratio=[2., 2.], attention_drop_rate=[0., 0.],
                drop_rate=[0., 0.], drop_path_rate=[0., 0.], qkv_bias=[True, True],
                cls_token=[False, True], qkv_projection_method=["dw_bn"] * 2,
                kernel_qkv=[3, 3], padding_kv=[1, 1], stride_kv=[2, 2], padding_q=[1, 1],
                stride_q=[1, 1], num_labels=CLASSES),
    "HGNetV2": dict(num_labels=CLASSES), "Hiera": dict(
        embed_dim=8, image_size=[SIDE, SIDE], patch_size=[3, 3], patch_stride=[2, 2],
        patch_padding=[1, 1], depths=[1, 1], num_heads=[1, 2], mlp_ratio=2.0,
        masked_unit_size=[2, 2], query_stride=[2, 2], num_query_pool=1, num_labels=CLASSES),
}
TEXT = dict(vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=32, num_labels=CLASSES, pad_token_id=0)


def of_transformers(auto, config, sizes):
    def made():
        of = getattr(transformers, f"{config}Config")(**sizes)
        return Logits(getattr(transformers, auto).from_config(of))
    return made


def builders():
    """A name, a function that makes the model, and the sizes of a sample; a count of tokens' kinds
    where it is of tokens."""
    for name, build in of_images():
        yield name, build, IMAGE, 0
    yield "convolutions over time", Loudness, (2, 30), 0
    yield "a convolution of volumes", lambda: nn.Sequential(
        nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 6, (1, 2, 3)),
        nn.AvgPool3d((1, 2, 1)), nn.Flatten(), nn.Linear(12, CLASSES)), (2, 4, 6, 6), 0
    for name, sizes in IMAGES.items():
        yield (f"{name} of transformers",
               of_transformers("AutoModelForImageClassification", name, sizes), IMAGE, 0)
    for name in ("Bert", "Electra", "DistilBert"):
        sizes = dict(TEXT, dim=16, hidden_dim=24, n_layers=2, n_heads=4, embedding_size=16)
        for task in ("Sequence", "Token"):
            yield (f"{name} for {task.lower()} classification",
                   of_transformers(f"AutoModelFor{task}Classification", name, sizes), (12,), 31)


def averages(one):
    """The running statistics of norms in training, with their momentum."""
    for module in one.modules():
        if isinstance(module, NORMS) and module.training and module.track_running_stats:
            yield module.momentum, module.running_mean
            yield module.momentum, module.running_var


class Averaged:
    """The statistics of microbatches, taken from what each makes of the same averages."""

    def __init__(self, one):
        self.averages = list(averages(one))
        self.first = [value.clone() for _, value in self.averages]
        self.sums = [torch.zeros_like(value) for value in self.first]
        self.count = 0

    def take(self):
        self.count += 1
        for (momentum, value), first, total in zip(self.averages, self.first, self.sums):
            total += first + (value - first) / momentum
            value.copy_(first)

    def set_behind_step(self):
        for (momentum, value), first, total in zip(self.averages, self.first, self.sums):
            share = 1 - (1 - momentum) ** self.count
            value.copy_(first + share * (total / self.count - first))


class Model:
    """A model of samples."""

    def __init__(self, name, build, sizes, kinds):
        self.name, self.build, self.sizes, self.kinds = name, build, sizes, kinds

    def make(self):
        self.one = draw(torch, self.build)
        self.one.train("in training" in self.name)
        for module in self.one.modules():
            if isinstance(module, NORMS) and module.track_running_stats:
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)
        # A copy, since a forward in training changes the averages of norms.
        logits = copy.deepcopy(self.one)(self.seen(ROWS))
        self.targets = logits.numel() // ROWS // CLASSES

    def seen(self, rows):
        shape = (rows, *self.sizes)
        return torch.randint(self.kinds, shape) if self.kinds else torch.randn(shape)

    def write(self, folder, sources, schedule, ranks):
        from safetensors.torch import save_file
        given = torch.randint(CLASSES, (SAMPLES, self.targets))
        if self.targets > 1:
            given[:, ::3] = IGNORED
        save_file({"input": self.seen(SAMPLES),
                   "target": given if self.targets > 1 else given[:, 0]},
                  os.path.join(folder, "samples.safetensors"))
        with open(os.path.join(folder, "run.yaml"), "w") as file:
            file.write(f"schedule: {{file: {sources}/schedules/{schedule}.sched, P: {ranks}, "
                       f"M: {MICROBATCHES}}}\nmodel: {{export: model.pt2}}\n"
                       f"data: {{samples: samples.safetensors, microbatch: {ROWS}}}\n"
                       "train: {steps: 1, learning_rate: 0, weight_decay: 0}\ndevice: cpu\n")

    def trained(self, tools, folder):
        writer, _, sources = tools
        out, said = model_zoo.performed(
            writer, folder, [lambda: self.write(folder, sources, "zb_h1", 2)])
        rows = torch.tensor(said["tokens"], dtype=torch.int32)
        rows = (rows.long() if self.kinds else rows.view(torch.float32)).reshape(
            -1, ROWS, *self.sizes)
        given = torch.tensor(said["targets"]).reshape(len(rows), ROWS, -1)[..., -self.targets:]
        given[given < 0] = IGNORED
        self.one.zero_grad()
        total, norms = 0.0, Averaged(self.one)
        for row, target in zip(rows, given):
            loss = F.cross_entropy(self.one(row).reshape(-1, CLASSES), target.flatten(),
                                   reduction="sum", ignore_index=IGNORED)
            loss.backward()
            total += loss.item()
            norms.take()
        norms.set_behind_step()
        count = (given != IGNORED).sum().item()
        worst, where = model_zoo.furthest(
            said["loss"] * count / total - 1, out,
            {name: param.grad for name, param in self.one.named_parameters()
             if param.grad is not None})
        saved = load_file(os.path.join(out, "saved", "model.safetensors"))
        for name, value in self.one.named_buffers():
            if any(value is average for _, average in averages(self.one)):
                off = (saved[name] - value).abs().max().item() / value.abs().max().item()
                if not off <= worst:
                    worst, where = off, name
        return worst, where


if __name__ == "__main__":
    model_zoo.main((Model(*named) for named in builders()), RIGHT)
