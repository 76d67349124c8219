"""Small random models of transformers, exported by torch.export, trained by us: logits, loss and
every gradient compared with torch's, on several schedules and numbers of ranks, and our saved model
read back by torch.

    export_test.py EXPORT_WRITER STRINGLINE SOURCES

The exit status is 77, with a line of explanation, without torch or transformers: skipped, for
ctest.
"""

import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
LIMIT = 1e-4  # how far a number may be off, as a share of the largest of its tensor
CONTEXT, ROWS, VOCABULARY, LAYERS, MICROBATCHES = 12, 2, 61, 6, 8

# Schedule, ranks, and the model's split; "": as even as possible.
WAYS = [
    ("gpipe", 1, ""),
    ("1f1b", 2, ""),
    ("1f1b", 4, "[1, 3, 2, 0]"),
    ("zb_v", 2, "[0, 3, 3, 0]"),
    ("dualpipe_v", 4, "[0, 1, 1, 1, 1, 1, 1, 0]"),
]


def load_torch():
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch
        import transformers
        from safetensors.torch import load_file
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(SKIPPED)
    return torch, transformers, load_file


def configs(transformers):
    """Name, config, the form of the export, and a cut at modules."""
    gpt = dict(vocab_size=VOCABULARY, n_embd=24, n_layer=LAYERS, n_head=3)
    sizes = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40,
                 num_hidden_layers=LAYERS, num_attention_heads=4, max_position_embeddings=64)
    return [
        ("gpt2", transformers.GPT2Config(n_positions=CONTEXT, **gpt), "logits",
         "[transformer.h.1.ln_2]"),
        # More positions than the run uses, and attention written out.
        ("gpt2 untied", transformers.GPT2Config(n_positions=30, tie_word_embeddings=False,
                                                attn_implementation="eager", **gpt), "logits",
         "[transformer.h.0]"),
        ("llama of grouped queries", transformers.LlamaConfig(
            num_key_value_heads=2, head_dim=10,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0}, **sizes), "logits",
         "[model.layers.2.post_attention_layernorm]"),
        ("llama tied", transformers.LlamaConfig(
            num_key_value_heads=4, rms_norm_eps=1e-3, tie_word_embeddings=True,
            attn_implementation="eager", **sizes), "any batch", "[model.norm]"),
        ("llama with biases, of a loss", transformers.LlamaConfig(
            num_key_value_heads=1, attention_bias=True, mlp_bias=True, **sizes), "loss",
         "[model.layers.3]"),
        ("qwen2", transformers.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True,
                                           **sizes), "logits", "[model.layers.3]"),
        ("qwen3 in bf16", transformers.Qwen3Config(num_key_value_heads=2, head_dim=8, **sizes),
         "bfloat16", "[model.layers.1, model.layers.5.post_attention_layernorm]"),
    ]


def draw(torch, build):
    """A model with values that every formula depends on: norms other than 1, biases other than 0."""
    torch.manual_seed(5)
    model = build().eval()
    with torch.no_grad():
        for name, param in model.named_parameters():
            start = 1.0 if param.dim() < 2 and "bias" not in name else 0.0
            param.copy_(start + 0.2 * torch.randn(param.shape))
    return model


def make(torch, transformers, config):
    return draw(torch, lambda: transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=config._attn_implementation))


def cast(model, dtype):
    """Parameters only: angles stay float32, as in models loaded by transformers."""
    for param in model.parameters():
        param.data = param.data.to(dtype)


def export(torch, model, how, path):
    tokens = torch.zeros(3, CONTEXT, dtype=torch.long)
    options = {"use_cache": False}
    sizes = None
    if how == "any batch":
        sizes = {"input_ids": {0: torch.export.Dim("batch", min=2, max=64)}, "use_cache": None}
    if how == "loss":
        options["labels"] = tokens
    if how == "bfloat16":
        cast(model, torch.bfloat16)
    program = torch.export.export(model, (), {"input_ids": tokens, **options}, dynamic_shapes=sizes)
    torch.export.save(program, path)
    if how == "bfloat16":
        cast(model, torch.float32)


def write_run(folder, sources, schedule, ranks, split, rate=0, decay=0):
    wanted = f", split: {split}" if split else ""
    with open(os.path.join(folder, "run.yaml"), "w") as file:
        file.write(f"schedule: {{file: {sources}/schedules/{schedule}.sched, P: {ranks}, "
                   f"M: {MICROBATCHES}}}\n"
                   f"model: {{export: model.pt2{wanted}}}\n"
                   f"data: {{tokens: tokens, dtype: uint16, microbatch: {ROWS}}}\n"
                   f"train: {{steps: 1, learning_rate: {rate}, weight_decay: {decay}}}\ndevice: cpu\n")


def relative(found, wanted):
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def worst_gradient(model, found):
    worst, where = 0.0, "nowhere"
    for name, param in model.named_parameters(remove_duplicate=False):
        grad, given = param.grad, found[name]
        if grad is None and not param.requires_grad:  # frozen: no gradient is added
            worst = max(worst, given.abs().max().item())
            continue
        # A bias of keys shifts all scores of a query alike: its gradient is 0, and rounding.
        if name.endswith(("k_proj.bias", ".k.bias")):
            difference = (given - grad).abs().max().item()
        elif name.endswith("c_attn.bias"):
            size = len(grad) // 3
            rest = [i for i in range(3 * size) if i // size != 1]
            difference = relative(given[rest], grad[rest])
        elif name.endswith("wpe.weight"):  # positions that no sequence reaches have none
            difference = relative(given[:CONTEXT], grad[:CONTEXT])
        else:
            difference = relative(given, grad)
        if not difference <= worst:
            worst, where = difference, name
    return worst, where


def check_way(torch, load_file, writer, sources, model, name, way, folder):
    write_run(folder, sources, *way)
    out = tempfile.mkdtemp(dir=folder)
    subprocess.run([writer, os.path.join(folder, "run.yaml"), out], check=True, timeout=120)
    with open(os.path.join(out, "batch.json")) as file:
        said = json.load(file)
    tokens, targets = (torch.tensor(said[key]).reshape(-1, ROWS, CONTEXT)
                       for key in ("tokens", "targets"))
    model.zero_grad()
    total = 0.0
    for row, target in zip(tokens, targets):
        logits = model(input_ids=row, use_cache=False).logits
        if total == 0:
            given = torch.tensor(said["logits"]).reshape(logits.shape)
            logits_off = relative(given, logits.detach())
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(),
                                                 reduction="sum")
        loss.backward()
        total += loss.item()
    loss_off = abs(said["loss"] * targets.numel() / total - 1)
    worst, where = worst_gradient(model, load_file(os.path.join(out, "gradients",
                                                                "model.safetensors")))
    saved = load_file(os.path.join(out, "saved", "model.safetensors"))
    kept = all(torch.equal(saved[key], value)
               for key, value in model.named_parameters(remove_duplicate=False))
    good = max(logits_off, loss_off, worst) <= LIMIT and kept
    print(f"{'ok' if good else 'FAILED'}: {name}, {way[0]} P={way[1]} {way[2]}: logits off by "
          f"{logits_off:.1e}, loss by {loss_off:.1e}, gradients by {worst:.1e} in {where}"
          f"{'' if kept else ', saved values differ'}", flush=True)
    return good


def check_tool(torch, load_file, writer, tool, sources, model, name, folder):
    """Torch reads the model that a run has trained and saved, and finds the same loss."""
    write_run(folder, sources, "1f1b", 2, "", 1e-2)

    def run(*arguments):
        said = subprocess.run([tool, "run", "run.yaml", "--out", "out", "--json", *arguments],
                              cwd=folder, check=True, capture_output=True, timeout=120)
        return json.loads(said.stdout)["losses"]

    before = run("--save", "kept")[0]
    after = run("--load", "kept")[0]
    out = tempfile.mkdtemp(dir=folder)
    subprocess.run([writer, os.path.join(folder, "run.yaml"), out], check=True, timeout=120)
    with open(os.path.join(out, "batch.json")) as file:
        said = json.load(file)
    values = load_file(os.path.join(folder, "kept", "model.safetensors"))
    model.load_state_dict(values)
    tokens, targets = (torch.tensor(said[key]).reshape(-1, CONTEXT) for key in ("tokens", "targets"))
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
    shown = subprocess.run([tool, "import", "model.pt2"], cwd=folder, check=True,
                           capture_output=True, timeout=60, text=True).stdout
    off = abs(loss / after - 1)
    good = off <= LIMIT and abs(before / after - 1) > LIMIT and "graph {" in shown
    print(f"{'ok' if good else 'FAILED'}: {name}, trained, saved, read by torch: loss off by "
          f"{off:.1e}", flush=True)
    return good


def main():
    writer, tool, sources = sys.argv[1:]
    torch, transformers, load_file = load_torch()
    torch.set_num_threads(1)  # of tiny models
    good = True
    for name, config, how, modules in configs(transformers):
        with tempfile.TemporaryDirectory() as folder:
            model = make(torch, transformers, config)
            export(torch, model, how, os.path.join(folder, "model.pt2"))
            torch.manual_seed(7)
            tokens = torch.randint(VOCABULARY, (3000,), dtype=torch.int16)
            tokens.numpy().tofile(os.path.join(folder, "tokens"))
            for way in WAYS + [("1f1b", 2 + modules.count(","), modules)]:
                good &= check_way(torch, load_file, writer, sources, model, name, way, folder)
            good &= check_tool(torch, load_file, writer, tool, sources, model, name, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
