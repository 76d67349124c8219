"""What each rank does in a step of Megatron Core's own functions, in the words of a plan's text:
computations, sends and receives with their batches, waits. One process plays every rank in turn;
tensors are empty, and messages go nowhere. A receive is named by the computation that takes its
tensor.

In a combined step the parts of layers are left out; Megatron's own `run` of a chunk's plan of layers
calls what comes before and behind them.
"""

import contextlib
import types


class Group:
    """A process group, as Megatron asks it."""

    def __init__(self, rank, ranks):
        self._rank, self._ranks = rank, ranks

    def rank(self):
        return self._rank

    def size(self):
        return self._ranks


class Request:
    def __init__(self, record, messages):
        self.record, self.messages = record, messages

    def wait(self):
        self.record.append(("wait", self.messages))


class Rank:
    """The record of a rank: what it computes, and its calls and waits, which are lists of messages:
    a kind, the id of a tensor, the other rank, the group."""

    def __init__(self, torch, rank, ranks):
        self.torch, self.rank, self.ranks, self.record = torch, rank, ranks, []
        self.names, self.activations = {}, set()  # by id of a tensor: its stage and microbatch
        self.kept = []  # so that no id is used twice

    def stage(self, chunk):
        return (chunk or 0) * self.ranks + self.rank

    def computed(self, stage, microbatch, *, forward):
        made = self.torch.zeros(1)
        self.kept.append(made)
        self.took(made, stage, microbatch, forward=forward)
        return made

    def took(self, tensor, stage, microbatch, *, forward):
        if isinstance(tensor, list):
            (tensor,) = tensor
        if tensor is None:
            return
        self.names.setdefault(id(tensor), (stage, microbatch))
        if forward:
            self.activations.add(id(tensor))

    def message(self, kind, tensor, peer, group):
        self.kept.append(tensor)
        return (kind, id(tensor), peer, group)

    def call(self, messages):
        self.record.append(("call", messages))
        return Request(self.record, messages)

    def name(self, message, word=""):
        kind, tensor = message[:2]
        stage, microbatch = self.names[tensor]
        letter = "F" if tensor in self.activations else "B"
        return f"{stage}{word}{kind}_{letter}{microbatch}"

    def words(self):
        """The rank's line of a plan."""
        words = []
        for what, of in self.record:
            if what == "compute":
                words.append(of)
            elif what == "call":
                words.append("&".join(self.name(message) for message in of))
            else:
                words += [self.name(message, "WAIT_") for message in of]
        return words

    def groups(self):
        """Of every call outside of batches: the group, and the ranks from which and to which."""
        for what, of in self.record:
            if what != "call" or len(of) > 1:
                continue
            kind, _, peer, group = of[0]
            yield group, (self.rank, peer) if kind == "SEND" else (peer, self.rank)


class ChunkPlan:
    """In the place of a chunk's plan of layers; it has none."""

    def __init__(self, vp_stage, output=None):
        self.vp_stage = vp_stage
        self.pre_process = types.SimpleNamespace(forward=lambda: output, backward=lambda grad: None)
        self.post_process = None

    def num_layers(self):
        return 0

    def record_current_stream(self):
        pass

    wait_current_stream = release_state = record_current_stream


def config_of(torch, *, P, V, G, overlap, batch, flush, combined):
    return types.SimpleNamespace(
        pipeline_model_parallel_size=P, virtual_pipeline_model_parallel_size=V,
        microbatch_group_size_per_vp_stage=G, overlap_p2p_comm=overlap, batch_p2p_comm=batch,
        batch_p2p_sync=True, overlap_p2p_comm_warmup_flush=flush,
        overlap_moe_expert_parallel_comm=combined, use_ring_exchange_p2p=False,
        variable_seq_lengths=False, mtp_standalone=False, pipeline_dtype=torch.float32,
        hidden_size=1, sequence_parallel=False, timers=None, no_sync_func=None, grad_sync_func=None,
        param_sync_func=None, finalize_model_grads_func=None, deallocate_pipeline_outputs=False,
        num_microbatches_with_partial_activation_checkpoints=None, hybrid_context_parallel=False,
        fine_grained_activation_offloading=False, cuda_graph_impl="none", cuda_graph_scope=[],
        defer_embedding_wgrad_compute=False, calculate_per_token_loss=False,
        high_priority_a2a_comm_stream=False,
    )


def play(torch, *, P, V, M, G, overlap, batch, flush=False, combined=False):
    """The ranks, played. V is None without chunks."""
    config = config_of(torch, P=P, V=V, G=G, overlap=overlap, batch=batch, flush=flush,
                       combined=combined)
    ranks = []
    for r in range(P):
        rank = Rank(torch, r, P)
        with patched(torch, rank, config):
            perform(torch, rank, config, P, V, M)
        ranks.append(rank)
    return ranks


def perform(torch, rank, config, P, V, M):
    from megatron.core.pipeline_parallel import p2p_communication, schedules
    from megatron.core.process_groups_config import ProcessGroupCollection

    group, one = Group(rank.rank, P), Group(0, 1)
    models = [torch.nn.Linear(1, 1) for _ in range(V or 1)]
    for chunk, model in enumerate(models):
        model.chunk = chunk
    arguments = dict(
        forward_step_func=None, data_iterator=[None] * len(models), model=models,
        num_microbatches=M, seq_length=1, micro_batch_size=1, pg_collection=ProcessGroupCollection(),
    )
    for name, of in dict(tp=one, cp=one, embd=None, pos_embd=None, pp=group, dp_cp=one).items():
        setattr(arguments["pg_collection"], name, of)
    if P == 1:
        schedules.forward_backward_no_pipelining(**arguments)
        return
    function = (schedules.forward_backward_pipelining_without_interleaving if V is None
                else schedules.forward_backward_pipelining_with_interleaving)
    function(p2p_communicator=p2p_communication.P2PCommunicator(group, config), **arguments)


def steps_of(rank):
    """In the place of Megatron's steps of a microbatch."""

    def forward_step(forward_step_func, data_iterator, model, num_microbatches, input_tensor, *rest,
                     current_microbatch, vp_stage=None, **more):
        stage = rank.stage(vp_stage)
        rank.took(input_tensor, stage, current_microbatch, forward=True)
        rank.record.append(("compute", f"{stage}F{current_microbatch}"))
        output = rank.computed(stage, current_microbatch, forward=True)
        # Without chunks Megatron's own function gives a list where it was given one.
        return ([output] if isinstance(input_tensor, list) else output), rank.torch.tensor(0)

    def backward_step(input_tensor, output_tensor, output_tensor_grad, *_):
        output = output_tensor[0] if isinstance(output_tensor, list) else output_tensor
        stage, microbatch = rank.names[id(output)]
        rank.took(output_tensor_grad, stage, microbatch, forward=False)
        rank.record.append(("compute", f"{stage}B{microbatch}"))
        made = rank.computed(stage, microbatch, forward=False)
        return [made] if isinstance(output_tensor, list) else made

    return forward_step, backward_step


def combined_step_of(rank, run):
    """In the place of the step of two microbatches, around Megatron's own run of their plans."""

    def combined_step(forward_step_func, data_iterator, f_model, num_microbatches, input_tensor,
                      forward_data_store, b_model, b_input, b_output, b_output_grad, config,
                      f_model_chunk_id=None, pre_forward=None, pre_backward=None,
                      post_forward=None, post_backward=None, current_microbatch=None, **more):
        parts, output, grad, f_plan, b_plan = [], None, None, None, None
        if f_model is not None:
            stage = rank.stage(f_model_chunk_id)
            rank.took(input_tensor, stage, current_microbatch, forward=True)
            parts.append(f"{stage}F{current_microbatch}")
            output = rank.computed(stage, current_microbatch, forward=True)
            f_plan = ChunkPlan(f_model_chunk_id, output)
        if b_model is not None:
            stage, microbatch = rank.names[id(b_output)]
            rank.took(b_output_grad, stage, microbatch, forward=False)
            parts.append(f"{stage}B{microbatch}")
            grad = rank.computed(stage, microbatch, forward=False)
            b_plan = ChunkPlan(b_model.chunk)
        pending = [("compute", "&".join(parts))]

        def behind(post):
            def computes_first(tensor, vp_stage):
                rank.record.extend(pending)
                pending.clear()
                return post(tensor, vp_stage)
            return post and computes_first

        run(f_plan, b_plan, b_grad=grad, pre_forward=pre_forward, pre_backward=pre_backward,
            post_forward=behind(post_forward), post_backward=behind(post_backward))
        rank.record.extend(pending)
        return output, rank.torch.tensor(0), grad

    return combined_step


@contextlib.contextmanager
def patched(torch, rank, config):
    from megatron.core.models.common import model_chunk_schedule_plan as chunk_plan
    from megatron.core.pipeline_parallel import combined_1f1b, schedules

    dist, zeros = torch.distributed, torch.zeros
    forward_step, backward_step = steps_of(rank)
    run = chunk_plan.TransformerModelChunkSchedulePlan.run

    def isend(tensor, dst, group):
        return rank.call([rank.message("SEND", tensor, dst, group)])

    def irecv(tensor, src, group):
        return rank.call([rank.message("RECV", tensor, src, group)])

    def p2p_op(op, tensor, peer, group):
        return rank.message("SEND" if op is isend else "RECV", tensor, peer, group)

    changes = [
        (schedules, "forward_step", forward_step),
        (schedules, "backward_step", backward_step),
        (schedules, "get_model_config", lambda model: config),
        (schedules, "get_model_type", lambda model: None),
        (combined_1f1b, "combined_forward_backward_step", combined_step_of(rank, run)),
        (combined_1f1b, "set_streams", lambda **_: None),
        (chunk_plan, "get_comm_stream", lambda: None),
        (torch, "zeros", lambda *shape, device=None, **how: zeros(*shape, **how)),
        (torch.cuda, "current_device", lambda: "cpu"),
        (torch.cuda, "synchronize", lambda *_: None),
        (torch.cuda, "stream", lambda _: contextlib.nullcontext()),
        (dist, "is_initialized", lambda: True),
        (dist, "get_global_rank", lambda group, rank: rank),
        (dist, "get_backend", lambda group: "nccl"),
        (dist, "isend", isend),
        (dist, "irecv", irecv),
        (dist, "P2POp", p2p_op),
        (dist, "batch_isend_irecv", lambda messages: [rank.call(messages)]),
    ]
    with contextlib.ExitStack() as stack:
        for place, name, value in changes:
            stack.callback(setattr, place, name, getattr(place, name))
            setattr(place, name, value)
        yield
