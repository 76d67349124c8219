"""Results kept for later: pickles, and the command line's part for the package."""

import json
import pickle

import pytest
import stringline
from tool import COSTS, SOURCE, said

MODEL = f"{SOURCE}/examples/01_train/run.yaml"


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("name", ["zb_h1", "dualpipe", "kimi_k2"])
def test_pickles(name):
    schedule = stringline.load(name)
    plan = schedule.plan(P=4, M=8)
    step = plan.simulate(COSTS)
    assert again(schedule) == schedule and again(schedule).text == schedule.text
    assert again(plan) == plan and again(plan).parameters == plan.parameters
    assert (again(plan).actions == plan.actions).all()
    assert again(step) == step and (again(step).events == step.events).all()
    assert again(step.report()) == step.report()


def test_equal_by_value():
    first, second = stringline.load("zb_v"), stringline.load("zb_v")
    assert first == second and hash(first) == hash(second) and first != stringline.load("zb_h1")
    assert first != stringline.Schedule(first.text, name="other.sched") and first != first.text
    plans = [first.plan(P=4, M=8), second.plan(P=4, M=8), first.plan(P=4, M=9)]
    assert plans[0] == plans[1] != plans[2] and len(set(plans)) == 2 and plans[0] != plans[0].text
    # Another order of the same actions is another plan.
    orders = [["0F0", "0F1", "0B0", "0B1"], ["0F0", "0B0", "0F1", "0B1"]]
    one, other = (stringline.Schedule.build([order]).plan() for order in orders)
    assert one != other and one == stringline.Schedule.build(one.ranks).plan()
    steps = [plan.simulate(COSTS) for plan in plans]
    assert steps[0] == steps[1] != steps[2] and hash(steps[0]) == hash(steps[1])
    assert steps[0] != plans[0].simulate({**COSTS, "p2p": 602}) and steps[0] != plans[0]


def test_a_pickle_of_what_was_found():
    found = stringline.search(P=2, M=4, costs=COSTS, iterations=100)
    kept = again(found)
    assert kept == found and str(kept) == str(found)
    assert kept.schedule.text == found.schedule.text
    assert kept.timeline.text == found.timeline.text and kept.plan.text == found.plan.text


def test_bytes_of_a_run_file():
    proof = stringline.load("1f1b").plan(P=4, M=8).check(model=MODEL, layout="pair")
    words = ("check", "1f1b", "P=4", "M=8", "--layout=pair", "--model", MODEL)
    assert proof.text == said(*words)
    figures = json.loads(said(*words, "--json"))
    assert proof["bytes"] == figures["bytes"] and len(proof) == len(figures) - 2  # ok, findings


def test_a_run_file_that_is_wrong():
    plan = stringline.load("1f1b").plan(P=4, M=8)
    with pytest.raises(stringline.ScheduleError, match="rank 0 holds .* more than") as caught:
        plan.check(model=MODEL, memory="1MB")
    assert caught.value.rank == 0 and caught.value.file == "1f1b.plan"
    with pytest.raises(ValueError, match="^none.yaml: no such file"):
        plan.check(model="none.yaml")
    with pytest.raises(ValueError, match="^model: goes without costs"):
        plan.check(model=MODEL, costs=COSTS)


def test_pictures_of_the_command_line(tmp_path):
    step = stringline.load("zb_v").plan(P=4, M=8).simulate(COSTS)
    for end, begins in ((".pdf", b"%PDF"), (".png", b"\x89PNG")):
        step.save(tmp_path / f"step{end}", ranks="0..1")
        assert (tmp_path / f"step{end}").read_bytes().startswith(begins)
    with pytest.raises(ValueError, match="palette"):
        step.save(tmp_path / "step.pdf", palette="blue")


def test_without_the_command_line(tmp_path, monkeypatch):
    monkeypatch.delenv("STRINGLINE_TOOL")
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = stringline.load("zb_v").plan(P=4, M=8)
    with pytest.raises(NotImplementedError, match="there is no 'stringline' on the path"):
        plan.check(model=MODEL)
    with pytest.raises(NotImplementedError, match="a .pdf file needs the command line"):
        plan.simulate(COSTS).save("step.pdf")
