"""Schedules made in Python, and torch's schedules."""

import pathlib
from typing import NamedTuple

import pytest
import stringline
from stringline import Action, Schedule
from tool import SOURCE, said


def test_ranks_and_actions():
    ranks = [["0F0", "0F1", Action(0, "B", 0), "0B1"], ["1F0", ["1B0", Action(1, "F", 1)], "1B1"]]
    schedule = Schedule.build(ranks, name="mine")
    assert schedule.text == ("plan mine P=2 M=2\nstages 0 1\nrank 0: 0F0 0F1 0B0 0B1\n"
                             "rank 1: 1F0 1B0&1F1 1B1\n")
    plan = schedule.plan()
    assert plan.check()["actions"] == 8
    assert plan.simulate({"F": 1, "B": 2}).makespan_us == 9
    assert plan.explain("1B1").chain[0]["line"] == 4


def test_slices_are_seen_in_the_names():
    made = Schedule.build([["0F0.0", "0F0.1", "0F1.0", "0B0.1", "0F1.1", "0B0.0", "0B1.1", "0B1.0"]])
    plan = made.plan()
    assert (plan.slices, plan.microbatches) == (2, 2)
    assert plan.microbatch.tolist() == [0, 1, 2, 1, 3, 0, 3, 2]
    assert plan.check()["activations"] == 1.5
    step = plan.simulate({"F": 4, "B": 8, "attention": "50%"})
    assert step.slices == 2
    assert [e - s for s, e in zip(step.start_ns, step.end_ns)] == [1500, 2500, 1500, 5000, 2500,
                                                                   3000, 5000, 3000]
    assert stringline.load("1f1b").plan(2, 4).slices == 1
    with pytest.raises(ValueError, match="slices, which take different times"):
        step.calibrate()


def test_one_f_one_b_by_hand_is_that_of_the_library():
    P, M = 4, 8
    ranks = []
    for r in range(P):
        warmup = min(P - 1 - r, M)
        order = [Action(r, "F", m) for m in range(warmup)]
        for m in range(M - warmup):
            order += [Action(r, "F", warmup + m), Action(r, "B", m)]
        order += [Action(r, "B", m) for m in range(M - warmup, M)]
        ranks.append(order)
    made = Schedule.build(ranks, stages=range(P), microbatches=M).plan()
    assert made.ranks == stringline.load("1f1b").plan(P, M).ranks


def test_overlaps_and_chunks_hide_what_is_on_the_network():
    ranks = [["0F0&0F1", "0B0", "0B1"]]
    costs = {"F.attn": 4, "F.dispatch": 2, "F.experts": 4, "F.combine": 2,
             "B.attn": 4, "B.dispatch": 2, "B.experts": 4, "B.combine": 2,
             "W.attn": 1, "W.experts": 1}

    def makespan(**how):
        return Schedule.build(ranks, **how).plan().simulate(costs).makespan_us

    assert makespan() == 2 * 12 + 2 * 14
    # attn 0-4 and 4-8, dispatch 4-6 and 8-10, experts 8-12 and 12-16, the last combine 16-18.
    assert makespan(overlaps=["F & F"]) == 18 + 2 * 14
    halves = Schedule.build(ranks, chunks=2, overlaps=["F & F"])
    assert "overlap F&F\nchunks 2\n" in halves.text
    assert makespan(chunks=2, overlaps=["F & F"]) < 18 + 2 * 14
    with pytest.raises(stringline.ScheduleError, match="chunks"):
        Schedule.build(ranks, chunks=17).plan()


@pytest.mark.parametrize("ranks, rank, words", [
    ([["0F0", "0B0"], ["1F0"]], 1, "has no backward"),
    ([["0F0", "0B0"], ["1B0", "1F0"]], 1, "waits forever"),
])
def test_a_built_one_is_checked_like_any_other(ranks, rank, words):
    with pytest.raises(stringline.ScheduleError, match=words) as raised:
        Schedule.build(ranks).plan().check()
    assert raised.value.rank == rank and raised.value.file == "built.plan"


@pytest.mark.parametrize("ranks, how, said", [
    ([], {}, "ranks: there is none"),
    ([["0F0"]], {"name": "two words"}, "name: expected one word"),
    ([["1F0", "1B0"]], {}, "stage 0 does nothing on any rank"),
    ([["zz"]], {}, "ranks[0][0] is 'zz': 'zz' is no action; expected a stage, a kind and a microbatch, as '3F7'"),
    ([["0F0"], ["1F0", "1F0&F1"]], {}, "ranks[1][1] is '1F0&F1': 'F1' is no action"),
    ([["0F0"], ["1F0", ["1B0", Action(1, "G", 1)]]], {}, "ranks[1][1] is ['1B0', Action("),
    ([["0F0", "0B0"], ["1F0", "1B0", "1X0"]], {}, "ranks[1][2] is '1X0': 'X' is no kind of action; there are F, B,"),
    ([[Action(0, "F")]], {}, "'0F' has no microbatch; expected one, as '0F0'"),
    ([["0F0 0F1"]], {}, "ranks[0][0] is '0F0 0F1': '0F0 0F1' is no action"),
    ([[""]], {}, "ranks[0][0] is '': '' is no action"),
    ([[3]], {}, "ranks[0][0] is 3: '3' is no action"),
    (["0F0"], {}, "ranks[0] is '0F0': expected a list of actions"),
    ([3], {}, "ranks[0] is 3: expected a list of actions"),
])
def test_what_cannot_be_built(ranks, how, said):
    with pytest.raises(ValueError) as raised:
        Schedule.build(ranks, **how)
    assert said in str(raised.value)


def test_collectives_have_no_microbatch():
    text = Schedule.build([["0UNSHARD", "0F0", "0B0", "0REDUCE_GRAD", "0RESHARD", "0UPDATE"]]).text
    assert "rank 0: 0UNSHARD 0F0 0B0 0REDUCE_GRAD 0RESHARD 0UPDATE\n" in text


CSV = f"{SOURCE}/tests/golden/torch/zbvzerobubble_p2_v2_m4_compute.csv"


def test_a_file_of_torchs_is_read_as_the_tool_reads_it():
    imported = said("import", CSV)
    assert stringline.from_torch(CSV).text == imported
    assert stringline.from_torch(pathlib.Path(CSV)).text == imported
    assert stringline.load(CSV).plan().text == imported
    text = pathlib.Path(CSV).read_text()
    named = stringline.from_torch(text, name="zbvzerobubble_p2_v2_m4_compute")
    assert named.text == imported


class TorchAction(NamedTuple):
    """In torch's form: a tuple that prints as a cell."""

    stage_index: int
    computation_type: str
    microbatch_index: int | None = None

    def __repr__(self):
        return f"{self.stage_index}{self.computation_type}{self.microbatch_index}"

    __str__ = __repr__


class TorchSchedule:
    def __init__(self, orders):
        self.pipeline_order = orders


def test_a_schedule_object_of_torchs():
    orders = {r: [TorchAction(r, "F", 0), None, TorchAction(r, "B", 0)] for r in (1, 0)}
    for source in (TorchSchedule(orders), orders):
        plan = stringline.from_torch(source, name="theirs")
        assert plan.ranks == [["0F0", "0B0"], ["1F0", "1B0"]] and plan.schedule == "theirs"
        plan.check()
    with pytest.raises(ValueError, match="from 0 on"):
        stringline.from_torch({1: ["0F0"]})


def test_there_and_back():
    plan = stringline.load("interleaved_zb").plan(P=4, M=8)
    for form in ("compute", "comms"):
        back = stringline.from_torch(plan.to_torch_csv(form))
        computed = [[word for word in rank if "_" not in word and "SHARD" not in word]
                    for rank in back.ranks]
        assert computed == plan.ranks


def test_files_that_use_others(tmp_path):
    (tmp_path / "base.sched").write_text(stringline.load("1f1b").text)
    user = 'use "base.sched";\nschedule mine(P, M) = one_f_one_b(P, M) then defer W by 1;\n'
    (tmp_path / "user.sched").write_text(user)
    plan = stringline.load(tmp_path / "user.sched").plan(P=2, M=4)
    assert plan.schedule == "mine" and (plan.kind == stringline.KINDS.index("W")).any()
    named = Schedule('use "1f1b";\n' + user.split("\n")[1], name=str(tmp_path / "text.sched"))
    assert named.plan(P=2, M=4).ranks == plan.ranks
