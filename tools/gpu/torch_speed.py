"""GPT-2 124M in PyTorch, beside gpu_check's speed: tokens per second, eager and compiled.

  torch_speed.py [--tiny]      --tiny: a model of two small layers on the CPU, to try the program

The same sizes, microbatches and accumulation as gpu_check's: weights in fp32 under bf16 autocast,
torch's own causal attention, fused AdamW. A line for each, "eager 123456"; exit status 77 without
torch, or without a GPU for torch.
"""
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    print("torch is not installed")
    sys.exit(77)

TINY = sys.argv[1:] == ["--tiny"]
if not TINY and not torch.cuda.is_available():
    print("torch has no GPU")
    sys.exit(77)

DEVICE = "cpu" if TINY else "cuda"
LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = (2, 32, 2, 16, 64) if TINY else (12, 768, 12, 1024, 50304)
SEQUENCES, MICROBATCHES, STEPS = (2, 2, 4) if TINY else (32, 16, 8)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, positions, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, positions, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, positions, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def tokens_per_second(compiled):
    torch.manual_seed(1)
    model = Gpt2().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=not TINY)
    run = torch.compile(model) if compiled else model
    data = torch.randint(VOCABULARY, (2, SEQUENCES, CONTEXT), device=DEVICE)
    lengths = []
    for _ in range(STEPS):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(MICROBATCHES):
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = run(data[0], data[1]) / MICROBATCHES
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        lengths.append(time.perf_counter() - start)
    return SEQUENCES * CONTEXT * MICROBATCHES / statistics.median(lengths[3:])


for name in ("eager", "compiled"):
    print(name, round(tokens_per_second(name == "compiled")), flush=True)
