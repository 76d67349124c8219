"""Small random models of every family, made and saved by transformers: loaded by us, their loss and
every gradient compared with transformers', and our saved model read back by transformers.

    folder_test.py FOLDER_WRITER STRINGLINE SOURCES

Then models that our runs have trained and saved: transformers finds the runs' last loss.

The exit status is 77, with a line of explanation, without torch or transformers: skipped, for
ctest.
"""

import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
LIMIT = 1e-4  # how far a gradient may be off, as a share of the largest of its tensor
CONTEXT, ROWS, VOCABULARY = 21, 3, 61


def load_torch():
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import torch
        import transformers
        from safetensors.torch import load_file
        transformers.utils.logging.disable_progress_bar()
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(SKIPPED)
    return torch, transformers, load_file


def configs(transformers):
    """Name, config, and the form of the saved folder."""
    sizes = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40,
                 num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
                 attn_implementation="eager")
    experts = dict(num_key_value_heads=2, head_dim=8, num_experts=6, num_experts_per_tok=2,
                   moe_intermediate_size=14, router_aux_loss_coef=0.25)
    gpt = dict(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, attn_pdrop=0.0,
               embd_pdrop=0.0, resid_pdrop=0.0, attn_implementation="eager")
    return [
        ("gpt2", transformers.GPT2Config(n_positions=CONTEXT, **gpt), {}),
        # More positions than are used: the first are read, all are saved.
        ("gpt2 untied", transformers.GPT2Config(n_positions=30, tie_word_embeddings=False,
                                                bos_token_id=3, eos_token_id=4, **gpt),
         {"max_shard_size": "20KB"}),
        ("gpt2 with dropout that a run leaves out", transformers.GPT2Config(
            n_positions=40, **{**gpt, "attn_pdrop": 0.1, "embd_pdrop": 0.2, "resid_pdrop": 0.3}),
         {}),
        ("llama", transformers.LlamaConfig(num_key_value_heads=2, head_dim=10,
                                           rope_parameters={"rope_type": "default",
                                                            "rope_theta": 500.0}, **sizes), {}),
        ("llama of one head", transformers.LlamaConfig(num_key_value_heads=4, rms_norm_eps=1e-3,
                                                       tie_word_embeddings=True, **sizes),
         {"max_shard_size": "20KB"}),
        ("mistral", transformers.MistralConfig(num_key_value_heads=1, sliding_window=CONTEXT,
                                               **sizes), {"dtype": "bfloat16"}),
        ("qwen2", transformers.Qwen2Config(num_key_value_heads=2, tie_word_embeddings=True,
                                           **sizes), {"dtype": "float16"}),
        ("qwen3", transformers.Qwen3Config(num_key_value_heads=2, head_dim=8, **sizes), {}),
        ("mixtral", transformers.MixtralConfig(num_key_value_heads=2, num_local_experts=5,
                                               router_aux_loss_coef=0.5, **sizes),
         {"max_shard_size": "20KB"}),
        # Its balance loss equals transformers' own.
        ("mixtral of one layer", transformers.MixtralConfig(
            num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=3,
            router_aux_loss_coef=0.75, output_router_logits=True,
            **{**sizes, "num_hidden_layers": 1}), {}),
        ("mixtral packed", transformers.MixtralConfig(num_key_value_heads=4, num_local_experts=4,
                                                      num_experts_per_tok=3,
                                                      tie_word_embeddings=True, **sizes),
         {"save_original_format": False}),
        ("qwen3_moe", transformers.Qwen3MoeConfig(norm_topk_prob=True, **experts, **sizes), {}),
        # The first layer is dense, and a token's weights have any sum.
        ("qwen3_moe of two kinds of layers", transformers.Qwen3MoeConfig(
            mlp_only_layers=[0], norm_topk_prob=False, **experts, **sizes),
         {"save_original_format": False, "dtype": "bfloat16"}),
    ]


def make(torch, transformers, config):
    """Values that every formula depends on: norms other than 1, biases other than 0."""
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, param in model.named_parameters():
            # A norm's weight, a bias, or a matrix.
            start = 1.0 if param.dim() == 1 and "bias" not in name else 0.0
            param.copy_(start + 0.2 * torch.randn(param.shape))
    return model


def load(torch, transformers, folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32)
    if has_experts(model):
        model.set_experts_implementation("eager")  # one after the other: no kernel's own order
    return model


def has_experts(model):
    return any(param.dim() == 3 for param in model.parameters())


def load_gradients(torch, transformers, load_file, model, folder):
    """By the names of the model, in which all experts of a layer are a single parameter."""
    if has_experts(model):
        return dict(load(torch, transformers, folder).named_parameters())
    return load_file(os.path.join(folder, "model.safetensors"))


def balance_loss(model, output):
    """The balance loss in the config's sense: the mean over the layers with experts."""
    if not has_experts(model):
        return 0.0
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
    config = model.config
    layers = [logits for logits in output.router_logits if logits is not None]
    each = [load_balancing_loss_func((logits,), model.num_experts, config.num_experts_per_tok)
            for logits in layers]
    mean = sum(each) / len(each)
    if len(each) == 1 and abs(mean.item() / output.aux_loss.item() - 1) > 1e-6:
        sys.exit(f"a balance loss of {mean.item()}, {output.aux_loss.item()} of transformers")
    return config.router_aux_loss_coef * mean


def kept(folder):
    """Files that are saved as they came, except for the type of the values."""
    for name in ("config.json", "generation_config.json"):
        texts = []
        for place in ("given", "saved"):
            path = os.path.join(folder, place, name)
            texts.append(json.load(open(path)) if os.path.exists(path) else None)
        for config in texts:
            for key in ("dtype", "torch_dtype"):
                if name == "config.json" and key in config:
                    config[key] = "float32"
        if texts[0] != texts[1]:
            print(f"{name} is not as it came: {texts}")
            return False
    return True


def worst_gradient(model, found, count):
    """The error of the gradients: the largest difference as a share of a tensor's largest."""
    worst, where = 0.0, "nowhere"
    wanted = {name: param.grad for name, param in model.named_parameters()}
    if set(wanted) != set(found):
        sys.exit(f"other parameters: {sorted(set(wanted) ^ set(found))}")
    if sum(param.numel() for param in model.parameters()) != count:
        sys.exit(f"{count} parameters, transformers has other many")
    for name, grad in wanted.items():
        if name.endswith("wpe.weight"):  # positions that no sequence reaches have none
            grad = grad[: found[name].shape[0]]
        difference = (found[name] - grad).abs().max() / grad.abs().max()
        # A bias of keys shifts all scores of a query alike: its gradient is 0, and rounding.
        if name.endswith("k_proj.bias"):
            difference = (found[name] - grad).abs().max()
        if name.endswith("c_attn.bias"):
            size = len(grad) // 3
            rest = [i for i in range(3 * size) if i // size != 1]
            difference = (found[name] - grad)[rest].abs().max() / grad.abs().max()
        if not difference <= worst:
            worst, where = difference.item(), name
    return worst, where


def check(torch, transformers, load_file, writer, name, config, saving, folder):
    model = make(torch, transformers, config)
    given = os.path.join(folder, "given")
    saving = dict(saving)
    dtype = saving.pop("dtype", None)
    if dtype is not None:
        model = model.to(getattr(torch, dtype))
    model.save_pretrained(given, **saving)
    model = load(torch, transformers, given)
    batch = torch.randint(VOCABULARY, (2, ROWS, CONTEXT))
    with open(os.path.join(given, "batch.json"), "w") as file:
        json.dump({"tokens": batch[0].tolist(), "targets": batch[1].tolist()}, file)
    subprocess.run([writer, given, folder], check=True, timeout=60)
    with open(os.path.join(folder, "loss.json")) as file:
        said = json.load(file)
    more = {"output_router_logits": True} if has_experts(model) else {}
    output = model(input_ids=batch[0], use_cache=False, **more)
    logits = output.logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten(),
                                             reduction="sum")
    (loss + ROWS * CONTEXT * balance_loss(model, output)).backward()
    off = abs(said["loss"] / loss.item() - 1)
    found = load_gradients(torch, transformers, load_file, model,
                           os.path.join(folder, "gradients"))
    count = said["params"]
    if name.startswith("gpt2"):
        count += (config.n_positions - CONTEXT) * config.n_embd
    worst, where = worst_gradient(model, found, count)
    again = load(torch, transformers, os.path.join(folder, "saved"))
    back = (again(input_ids=batch[0], use_cache=False).logits - logits).abs().max().item()
    good = off <= 1e-5 and worst <= LIMIT and back == 0 and type(again) is type(model)
    good = kept(folder) and good
    if name.startswith("gpt2"):
        rows = [which.transformer.wpe.weight[CONTEXT:] for which in (model, again)]
        good = good and rows[0].shape == rows[1].shape and bool((rows[0] == rows[1]).all())
    print(f"{'ok' if good else 'FAILED'}: {name}: loss off by {off:.1e}, gradients by {worst:.1e} in "
          f"{where}, logits of what was saved by {back:.1e}", flush=True)
    return good


MODELS = {
    "gpt": "{layers: 2, width: 32, heads: 2, context: 32}",
    "llama": "{kind: llama, layers: 2, width: 32, heads: 4, kv_heads: 2, head_dim: 10, hidden: 48, "
             "context: 32}",
    "mixtral": "{kind: moe, layers: 2, width: 32, heads: 4, kv_heads: 2, context: 32, experts: 4, "
               "top_k: 2, expert_hidden: 24, aux_coefficient: 0.01}\nmesh: {expert: 2}",
    "qwen3_moe": "{kind: moe, layers: 3, width: 32, heads: 4, context: 32, experts: 4, top_k: 2, "
                 "expert_hidden: 24, qk_norm: true, normalise: false, first_dense: 1, "
                 "hidden: 48}\nmesh: {data: 2}",
}


def check_run(torch, transformers, tool, sources, kind, folder):
    """A text of a single window, so the window's loss is the loss of every step."""
    text = b"what a run has learnt, others see."[:33]
    with open(os.path.join(folder, "text"), "wb") as file:
        file.write(text)
    with open(os.path.join(folder, "run.yaml"), "w") as file:
        file.write(f"schedule: {{file: {sources}/schedules/1f1b.sched, P: 2, M: 2}}\n"
                   f"model: {MODELS[kind]}\ndata: {{text: text, microbatch: 1}}\n"
                   "train: {steps: 20, learning_rate: 1e-2}\n")

    def run(*arguments):
        said = subprocess.run([tool, "run", "run.yaml", "--out", "out", "--json", *arguments],
                              cwd=folder, check=True, capture_output=True, timeout=60)
        return json.loads(said.stdout)

    run("--save", "kept")
    ours = run("--load", "kept", "--steps", "1")["first_loss_nats"]
    model = load(torch, transformers, os.path.join(folder, "kept"))
    tokens = torch.tensor([list(text)])
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:]).item()
    good = abs(ours / loss - 1) < 1e-5 and loss < 5
    print(f"{'ok' if good else 'FAILED'}: {type(model).__name__} of a run: loss {ours:.6f}, of "
          f"transformers {loss:.6f}", flush=True)
    return good


def main():
    torch, transformers, load_file = load_torch()
    torch.set_num_threads(1)
    print("torch", torch.__version__, "transformers", transformers.__version__, flush=True)
    good = True
    for name, config, saving in configs(transformers):
        with tempfile.TemporaryDirectory() as folder:
            good = check(torch, transformers, load_file, sys.argv[1], name, config, saving,
                         folder) and good
    for kind in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            good = check_run(torch, transformers, *sys.argv[2:4], kind, folder) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
