"""Uses of stringline.megatron that are refused, each with words of the message."""

JUMP = """plan jump P=2 M=4
stages 0 1 0
edges 0>1 0>2 1>2
rank 0: 0F0 2F0 2B0 0B0 0F1 2F1 2B1 0B1 0F2 2F2 2B2 0B2 0F3 2F3 2B3 0B3
rank 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
"""
COPIED = [["0F0", "0D0", "0U0", "0B0"], ["1F0", "1B0"]]
BACK_TO_FRONT = [["0F1", "0F0", "0B0", "0B1"], ["1F1", "1F0", "1B0", "1B1"]]

# A schedule and its parameters, and words of the error.
SCHEDULES = [
    ("zb_h1", {}, "zb_h1 has backwards in two parts (I, W)"),
    ("dualpipe", {}, "dualpipe has several pipes"),
    ("mario", {}, "mario has R"),
    ("seq1f1b", {}, "seq1f1b cuts microbatches into slices"),
    ("vocab_1f1b", {}, "vocab_1f1b has actions of its own"),
    ("inference", {}, "inference has no backwards"),
    ("pipedream", {}, "pipedream has several steps or updates"),
    ("1f1b", {"steps": 2}, "1f1b has several steps or updates"),
    ("1f1b", {"window": 4}, "1f1b has a window"),
    (JUMP, {}, "jump has stages that are no chain"),
]

# Settings of Megatron's config, and words of the error.
SETTINGS = [
    ("cuda_graph_impl", "local"), ("defer_embedding_wgrad_compute", True),
    ("delay_wgrad_compute", True), ("enable_cuda_graph", True), ("external_cuda_graph", True),
    ("fine_grained_activation_offloading", True), ("hybrid_context_parallel", True),
    ("moe_paged_stash", True), ("mtp_standalone", True),
    ("num_microbatches_with_partial_activation_checkpoints", 2),
    ("overlap_dispatch_backward_with_experts_wgrad", True),
    ("overlap_moe_expert_parallel_comm", True), ("use_ring_exchange_p2p", True),
    ("variable_seq_lengths", True),
]


def message_of(use):
    """The error's text of a call."""
    try:
        use()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def expect(use, kind, words):
    said = message_of(use)
    assert said.startswith(kind.__name__) and words in said, (words, said)


def check(torch, stringline, make_config, make_chunk):
    """Two ranks, a chunk each. No use here sends anything."""
    from megatron.core.pipeline_parallel.p2p_communication import P2PCommunicator

    make = stringline.megatron.forward_backward_func
    chunk = make_chunk(make_config())

    def call(function, **changes):
        given = {
            "forward_step_func": None, "data_iterator": [None], "model": [chunk],
            "num_microbatches": 4, "seq_length": 4, "micro_batch_size": 1, **changes,
        }
        return lambda: function(**given)

    for schedule, parameters, words in SCHEDULES:
        expect(call(make(schedule, **parameters)), NotImplementedError, words)
    copied = stringline.Schedule.build(COPIED)
    expect(call(make(copied), num_microbatches=1), NotImplementedError, "copies values to the host")
    turned = stringline.Schedule.build(BACK_TO_FRONT)
    expect(call(make(turned), num_microbatches=2), NotImplementedError, "order of their numbers")
    expect(call(make(turned)), ValueError, "for 2 microbatches, not for 4")
    expect(call(make(turned.plan(), V=2)), ValueError, "V: a Plan has no parameters")
    for name, value in SETTINGS:
        before = dict(vars(chunk.config))
        setattr(chunk.config, name, value)
        expect(call(make("1f1b")), NotImplementedError, f"config.{name}: {value!r}")
        vars(chunk.config).clear()
        vars(chunk.config).update(before)
    chunk.config.pipeline_dtype = None
    expect(call(make("1f1b")), ValueError, "config.pipeline_dtype")
    chunk.config.pipeline_dtype = torch.float64
    check_arguments(call, make, chunk, P2PCommunicator)
    check_messages(torch, stringline, chunk.config)


def check_arguments(call, make, chunk, communicator):
    class Other(communicator):
        def __init__(self):
            pass

    one = make("1f1b")
    expect(call(one, adjust_tensor_shapes_fn=print), NotImplementedError, "adjust_tensor_shapes_fn")
    expect(call(one, decoder_seq_length=5), NotImplementedError, "decoder_seq_length")
    expect(call(one, p2p_communicator=1), ValueError, "give both or neither")
    both = {"p2p_communicator": Other(), "pg_collection": 1}
    expect(call(one, **both), NotImplementedError, "p2p_communicator: Other")
    expect(call(make("hanayo")), ValueError, "a chunk each, but 1 are given")
    expect(call(one, data_iterator=[1, 2]), ValueError, "expected one for each of 1 chunks, got 2")
    chunk.share_embeddings_and_output_weights = True
    two = {"model": [chunk, chunk], "data_iterator": [1, 2]}
    expect(call(make("hanayo"), **two), NotImplementedError, "share_embeddings_and_output_weights")
    chunk.share_embeddings_and_output_weights = False


def check_messages(torch, stringline, config):
    from stringline.megatron.messages import Messages

    messages = Messages(torch.distributed.group.WORLD, (4, 1, 8), config, torch.device("cpu"))
    for wrong in (torch.zeros(4, 2, 8, dtype=torch.float64), torch.zeros(4, 1, 8)):
        use = lambda wrong=wrong: messages.send(("SEND_F", 0, 0), wrong, 1)  # noqa: E731
        expect(use, ValueError, "is to be sent")
