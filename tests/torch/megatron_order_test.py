"""`stringline import` of Megatron's arguments, held against Megatron Core's own functions: what each
rank computes, sends, receives and waits for, over which communicators, what is refused, and the
layers of stages. And `stringline check` of every import, held against a model of its own.

    megatron_order_test.py STRINGLINE SOURCE

Megatron Core is in the folder $STRINGLINE_MEGATRON. The exit status is 77 if it is not there.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

import megatron_record
import whole_model

STRINGLINE, SOURCE = sys.argv[1:3]


def load():
    sys.path.insert(0, os.environ.get("STRINGLINE_MEGATRON", ""))
    warnings.simplefilter("ignore")
    try:
        import megatron.core
        import torch
    except ImportError as error:
        whole_model.skip(f"{error}: tools/install --torch")
    return torch, megatron.core


def run(*arguments):
    return subprocess.run([STRINGLINE, *arguments], capture_output=True, text=True)


def imported(folder, arguments):
    file = folder / "arguments.yaml"
    file.write_text("MODEL_ARGS:\n" + "".join(f"  --{key}: {value}\n" for key, value in arguments.items()))
    plan = folder / "megatron.plan"
    plan.unlink(missing_ok=True)
    answer = run("import", str(file), "--out", str(plan))
    assert (answer.returncode == 0) == plan.exists(), answer
    return (plan, plan.read_text()) if plan.exists() else (None, answer.stderr)


def lines_of(text):
    return [line.split()[2:] for line in text.splitlines() if line.startswith("rank ")]


def arguments_of(case):
    given = {
        "pipeline-model-parallel-size": case["P"], "num-microbatches": case["M"],
        "microbatch-group-size-per-virtual-pipeline-stage": case["G"],
        "overlap-p2p-comm": case["overlap"], "batch-p2p-comm": case["batch"],
        "overlap-p2p-communication-warmup-flush": case["flush"],
        "overlap-moe-expert-parallel-comm": case["combined"],
    }
    if case["V"]:
        given["num-virtual-stages-per-pipeline-rank"] = case["V"]
    return {key: str(value).lower() for key, value in given.items()}


def cases():
    """Overlapping, with its flush, batched, and neither; each also combined."""
    ways = [(True, False, False), (True, False, True), (False, True, False), (False, False, False)]
    for P, V, way, combined in itertools.product((2, 3, 4, 5, 8), (None, 2, 3), ways, (False, True)):
        overlap, batch, flush = way
        if V is None and (overlap or combined):
            continue
        for G in (P - 1, P, P + 1) if V else (P,):
            for M in sorted({1, P, P + 2, 2 * P, 3 * P + 1} if P < 8 else {P, 2 * P}):
                yield dict(P=P, V=V, M=M, G=G, overlap=overlap, batch=batch, flush=flush,
                           combined=combined)
    for M, combined in itertools.product((1, 2, 5), (False, True)):
        yield dict(P=1, V=None, M=M, G=1, overlap=False, batch=True, flush=False, combined=combined)


# The model of a step as it was issued: a call begins when all computation and all waits listed
# before it have ended and the call before it on its communicator too; it ends when all its messages
# have begun on both sides.


def matches(lines):
    """True if the k-th send from a rank to another is its k-th receive there."""
    ranks, sent, received = len(lines), {}, {}
    for rank, words in enumerate(lines):
        for stage, kind, letter, microbatch in re.findall(r"(\d+)(SEND|RECV)_([FB])(\d+)", " ".join(words)):
            forward = letter == "F"
            ahead = (kind == "SEND") == forward
            peer = (rank + 1 if ahead else rank - 1) % ranks
            takes = int(stage) if kind == "RECV" else int(stage) + (1 if forward else -1)
            way = (rank, peer) if kind == "SEND" else (peer, rank)
            (sent if kind == "SEND" else received).setdefault(way, []).append((takes, letter, microbatch))
    return sent == received


def ends(lines, layout):
    ranks = len(lines)
    items, places, last = [], {}, {}
    sends, recvs = {}, {}
    for rank, words in enumerate(lines):
        before = None  # the computation or wait before
        for word in words:
            messages = re.findall(r"(\d+)(WAIT_)?(SEND|RECV)_([FB])(\d+)", word)
            item = dict(rank=rank, ended=False, begun=False, after=[] if before is None else [before],
                        calls=[], waits=[])
            index = len(items)
            for stage, wait, kind, letter, microbatch in messages:
                name = (rank, stage, kind, letter, microbatch)
                if wait:
                    item["waits"].append(places[name])
                    continue
                places[name] = index
                ahead = (kind == "SEND") == (letter == "F")
                peer = (rank + 1 if ahead else rank - 1) % ranks
                way = (rank, peer) if kind == "SEND" else (peer, rank)
                (sends if kind == "SEND" else recvs).setdefault(way, []).append(index)
                shared = {"shared": (), "pair": tuple(sorted(way)), "edge": way}[layout]
                if last.get((rank, shared)) not in (None, index):
                    item["after"].append(last[rank, shared])
                last[rank, shared] = index
                item["calls"].append(way)
            if not item["calls"]:
                before = index
            items.append(item)
    partner = {}
    for way in sends:
        for a, b in zip(sends[way], recvs[way]):
            partner.setdefault(a, []).append(b)
            partner.setdefault(b, []).append(a)
    moved = True
    while moved:
        moved = False
        for index, item in enumerate(items):
            if item["ended"] or not all(items[i]["ended"] for i in item["after"]):
                continue
            moved |= not item["begun"]
            item["begun"] = True
            if all(items[i]["ended"] for i in item["waits"]) and all(
                items[i]["begun"] for i in partner.get(index, ())
            ):
                item["ended"] = moved = True
    return all(item["ended"] for item in items)


def compare(torch, folder, case, tally):
    plan, text = imported(folder, arguments_of(case))
    try:
        ranks = megatron_record.play(torch, **case)
    except (ValueError, RuntimeError) as error:
        assert plan is None, (case, "Megatron refuses it", str(error))
        tally["refused by both"] += 1
        return
    assert plan is not None, (case, text)
    lines = [rank.words() for rank in ranks]
    assert lines == lines_of(text), (case, lines, text)
    tally["orders"] += 1
    tally["actions"] += sum(map(len, lines))
    layout = re.search(r"^messages (\w+)( lazy)?$", text, re.M)
    if not case["batch"]:
        compare_groups(ranks, layout[1])
        assert layout[2], case
    else:
        assert (layout[1], layout[2]) == ("shared", None), case
    for asked in {layout[1], "shared" if case["P"] > 2 else layout[1]}:
        answer = run("check", str(plan), "--layout", asked)
        good = answer.returncode == 0
        if not matches(lines):
            # A batch of both directions between the same two ranks: sends meet other receives.
            assert not good and case["P"] == 2 and case["batch"] and case["V"], (case, answer)
            assert "meets" in answer.stdout, answer.stdout
            tally["swapped"] += 1
            continue
        assert good == ends(lines, asked), (case, asked, answer.stdout)
        tally["ends" if good else "hangs"] += 1
        if not good:
            tally["hanging"].add((case["P"], case["flush"], asked))


def compare_groups(ranks, layout):
    """Of calls outside of batches: torch makes a communicator for every two ranks of a group."""
    made = {}
    for rank in ranks:
        for group, way in rank.groups():
            made.setdefault(way, set()).add("pipeline" if group is not None else "world")
    assert all(len(groups) == 1 for groups in made.values()), made
    if layout == "edge":
        assert len(ranks) == 2 and made[0, 1] != made[1, 0], made
    else:
        assert len(ranks) > 2 and set().union(*made.values()) == {"pipeline"}, made


def compare_layers(folder, tally):
    """Splits by numbers, and layouts as strings."""
    from megatron.core.transformer import pipeline_parallel_layer_layout as layouts
    from megatron.core.transformer import transformer_block

    for P, V, first, last, embedding, loss, layers in itertools.product(
        (2, 4), (None, 2), (None, 2), (None, 4), (False, True), (False, True), (8, 14, 16)
    ):
        config = types.SimpleNamespace(
            pipeline_model_parallel_layout=None, num_layers=layers, pipeline_model_parallel_size=P,
            virtual_pipeline_model_parallel_size=V, num_layers_in_first_pipeline_stage=first,
            num_layers_in_last_pipeline_stage=last,
            account_for_embedding_in_pipeline_split=embedding, account_for_loss_in_pipeline_split=loss,
        )
        given = {"pipeline-model-parallel-size": P, "num-layers": layers, "num-microbatches": P,
                 "decoder-first-pipeline-num-layers": first, "decoder-last-pipeline-num-layers": last,
                 "account-for-embedding-in-pipeline-split": embedding,
                 "account-for-loss-in-pipeline-split": loss,
                 "num-virtual-stages-per-pipeline-rank": V}
        given = {key: str(value).lower() for key, value in given.items() if value is not None}
        plan, text = imported(folder, given)
        try:
            built = [transformer_block.get_num_layers_to_build(config, chunk if V else None, rank)
                     for chunk in range(V or 1) for rank in range(P)]
            # Megatron takes no notice of layers that are left over.
            assert sum(built) == layers
        except AssertionError:
            assert plan is None, (given, text)
            tally["splits refused by both"] += 1
            continue
        assert plan is not None, (given, text)
        stages = re.search(r"^split layout (.*)$", text, re.M)[1].split()
        assert [stage.count("t") for stage in stages] == built, (given, stages, built)
        tally["splits"] += 1
    for P, layout in [(4, "Et*3|(tt|)*6tL"), (4, "Et*2|(tt|)*5t|tmL"), (2, "Et*7|t*7mL"), (2, "E|t||tt|tL|"),
                      (8, "Et,(t|)*30,t*2,L"), (4, "E||t*5|L"), (2, "E|(t|)*3,L"), (3, "Et|t|tx"), (2, "Et|tt")]:
        given = {"pipeline-model-parallel-size": P, "num-microbatches": P,
                 "pipeline-model-parallel-layout": f"'{layout}'"}
        plan, text = imported(folder, given)
        try:
            parsed = layouts.PipelineParallelLayerLayout(layout, P)
            flat = [kind.name for kind in parsed.flatten_layout]
            parsed.validate_layer_layout(flat.count("decoder"), flat.count("mtp"))
        except AssertionError:
            assert plan is None, (layout, text)
            tally["layouts refused by both"] += 1
            continue
        assert plan is not None, (layout, text)
        letters = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
        stages = ["".join(letters[kind.name] for kind in parsed.layout[rank][chunk]) or "-"
                  for chunk in range(len(parsed.layout[0])) for rank in range(P)]
        assert re.search(r"^split layout (.*)$", text, re.M)[1].split() == stages, (layout, text)
        tally["layouts"] += 1


def main():
    torch, core = load()
    tally = {key: 0 for key in ("orders", "actions", "refused by both", "swapped", "ends", "hangs", "splits",
                                "splits refused by both", "layouts", "layouts refused by both")}
    tally["hanging"] = set()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            compare(torch, Path(folder), case, tally)
        compare_layers(Path(folder), tally)
    # Torch has one communicator for all messages when it connects ranks ahead. There, messages that
    # overlap the flush make a circle of an even number of ranks; nothing else hangs.
    hanging = tally.pop("hanging")
    assert hanging == {(P, True, "shared") for P in (4, 8)}, hanging
    assert all(tally.values()), tally
    print(f"ok, Megatron Core {core.__version__}: " + ", ".join(f"{count} {what}" for what, count in tally.items()))


if __name__ == "__main__":
    main()
