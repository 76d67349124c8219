"""Plans and timelines as NumPy arrays: the same memory, read-only, alive as long as any array
is."""

import gc

import numpy as np
import pytest
import stringline
from tool import COSTS


def test_a_plan_is_its_text():
    plan = stringline.load("dualpipe").plan(P=4, M=8)
    names = [word for rank in plan.ranks for group in rank for word in group.split("&")]
    assert len(plan) == len(plan.actions) == len(names)
    first_of_pipe = {"": 0, **dict(zip(plan.pipes, (0, 4)))}
    for i, name in enumerate(names):
        pipe, _, rest = name.replace("]", "").rpartition("[")
        kind = stringline.KINDS[plan.kind[i]]
        stage = plan.stage[i] - first_of_pipe[pipe]
        assert rest == f"{stage}{kind}{plan.microbatch[i]}", name
    assert (plan.rank == plan.rank_of_stage[plan.stage]).all()
    assert [len(plan.of(rank)) for rank in range(4)] == np.diff(plan.first).tolist()


def test_a_timeline_is_its_text():
    step = stringline.load("zb_h1").plan(P=3, M=4).simulate(COSTS)
    lines = step.text.splitlines()
    words = [word for line in lines if line.startswith("rank") for word in line.split()[2:]]
    assert len(words) == len(step)
    for word, event in zip(words, step.events):
        named, times = word.split("@")
        start, length = map(int, times.split("+"))
        kind = stringline.KINDS[event["kind"]]
        assert named == f"{event['stage']}{kind}{event['microbatch']}"
        assert (event["start_ns"], event["end_ns"]) == (start, start + length)
    assert step.end_ns.max() == step.makespan_us * 1000
    assert (step.plan.actions["kind"] == step.kind).all() and step.plan.lowered


def address(array):
    return array.__array_interface__["data"][0]


def test_nothing_is_copied_and_nothing_can_be_changed():
    plan = stringline.load("1f1b").plan(P=2, M=3)
    step = plan.simulate()
    again = stringline.Plan(plan._step)
    assert address(plan.actions) == address(again.actions)
    offset = step.events.dtype.fields["start_ns"][1]
    assert address(step.start_ns) == address(step.events) + offset
    for array in (plan.actions, plan.kind, plan.stage, plan.microbatch, plan.first, plan.rank,
                  plan.rank_of_stage, step.events, step.start_ns, step.end_ns, step.parts,
                  step.rank, step.first):
        assert not array.flags.writeable
        with pytest.raises(ValueError):
            array[...] = array[:1] if len(array) else 0
            array.flags.writeable = True


def test_buckets_are_shown():
    plan = stringline.load("1f1b").plan(P=2, M=4)
    step = plan.simulate({**COSTS, "unshard": "8us", "reduce": "40us", "buckets": 4})
    gathers = step.events[step.kind == stringline.KINDS.index("UNSHARD")]
    assert len(gathers) == 2
    assert (gathers["first_bucket_ns"] - gathers["start_ns"] == 2000).all()
    others = step.events[step.kind != stringline.KINDS.index("UNSHARD")]
    assert (others["first_bucket_ns"] == 0).all()
    assert (step.events["waited_ns"] <= step.end_ns - step.start_ns).all()


def test_arrays_outlive_their_plan():
    starts = stringline.load("zb_v").plan(P=4, M=64).simulate(COSTS).start_ns
    kept = starts.copy()
    for _ in range(20):
        gc.collect()
        stringline.load("zb_v").plan(P=4, M=64).simulate({"F": 1, "I": 1, "W": 1})
    assert (starts == kept).all()
