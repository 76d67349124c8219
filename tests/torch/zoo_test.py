"""A zoo of small random models, of torch and of transformers' configurations: each is exported by
torch.export, cut into two stages and trained by us for a step. Its loss and all its gradients are
torch's, or it is refused by name.

    zoo_test.py EXPORT_WRITER STRINGLINE SOURCES [NAMES]

Judged by model_zoo.main.
"""

import os

import model_zoo
from export_test import CONTEXT, ROWS, VOCABULARY, draw, write_run
from model_zoo import torch, transformers

nn, F = torch.nn, torch.nn.functional
RIGHT = 177
WIDTH, HEADS, DEPTH = 16, 4, 2
SIZES = dict(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=24,
             num_hidden_layers=DEPTH, num_attention_heads=HEADS, max_position_embeddings=32)
GPT = dict(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=DEPTH, n_head=HEADS, n_positions=CONTEXT)
KEYS = dict(num_key_value_heads=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12)

# Configurations of transformers, by the names of their classes and what is special about them, for
# AutoModelForCausalLM …
CAUSAL = {
    "GPT2": GPT, "OpenAIGPT": GPT, "GPTBigCode": GPT,
    "GPTJ": dict(GPT, rotary_dim=4), "CodeGen": dict(GPT, rotary_dim=4),
    "CTRL": dict(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=DEPTH, n_head=HEADS, dff=24,
                 n_positions=32),
    "GPTNeo": dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_layers=DEPTH, num_heads=HEADS,
                   attention_types=[[["global", "local"], 1]], window_size=4,
                   max_position_embeddings=32),
    "GPTNeoX": SIZES, "GPTNeoXJapanese": SIZES,
    "OPT": dict(vocab_size=VOCABULARY, hidden_size=WIDTH, ffn_dim=24, num_hidden_layers=DEPTH,
                num_attention_heads=HEADS, max_position_embeddings=32, word_embed_proj_dim=WIDTH),
    "Bloom": dict(vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=DEPTH, n_head=HEADS),
    "Mpt": dict(vocab_size=VOCABULARY, d_model=WIDTH, n_layers=DEPTH, n_heads=HEADS,
                max_seq_len=32),
    "Falcon": dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=DEPTH,
                   num_attention_heads=HEADS),
    "Llama": dict(SIZES, **KEYS), "Mistral": dict(SIZES, **KEYS),
    "Ministral": dict(SIZES, **KEYS, head_dim=4),
    "Qwen2": dict(SIZES, **KEYS), "Qwen3": dict(SIZES, **KEYS, head_dim=4),
    "Phi": SIZES, "Phi3": dict(SIZES, pad_token_id=0), "Gemma": dict(SIZES, **KEYS, head_dim=4),
    "Gemma2": dict(SIZES, **KEYS, head_dim=4), "Gemma3Text": dict(SIZES, **KEYS, head_dim=4),
    "Olmo": dict(SIZES, **KEYS), "Olmo2": dict(SIZES, **KEYS), "Olmo3": dict(SIZES, **KEYS),
    "StableLm": dict(SIZES, **KEYS, rope_parameters=dict(
        rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5)),
    "Starcoder2": dict(SIZES, **KEYS),
    "Persimmon": SIZES, "Cohere": dict(SIZES, **KEYS), "Cohere2": dict(SIZES, **KEYS),
    "Granite": dict(SIZES, **KEYS), "Nemotron": dict(SIZES, **KEYS),
    "Glm": dict(SIZES, **KEYS, head_dim=4, pad_token_id=0),
    "Glm4": dict(SIZES, **KEYS, head_dim=4, pad_token_id=0),
    "Helium": dict(SIZES, **KEYS, head_dim=4), "SmolLM3": dict(SIZES, **KEYS, pad_token_id=0),
    "Exaone4": dict(SIZES, **KEYS), "SeedOss": dict(SIZES, **KEYS, head_dim=4),
    "Arcee": dict(SIZES, **KEYS), "Apertus": dict(SIZES, **KEYS), "BitNet": dict(SIZES, **KEYS),
    "DiffLlama": dict(SIZES, **KEYS), "Ernie4_5": dict(SIZES, **KEYS, head_dim=4),
    "HunYuanDenseV1": dict(SIZES, **KEYS, head_dim=4), "Doge": dict(SIZES, **KEYS),
    "Lfm2": dict(SIZES, **KEYS), "NanoChat": dict(SIZES, **KEYS),
    "BioGpt": SIZES, "XGLM": dict(vocab_size=VOCABULARY, d_model=WIDTH, ffn_dim=24,
                                  num_layers=DEPTH, attention_heads=HEADS),
    "Mixtral": dict(SIZES, **KEYS, num_local_experts=4), "Qwen2Moe": dict(SIZES, **KEYS, **EXPERTS),
    "Qwen3Moe": dict(SIZES, **KEYS, **EXPERTS, head_dim=4),
    "Olmoe": dict(SIZES, **KEYS, num_experts=4, num_experts_per_tok=2),
    "Mixtral, batched_mm": dict(SIZES, **KEYS, num_local_experts=4, experts="batched_mm"),
    "Qwen2Moe, batched_mm": dict(SIZES, **KEYS, **EXPERTS, experts="batched_mm"),
    "Qwen3Moe, batched_mm": dict(SIZES, **KEYS, **EXPERTS, head_dim=4, experts="batched_mm"),
    "Olmoe, batched_mm": dict(SIZES, **KEYS, num_experts=4, num_experts_per_tok=2,
                              experts="batched_mm"),
    "FlexOlmo": dict(SIZES, **KEYS, num_experts=4, num_experts_per_tok=2, pad_token_id=0,
                     eos_token_id=1),
    "Phimoe": dict(SIZES, **KEYS, num_local_experts=4),
    "GptOss": dict(SIZES, **KEYS, num_local_experts=4, head_dim=4),
    "GraniteMoe": dict(SIZES, **KEYS, num_local_experts=4, num_experts_per_tok=2),
    "GraniteMoeShared": dict(SIZES, **KEYS, num_local_experts=4, num_experts_per_tok=2,
                             shared_intermediate_size=12),
    "Glm4Moe": dict(SIZES, **KEYS, head_dim=4, n_routed_experts=4, num_experts_per_tok=2,
                    moe_intermediate_size=12, first_k_dense_replace=1),
    "Ernie4_5_Moe": dict(SIZES, **KEYS, moe_num_experts=4, moe_k=2, moe_intermediate_size=12,
                         moe_layer_start_index=1),
    "Dots1": dict(SIZES, **KEYS, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
                  moe_intermediate_size=12, first_k_dense_replace=1, n_group=2, topk_group=1),
    "DeepseekV3": dict(SIZES, num_key_value_heads=HEADS, n_routed_experts=4, n_group=2,
                       topk_group=1, num_experts_per_tok=2, moe_intermediate_size=12,
                       first_k_dense_replace=1, kv_lora_rank=8, q_lora_rank=8,
                       qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=4),
    "DeepseekV2": dict(SIZES, num_key_value_heads=HEADS, n_routed_experts=4, n_group=2,
                       topk_group=1, num_experts_per_tok=2, moe_intermediate_size=12,
                       first_k_dense_replace=1, kv_lora_rank=8, q_lora_rank=8,
                       qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=4),
    "HunYuanMoEV1": dict(SIZES, **KEYS, head_dim=4, num_experts=4, moe_topk=2),
    "MiniMaxM2": dict(SIZES, **KEYS, head_dim=4, num_local_experts=4, num_experts_per_tok=2),
    "Llama4Text": dict(SIZES, **KEYS, head_dim=4, num_local_experts=4, num_experts_per_tok=1,
                       intermediate_size_mlp=24, pad_token_id=0),
    "MiniCPM3": dict(SIZES, num_key_value_heads=HEADS, kv_lora_rank=8, q_lora_rank=8,
                     qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=4),
    "VaultGemma": dict(SIZES, **KEYS, head_dim=4), "Cwm": dict(SIZES, **KEYS, head_dim=4),
    "ModernBertDecoder": dict(SIZES, pad_token_id=0), "Bart": dict(
        vocab_size=VOCABULARY, d_model=WIDTH, decoder_layers=DEPTH, decoder_attention_heads=HEADS,
        decoder_ffn_dim=24, max_position_embeddings=32, is_decoder=True),
    "Blenderbot": dict(vocab_size=VOCABULARY, d_model=WIDTH, decoder_layers=DEPTH,
                       decoder_attention_heads=HEADS, decoder_ffn_dim=24,
                       max_position_embeddings=32, is_decoder=True),
    "Pegasus": dict(vocab_size=VOCABULARY, d_model=WIDTH, decoder_layers=DEPTH,
                    decoder_attention_heads=HEADS, decoder_ffn_dim=24,
                    max_position_embeddings=32, is_decoder=True),
    "XLMRobertaXL": dict(SIZES, is_decoder=True), "RoCBert": dict(SIZES, is_decoder=True),
    "Mamba": dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=DEPTH, state_size=4),
    "BertGeneration": dict(SIZES, is_decoder=True),
    "MegatronBert": dict(SIZES, is_decoder=True), "RemBert": dict(
        SIZES, is_decoder=True, input_embedding_size=12, output_embedding_size=20),
    "Ernie": dict(SIZES, is_decoder=True), "Data2VecText": dict(SIZES, is_decoder=True),
}
# … and for AutoModelForMaskedLM.
MASKED = {
    "Bert": SIZES, "Roberta": SIZES, "XLMRoberta": SIZES, "Camembert": SIZES,
    "RobertaPreLayerNorm": SIZES, "Electra": dict(SIZES, embedding_size=12),
    "Albert": dict(SIZES, embedding_size=12),
    "DistilBert": dict(vocab_size=VOCABULARY, dim=WIDTH, hidden_dim=24, n_layers=DEPTH,
                       n_heads=HEADS, max_position_embeddings=32),
    "MobileBert": dict(SIZES, embedding_size=WIDTH, true_hidden_size=WIDTH,
                       intra_bottleneck_size=WIDTH, trigram_input=True),
    "ConvBert": dict(SIZES, embedding_size=WIDTH), "SqueezeBert": dict(SIZES, embedding_size=WIDTH),
    "MPNet": SIZES, "RoFormer": dict(SIZES, embedding_size=WIDTH), "FNet": SIZES,
    "LayoutLM": SIZES, "Deberta": SIZES, "DebertaV2": SIZES, "Esm": dict(SIZES, pad_token_id=1),
    "ModernBert": dict(SIZES, pad_token_id=0), "IBert": SIZES,
    "XLM": dict(n_words=VOCABULARY, emb_dim=WIDTH, n_layers=DEPTH, n_heads=HEADS),
    "Yoso": SIZES, "Nystromformer": SIZES, "Mra": SIZES, "Funnel": dict(
        vocab_size=VOCABULARY, d_model=WIDTH, n_head=HEADS, d_head=4, d_inner=24,
        block_sizes=[1, 1]),
    "Luke": dict(SIZES, entity_vocab_size=5, entity_emb_size=4), "EuroBert": dict(SIZES, pad_token_id=0),
    "Xmod": dict(SIZES, languages=["en_XX"], default_language="en_XX"),
    "NomicBert": SIZES, "Gte": SIZES,
    "Flaubert": dict(n_words=VOCABULARY, emb_dim=WIDTH, n_layers=DEPTH, n_heads=HEADS),
}


# … and for AutoModelForSeq2SeqLM: the same tokens go into both halves.
T5 = dict(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=4, d_ff=24, num_layers=DEPTH, num_heads=HEADS,
          dropout_rate=0.0, decoder_start_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=DEPTH, decoder_layers=DEPTH,
            encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=24,
            decoder_ffn_dim=24, max_position_embeddings=32)
BOTH = {
    "T5": T5, "T5, gated and untied": dict(T5, feed_forward_proj="gated-gelu",
                                           tie_word_embeddings=False),
    "MT5": T5, "UMT5": T5, "Bart": BART, "MBart": BART, "Pegasus": BART, "Blenderbot": BART,
    "M2M100": BART,
    "Marian": dict(BART, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0),
}


class OfTransformers(nn.Module):
    def __init__(self, model, options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, **self.options).logits


class OfBoth(OfTransformers):
    def forward(self, input_ids):
        return self.model(input_ids=input_ids, decoder_input_ids=input_ids, **self.options).logits


def of_transformers(auto, name, sizes, options):
    def made():
        own = dict(sizes)
        experts = {"experts_implementation": own.pop("experts")} if "experts" in own else {}
        config = getattr(transformers, f"{name.split(',')[0]}Config")(**own)
        kind = OfBoth if auto == "AutoModelForSeq2SeqLM" else OfTransformers
        return kind(getattr(transformers, auto).from_config(config, **experts), options)
    return made


class Tokens(nn.Module):
    """A table, some layers on (rows, positions, WIDTH), and a head."""

    def __init__(self, *layers):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids):
        x = self.table(input_ids) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def tokens(*layers):
    """Each layer is made twice."""
    return lambda: Tokens(*(layer() for _ in range(DEPTH) for layer in layers))


class Residual(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        return x + self.parts(x)


def feed(activation):
    """A residual feed-forward with the activation."""
    return lambda: Residual(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), activation(),
                            nn.Linear(24, WIDTH))


class Attended(nn.Module):
    """nn.MultiheadAttention of a value to itself."""

    def __init__(self, causal, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT) if self.causal else None
        return x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class Weighed(Attended):
    """The same, and its weights are asked for: torch writes the attention out."""

    def forward(self, x):
        return x + self.attention(x, x, x, need_weights=True)[0]


class Applied(nn.Module):
    """A function of the value and of a matrix of the layer's own."""

    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH, WIDTH))
        self.function = function

    def forward(self, x):
        return x + self.function(x, self.weight)


def applied(function):
    return lambda: Applied(function)


class Mixed(nn.Module):
    """MLP-Mixer: a feed-forward over the positions, then one over the channels."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.over = nn.Sequential(nn.Linear(CONTEXT, 20), nn.GELU(), nn.Linear(20, CONTEXT))

    def forward(self, x):
        return x + self.over(self.norm(x).transpose(1, 2)).transpose(1, 2)


class Recurrent(nn.Module):
    """A recurrent layer, whose directions are added up, and its last state."""

    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(WIDTH, WIDTH, batch_first=True, **options)

    def forward(self, x):
        y, state = self.layer(x)
        state = state[0] if isinstance(state, tuple) else state
        return x + y.unflatten(-1, (-1, WIDTH)).sum(2) + state.sum(0)[:, None]


def recurrent(kind, **options):
    return lambda: Recurrent(kind, **options)


def encoder(**options):
    return tokens(lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 24, dropout=0.0,
                                                     batch_first=True, **options))


def low_rank(x, w):
    u, v = w.chunk(2, dim=1)
    return (x @ u) @ v.t()


ACTIVATIONS = [nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.SELU, nn.CELU, nn.ReLU6,
               nn.LeakyReLU, nn.Softplus, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh,
               nn.LogSigmoid, nn.Softsign, nn.Tanhshrink, nn.Softshrink, nn.PReLU]
FUNCTIONS = {
    "a softmax over positions": lambda x, w: (x @ w).softmax(1) * x,
    "a softmax of scores": lambda x, w: (x @ x.transpose(1, 2) / 4).softmax(-1) @ (x @ w),
    "a logarithm of softmax": lambda x, w: (x @ w).log_softmax(-1),
    "a mean of positions": lambda x, w: (x @ w).mean(1, keepdim=True).expand_as(x),
    "a variance": lambda x, w: x @ w / (x.var(-1, keepdim=True) + 1).sqrt(),
    "a standard deviation": lambda x, w: x @ w / (x.std(-1, keepdim=True) + 1),
    "a normalised direction": lambda x, w: F.normalize(x, dim=-1) @ w,
    "cosine and sine": lambda x, w: (x @ w).cos() * x.sin(),
    "a root of a square": lambda x, w: ((x @ w).pow(2) + 1).sqrt(),
    "an absolute value": lambda x, w: (x @ w).abs(),
    "a clamp": lambda x, w: (x @ w).clamp(-0.5, 0.5),
    "a maximum of two": lambda x, w: torch.maximum(x @ w, x),
    "a choice": lambda x, w: torch.where(x @ w > 0, x, -x),
    "a mask of a comparison": lambda x, w: (x @ w).masked_fill(x < 0, 0.5),
    "a window of positions": lambda x, w: F.pad(x @ w, (0, 0, 1, 0))[:, :-1],
    "positions turned": lambda x, w: torch.roll(x @ w, 2, 1),
    "halves exchanged": lambda x, w: torch.cat((x @ w).chunk(2, -1)[::-1], -1),
    "a stack and its sum": lambda x, w: torch.stack([x @ w, x], 0).sum(0),
    "an einsum": lambda x, w: torch.einsum("btc,cd->btd", x, w),
    "an einsum of heads": lambda x, w: torch.einsum(
        "bthc,hcd->bthd", x.view(*x.shape[:2], 4, 4), w.view(4, 4, 4, 4)[0].tanh()).flatten(2),
    "a matrix of low rank": low_rank,
    "an exponential": lambda x, w: torch.exp(-(x @ w).square()),
    "a quotient": lambda x, w: (x @ w) / (1 + x.abs()),
    "a cumulative sum": lambda x, w: (x @ w).cumsum(1) / 12,
    "a product over groups": lambda x, w: F.group_norm(
        (x @ w).transpose(1, 2), 4).transpose(1, 2),
}


def builders():
    """Pairs of a name and a function that makes the model."""
    for name, sizes in CAUSAL.items():
        yield name, of_transformers("AutoModelForCausalLM", name, sizes, {"use_cache": False})
    for name, sizes in MASKED.items():
        yield name, of_transformers("AutoModelForMaskedLM", name, sizes, {})
    for name, sizes in BOTH.items():
        yield name, of_transformers("AutoModelForSeq2SeqLM", name, sizes, {"use_cache": False})
    for first in (False, True):
        for activation in ("relu", "gelu"):
            yield (f"TransformerEncoderLayer, {activation}{', norm first' if first else ''}",
                   encoder(norm_first=first, activation=activation))
    yield "TransformerEncoderLayer without biases", encoder(bias=False)
    yield "MultiheadAttention", tokens(lambda: Attended(False))
    yield "MultiheadAttention, causal", tokens(lambda: Attended(True))
    yield ("MultiheadAttention with biases of keys",
           tokens(lambda: Attended(False, add_bias_kv=True)))
    yield "MultiheadAttention with its weights", tokens(lambda: Weighed(False))
    yield "MLP-Mixer", tokens(Mixed, feed(nn.GELU))
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        yield kind.__name__, tokens(recurrent(kind))
        yield (f"{kind.__name__}, bidirectional, of two layers, without biases",
               tokens(recurrent(kind, num_layers=2, bias=False, bidirectional=True)))
    for activation in ACTIVATIONS:
        yield activation.__name__, tokens(feed(activation))
    for name, function in FUNCTIONS.items():
        yield name, tokens(applied(function), feed(nn.ReLU))


class Model:
    """A model of tokens."""

    def __init__(self, name, build):
        self.name, self.build = name, build

    def make(self):
        self.one = draw(torch, self.build)
        self.one(torch.zeros(ROWS, CONTEXT, dtype=torch.long)).sum().backward()
        self.used = {name: param for name, param
                     in self.one.named_parameters(remove_duplicate=False)
                     if param.grad is not None and param.numel() > 0}
        self.one.zero_grad()

    def seen(self, rows):
        return torch.arange(rows * CONTEXT).reshape(rows, CONTEXT) % VOCABULARY

    def trained(self, tools, folder):
        writer, _, sources = tools
        torch.manual_seed(7)
        torch.randint(VOCABULARY, (3000,), dtype=torch.int16).numpy().tofile(
            os.path.join(folder, "tokens"))
        out, said = model_zoo.performed(writer, folder, [
            lambda: write_run(folder, sources, "1f1b", 2, ""),
            lambda: write_run(folder, sources, "gpipe", 1, "")])
        rows, targets = (torch.tensor(said[key]).reshape(-1, ROWS, CONTEXT)
                         for key in ("tokens", "targets"))
        total = 0.0
        for row, target in zip(rows, targets):
            loss = F.cross_entropy(self.one(row).flatten(0, 1), target.flatten(), reduction="sum")
            loss.backward()
            total += loss.item()
        return model_zoo.furthest(said["loss"] * targets.numel() / total - 1, out,
                                  {name: param.grad for name, param in self.used.items()})


if __name__ == "__main__":
    model_zoo.main((Model(*named) for named in builders()), RIGHT)
