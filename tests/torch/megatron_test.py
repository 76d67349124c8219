"""Schedules performed in place of Megatron Core's own function, on CPU processes (gloo): a GPT of
Megatron's has, bit by bit, the losses and gradients that Megatron's 1F1B and interleaved schedule
give it; with any schedule those of the model in one piece.

    megatron_test.py SITE

SITE is the folder with the package (tools/wheel --test leaves it). Megatron Core is in the folder
$STRINGLINE_MEGATRON; `tools/environments/torch/run` names the folder made by `tools/install
--torch`. The exit status is 77, with a line of explanation, if anything is missing: skipped, for
ctest.

Megatron's own functions make their tensors on a GPU. Here the name of that device stands for the
CPU (`on_cpu`), for them and for Megatron's attention; the function under test needs no such help.
"""

import collections
import contextlib
import functools
import os
import sys
import types
import warnings
import zlib

import megatron_uses
import rank_group
import whole_model

SECONDS = 120
MICROBATCHES, ROWS, LENGTH, WIDTH, LETTERS = 8, 2, 6, 8, 16

# The schedule and its parameters, the ranks of its pipeline, the chunks of a rank, and settings:
# of Megatron's config ("hooks": copies reduce without a function of the config's; "watched": its
# functions are written down), of the model ("shared": of the embeddings), copies of the model
# ("copies"), and arguments of the call.
CASES = [
    ("1f1b", {}, 2, 1, {}),
    ("1f1b", {}, 4, 1, {}),
    ("interleaved", {"V": 2}, 2, 2, {}),
    ("interleaved", {"V": 3}, 2, 3, {}),
    ("interleaved", {"V": 2}, 4, 2, {}),
    ("1f1b", {}, 4, 1, {"forward_only": True}),
    ("interleaved", {"V": 2}, 2, 2, {"forward_only": True}),
    ("1f1b", {}, 2, 1, {"deallocate_pipeline_outputs": True, "scaled": True}),
    # On two ranks Megatron's own function frees outputs that gloo has not sent yet.
    ("interleaved", {"V": 2}, 4, 2, {"deallocate_pipeline_outputs": True, "per_token": True}),
    ("1f1b", {}, 2, 1, {"copies": 2, "shared": True}),
    ("interleaved", {"V": 2}, 2, 2, {"copies": 2, "shared": True, "per_token": True}),
    ("interleaved", {"V": 2}, 2, 2, {"copies": 2, "overlap_grad_reduce": True}),
    ("interleaved", {"V": 2}, 2, 2, {"copies": 2, "overlap_grad_reduce": True, "hooks": True}),
    ("1f1b", {}, 2, 1, {"watched": True, "groups": True}),
    ("interleaved", {"V": 2}, 4, 2, {"watched": True, "groups": True}),
    ("1f1b", {}, 2, 1, {"watched": True, "forward_only": True, "first_val_step": False}),
    ("1f1b", {}, 2, 1, {"forward_only": True, "collect_non_loss_data": True}),
    ("gpipe", {}, 2, 1, {}),
    ("kfkb", {}, 4, 1, {}),
    ("circular", {"V": 2}, 2, 2, {}),
    ("llama3", {"V": 2}, 2, 2, {}),
    ("looped_bfs", {"V": 2}, 2, 2, {"deallocate_pipeline_outputs": True}),
    ("megatron_combined", {}, 2, 2, {}),
    ("hanayo", {}, 2, 2, {"deallocate_pipeline_outputs": True}),
    ("hanayo", {}, 4, 2, {"forward_only": True}),
]
# Schedules that Megatron has as well.
THEIRS = ("1f1b", "interleaved")


def load(site):
    sys.path[:0] = [path for path in (site, os.environ.get("STRINGLINE_MEGATRON")) if path]
    warnings.simplefilter("ignore")
    try:
        import stringline.megatron
    except ImportError as error:
        whole_model.skip(f"{error}: tools/install --torch")
    return stringline


def on_cpu(torch):
    """The device that Megatron calls cuda is the CPU, and no number is random."""
    from megatron.core import tensor_parallel

    made = torch.zeros

    def zeros(*shape, device=None, **how):
        return made(*shape, device="cpu" if device == "cuda" else device, **how)

    torch.zeros = zeros
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.synchronize = lambda *_: None
    torch.cuda.current_stream = lambda *_: types.SimpleNamespace(wait_stream=lambda _: None)
    torch.Tensor.cuda = lambda self, *_, **how: self
    tensor_parallel.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()


def config_of(torch, job, ranks):
    from megatron.core.transformer import TransformerConfig

    stages = job["ranks"] * job["chunks"]
    settings = job["settings"]
    config = TransformerConfig(
        num_layers=stages, hidden_size=WIDTH, num_attention_heads=2, ffn_hidden_size=2 * WIDTH,
        attention_dropout=0.0, hidden_dropout=0.0, use_cpu_initialization=True,
        gradient_accumulation_fusion=False, masked_softmax_fusion=False,
        bias_activation_fusion=False, bias_dropout_fusion=False, persist_layer_norm=False,
        params_dtype=torch.float64, pipeline_dtype=torch.float64, batch_p2p_sync=False,
        # Between two ranks Megatron's batches of messages would be those of both directions.
        overlap_p2p_comm=ranks == 2 and job["chunks"] > 1,
        batch_p2p_comm=ranks != 2 or job["chunks"] == 1,
        pipeline_model_parallel_size=ranks,
        virtual_pipeline_model_parallel_size=job["chunks"] if ranks > 1 < job["chunks"] else None,
        microbatch_group_size_per_vp_stage=ranks,
        deallocate_pipeline_outputs=settings.get("deallocate_pipeline_outputs", False),
        calculate_per_token_loss=settings.get("per_token", False),
    )
    if settings.get("scaled"):
        config.grad_scale_func = lambda loss: loss * 3
    return config


def make_chunk(torch, config, stage, stages, shared):
    """The GPT of a stage, or of all of them (None), with the same values in every process."""
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    chunks = config.virtual_pipeline_model_parallel_size
    model = GPTModel(
        config=config, transformer_layer_spec=get_gpt_layer_local_spec(), vocab_size=LETTERS,
        max_sequence_length=LENGTH, position_embedding_type="learned_absolute",
        share_embeddings_and_output_weights=shared,
        pre_process=stage in (None, 0), post_process=stage in (None, stages - 1),
        vp_stage=None if chunks is None else stage // config.pipeline_model_parallel_size,
    ).double()
    for name, parameter in model.named_parameters():
        place = name_in_whole(name, stage, shared)
        draw = torch.Generator().manual_seed(zlib.crc32(place.encode()))
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    return model


def name_in_whole(name, stage, shared):
    """A chunk has one layer, whose number is the stage's; the last may have a copy of the table."""
    name = name.removeprefix("module.")
    if stage is None:
        return name
    if shared and name == "output_layer.weight":
        return "embedding.word_embeddings.weight"
    return name.replace("decoder.layers.0.", f"decoder.layers.{stage}.")


def batches(torch, copy):
    """Letters of each microbatch, and those that follow."""
    draw = torch.Generator().manual_seed(5 + copy)
    for _ in range(MICROBATCHES):
        letters = torch.randint(LETTERS, (ROWS, LENGTH + 1), generator=draw)
        yield letters[:, :-1], letters[:, 1:]


def forward_step(torch, job, iterator, model):
    """The caller's function, of Megatron's form."""
    letters, following = next(iterator)
    places = torch.arange(LENGTH).expand(ROWS, LENGTH)
    mask = torch.ones(1, 1, LENGTH, LENGTH).tril() < 0.5

    def loss(values, non_loss_data=False):
        if non_loss_data:
            return {"loss": values.detach().max()}
        if job["settings"].get("per_token"):
            tokens = torch.tensor(values.numel(), dtype=torch.int)
            return values.sum(), tokens, {"loss": values.detach().sum()}
        return values.mean(), {"loss": values.detach().mean()}

    return model(letters, places, mask, labels=following), loss


def wrapped(torch, job, models):
    """Megatron's data parallelism around each chunk, with its hooks in the config."""
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )

    overlap = job["settings"].get("overlap_grad_reduce", False)
    how = DistributedDataParallelConfig(overlap_grad_reduce=overlap, bucket_size=None)
    config = models[0].config
    models = [
        DistributedDataParallel(config, how, model, disable_bucketing=at > 0)
        for at, model in enumerate(models)
    ]
    for model in models:
        model.zero_grad_buffer()
    config.finalize_model_grads_func = finalize_model_grads
    if overlap:
        config.no_sync_func = [model.no_sync for model in models]
        if not job["settings"].get("hooks"):
            config.grad_sync_func = [model.start_grad_sync for model in models]
    return models


class Watched:
    """Writes down what of the config and of the chunks is called."""

    def __init__(self, models):
        self.calls = []
        self.running = set()
        self.holding = 0
        self.loose = 0  # backwards in which the model's hooks would reduce
        config = models[0].config
        config.timers = self.timer
        config.no_sync_func = self.held
        reduced = [self.written(f"reduce {at}") for at in range(len(models))]
        config.grad_sync_func = reduced if len(models) > 1 else reduced[0]
        config.param_sync_func = [self.written(f"gather {at}") for at in range(len(models))]
        config.finalize_model_grads_func = self.written("finalize")
        for at, model in enumerate(models):
            model.set_is_first_microbatch = self.written(f"first {at}")

    def written(self, name):
        return lambda *_, **how: self.calls.append(name)

    @contextlib.contextmanager
    def held(self):
        self.holding += 1
        yield
        self.holding -= 1

    def timer(self, name, log_level=None):
        def start(barrier=False):
            assert name not in self.running
            self.running.add(name)
            self.calls.append(name)
            self.loose += name == "backward-compute" and self.holding == 0

        return types.SimpleNamespace(start=start, stop=lambda: self.running.remove(name))

    def found(self):
        """The number of calls of each; of waits for messages, whether there are some. The first
        rank of Megatron's 1F1B leaves reductions to the model's hooks: these are not compared."""
        assert not self.running
        counts = collections.Counter(call for call in self.calls if "reduce" not in call)
        waits = [name for name in counts if name.endswith(("-send", "-recv"))]
        return {name: count for name, count in counts.items() if name not in waits}, bool(waits)


def run(torch, job, function, stages, count, ranks, copy):
    """Losses and gradients by name, of chunks of these stages."""
    config = config_of(torch, job, ranks)
    settings = job["settings"]
    shared = settings.get("shared", False)
    models = [make_chunk(torch, config, stage, count, shared) for stage in stages]
    if "copies" in settings and ranks > 1:
        models = wrapped(torch, job, models)
    watched = Watched(models) if "watched" in settings and ranks > 1 else None
    # In a second step hooks reduce as soon as they can, if those of the first one were let go.
    for step in range(2 if "hooks" in settings and ranks > 1 else 1):
        for model in models if step else ():
            model.zero_grad_buffer()
        losses = function(
            forward_step_func=functools.partial(forward_step, torch, job),
            data_iterator=alone([batches(torch, copy) for _ in models]), model=alone(models),
            num_microbatches=MICROBATCHES, seq_length=LENGTH, micro_batch_size=ROWS,
            **arguments(config, settings if ranks > 1 else {}),
            **{name: settings[name] for name in OF_THE_CALL if name in settings},
        )
    if "hooks" in settings and ranks > 1:
        assert not any(group.is_first_batch for model in models for group in model.bucket_groups)
    found = {}
    for model, stage in zip(models, stages):
        for name, parameter in model.named_parameters():
            gradient = getattr(parameter, "main_grad", parameter.grad)
            if gradient is not None:
                found[stage, name_in_whole(name, stage, shared)] = gradient.clone()
    return [float(each["loss"]) for each in losses], found, watched


def alone(values):
    return values if len(values) > 1 else values[0]


OF_THE_CALL = ("forward_only", "collect_non_loss_data", "first_val_step")


def arguments(config, settings):
    """The groups and the communicator, made by the caller."""
    from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator
    from stringline.megatron.used import parallel_groups

    if not settings.get("groups"):
        return {}
    groups = parallel_groups()
    return {"pg_collection": groups, "p2p_communicator": P2PCommunicator(groups.pp, config)}


def in_one_piece(torch, job, schedules):
    """The mean over the copies of the model, as data parallelism sums them up."""
    copies = job["settings"].get("copies", 1)
    function = schedules.forward_backward_no_pipelining
    all_losses, total = [], {}
    for copy in range(copies):
        losses, found, _ = run(torch, job, function, [None], job["ranks"] * job["chunks"], 1, copy)
        all_losses.append(losses)
        for (_, name), gradient in found.items():
            total[name] = total.get(name, 0) + gradient
    if "copies" not in job["settings"]:
        return all_losses, total
    count = MICROBATCHES * ROWS * LENGTH * copies if job["settings"].get("per_token") else copies
    share = 1.0 / torch.tensor(count)  # in single precision, as Megatron computes it
    return all_losses, {name: gradient * share for name, gradient in total.items()}


def perform(job, rank):
    torch = whole_model.load_torch()[0]
    on_cpu(torch)
    import stringline.megatron
    import stringline.torch
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import schedules

    chunks, ranks = job["chunks"], job["ranks"]
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=ranks,
        virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
    )
    me, copy = parallel_state.get_pipeline_model_parallel_rank(), rank % (job["world"] // ranks)
    if "wrong" in job:
        megatron_uses.check(
            torch, stringline, functools.partial(config_of, torch, job, ranks),
            functools.partial(make_chunk, torch, stage=me, stages=ranks, shared=False),
        )
        return 0.0
    plan = stringline.load(job["schedule"]).plan(ranks, MICROBATCHES, **job["parameters"])
    mine = stringline.torch.stages_of_rank(plan, me)
    function = stringline.megatron.forward_backward_func(job["schedule"], **job["parameters"])
    count = ranks * chunks
    losses, found, watched = run(torch, job, function, mine, count, ranks, copy)
    assert found or job["settings"].get("forward_only")
    assert bool(losses) == (count - 1 in mine)
    if job["schedule"] in THEIRS:
        theirs = schedules.get_forward_backward_func()
        their_losses, wanted, seen = run(torch, job, theirs, mine, count, ranks, copy)
        if watched is not None:
            assert watched.found() == seen.found(), (watched.found(), seen.found())
            reduced = [call for call in watched.calls if "reduce" in call]
            trains = not job["settings"].get("forward_only")
            assert sorted(reduced) == [f"reduce {at}" for at in range(chunks) if trains]
            assert watched.holding == 0 and watched.loose == 0
        assert losses == their_losses, (losses, their_losses)
        assert set(found) == set(wanted)
        for name, gradient in found.items():
            assert torch.equal(gradient, wanted[name]), f"{name} differs from Megatron's"
    whole_losses, whole = in_one_piece(torch, job, schedules)
    worst = 0.0
    for loss, wanted in zip(losses, whole_losses[copy]):
        worst = max(worst, abs(loss - wanted) / abs(wanted))
    for (_, name), gradient in found.items():
        worst = max(worst, ((gradient - whole[name]).abs().max() / whole[name].abs().max()).item())
    return worst


def main():
    stringline = load(sys.argv[1])
    assert isinstance(stringline, types.ModuleType)
    good = True
    jobs = [
        {"schedule": schedule, "parameters": parameters, "ranks": ranks, "chunks": chunks,
         "settings": settings, "world": ranks * settings.get("copies", 1)}
        for schedule, parameters, ranks, chunks, settings in CASES
    ]
    jobs.append({**jobs[0], "wrong": True, "schedule": "what is refused"})
    for world in sorted({job["world"] for job in jobs}):
        with rank_group.RankGroup(world, perform) as group:
            for job in jobs:
                if job["world"] != world:
                    continue
                outcome, seen = group.run(job, SECONDS)
                good = good and outcome == rank_group.RIGHT
                verdict = "ok" if outcome == rank_group.RIGHT else f"FAILED, {outcome}, {seen}"
                print(f"{verdict}: {job['schedule']} on {job['ranks']} ranks, "
                      f"{job['chunks']} chunks each, {job['settings']}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
