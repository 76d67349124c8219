"""Every mistake is an exception with an explanation; nothing ends the interpreter."""

import copy
import pathlib
import pickle
import re
import shlex

import pytest
import stringline
from tool import COSTS, SOURCE, said

BROKEN = f"{SOURCE}/examples/03_find_a_deadlock/broken.sched"


def test_a_broken_schedule():
    plan = stringline.load(BROKEN).plan(P=2, M=4)
    with pytest.raises(stringline.ScheduleError) as raised:
        plan.check()
    error = raised.value
    assert (error.file, error.line, error.column, error.rank) == (BROKEN, 9, 26, 0)
    assert str(error) + "\n" == said("check", BROKEN, "P=2", "M=4", status=1)
    assert error.code == error.findings[0]["code"]
    assert [note.get("line") for note in error.findings[0]["notes"]] == [8, None]
    for call in (plan.simulate, plan.report, plan.to_torch_csv, lambda: plan.explain("0F0")):
        with pytest.raises(stringline.ScheduleError):
            call()
    assert pickle.loads(pickle.dumps(error)).line == copy.copy(error).line == 9


# Findings about parameters are a ValueError here: they are no fault of the text.
OF_PARAMETERS = ("missing-parameter", "unknown-parameter")


def golden_errors():
    """The files that show a finding each, with the parameters in their first lines."""
    found = []
    for path in sorted(pathlib.Path(SOURCE, "tests/golden/errors").iterdir()):
        words = shlex.split(path.read_text(errors="replace").split("\n")[0])[2:]
        given = dict(word.split("=") for word in words if re.fullmatch(r"\w+=-?\d+", word))
        # Others ask for options, and timelines have no schedule.
        if len(given) == len(words) and path.suffix != ".timeline":
            found.append((path, {name: int(value) for name, value in given.items()}))
    return found


@pytest.mark.parametrize("path, given", golden_errors())
def test_golden_errors(path, given):
    kind = ValueError if path.stem in OF_PARAMETERS else stringline.ScheduleError
    with pytest.raises(kind) as raised:
        stringline.load(path).plan(**given).check()
    if kind is stringline.ScheduleError:
        assert raised.value.code == path.stem
        assert raised.value.file and raised.value.line


@pytest.mark.parametrize("text", [
    "", "{", "\n", "schedule", "schedule x(P, M) {", "plan\n", "plan x P=2 M=2\nstages 0\n",
    "0F0,\n1F0;\n", "timeline\n", "schedule \xff(P, M) { }", "{" * 5000, "use \"nowhere.sched\";\n",
])
def test_any_text_is_refused_in_words(text):
    with pytest.raises((stringline.ScheduleError, ValueError, FileNotFoundError)) as raised:
        stringline.Schedule(text).plan(P=2, M=2).check()
    assert str(raised.value)


def test_a_text_with_a_zero_byte():
    with pytest.raises(ValueError):
        stringline.load("schedule x\0(P, M) {\n}")


@pytest.mark.parametrize("kind, call", [
    (FileNotFoundError, lambda plan: stringline.load("nowhere.sched")),
    (FileNotFoundError, lambda plan: stringline.load("zb_h7")),
    (FileNotFoundError, lambda plan: stringline.load("-")),
    (FileNotFoundError, lambda plan: plan.simulate("nowhere.yaml")),
    (FileNotFoundError, lambda plan: stringline.from_torch("nowhere.csv")),
    (ValueError, lambda plan: plan.simulate(COSTS).save("/dev/null/x.svg")),
    (OSError, lambda plan: plan.simulate(COSTS).save("/dev/null/x.timeline")),
    (TypeError, lambda plan: stringline.load(3)),
    (TypeError, lambda plan: stringline.load("zb_h1").plan(P=4.0, M=8)),
    (TypeError, lambda plan: stringline.load("zb_h1").plan(P=True, M=8)),
    (TypeError, lambda plan: stringline.load("zb_h1").plan(P="4", M=8)),
    (TypeError, lambda plan: plan.simulate(3)),
    (TypeError, lambda plan: plan.simulate({"F": object()})),
    (TypeError, lambda plan: plan.check(layout=["pair"])),
    (TypeError, lambda plan: plan.simulate().compare(plan)),
    (TypeError, lambda plan: stringline.from_torch(object())),
    (TypeError, lambda plan: stringline.sweep("zb_h1", P=4, M=[1.5])),
    (ValueError, lambda plan: stringline.load("zb_h1").plan(P=4)),
    (ValueError, lambda plan: stringline.load("zb_h1").plan(P=4, M=8, Q=1)),
    (ValueError, lambda plan: stringline.load("zb_h1").plan(P=10**30, M=8)),
    (ValueError, lambda plan: stringline.load(plan.text).plan(P=4)),
    (ValueError, lambda plan: plan.simulate({})),
    (ValueError, lambda plan: plan.simulate({"Q": 1})),
    (ValueError, lambda plan: plan.simulate({"F": [1, 2]})),
    (ValueError, lambda plan: plan.simulate({"F": -1})),
    (ValueError, lambda plan: plan.simulate({"F": float("nan")})),
    (ValueError, lambda plan: plan.simulate("F=1,")),
    (ValueError, lambda plan: plan.simulate(layout="square")),
    (ValueError, lambda plan: plan.simulate(slow={9: "1%"})),
    (ValueError, lambda plan: plan.simulate(messages="as-written")),
    (ValueError, lambda plan: plan.check(buffers=-1)),
    (ValueError, lambda plan: plan.check(memory="80GB")),
    (ValueError, lambda plan: plan.to_torch_csv("comics")),
    (ValueError, lambda plan: plan.explain("9F9")),
    (ValueError, lambda plan: plan.explain("")),
    (ValueError, lambda plan: plan.simulate().save("x.gif")),
    (ValueError, lambda plan: plan.simulate().svg(ranks="9")),
    (ValueError, lambda plan: plan.simulate().svg(lines=True)),
    (ValueError, lambda plan: stringline.sweep("zb_h1")),
    (ValueError, lambda plan: stringline.sweep([], P=4, M=8)),
    (ValueError, lambda plan: stringline.sweep("zb_h1", P=4)),
    (ValueError, lambda plan: stringline.sweep("zb_h1", P=4, M="9..2")),
    (ValueError, lambda plan: stringline.sweep("zb_h1", P=4, M=[])),
    (ValueError, lambda plan: stringline.search(P=4)),
    (ValueError, lambda plan: stringline.search(4, 8, seconds=-1)),
    (ValueError, lambda plan: stringline.search(4, 8, COSTS, place="ring")),
    (ValueError, lambda plan: stringline.search(4, 8, COSTS, memory="1B")),
    (ValueError, lambda plan: stringline.load_timeline(f"{SOURCE}/README.md")),
    (IndexError, lambda plan: plan.of(4)),
    (stringline.ScheduleError, lambda plan: stringline.load("dualpipe_v").plan(P=4, M=2)),
    (stringline.ScheduleError, lambda plan: stringline.load("zb_h1").plan(P=10**6, M=10**6)),
    (ValueError, lambda plan: stringline.load("zb_h1").plan(P=-1, M=8)),
    (stringline.ScheduleError, lambda plan: stringline.from_torch("0F0,x")),
    (stringline.ScheduleError, lambda plan: plan.check(activations=1)),
])
def test_what_cannot_be(kind, call):
    with pytest.raises(kind) as raised:
        call(stringline.load("zb_h1").plan(P=4, M=8))
    assert str(raised.value) and "--" not in str(raised.value).split(":")[0]


def test_the_extension_takes_nothing_for_granted():
    from stringline import _core

    for arguments in ((), ("plan",), (1, 2), ("plan", "{}", 3), ("compare", "{}"),
                      ("plan", "not json"), ("plan", "{}"), ("nothing", "{}"), ("draw", "[]")):
        try:
            code, *_ = _core.call(*arguments)
        except (TypeError, SystemError, IndexError):
            continue
        assert code not in (0, -1), arguments
    for type_ in (_core.Step, _core.Array):
        with pytest.raises(TypeError):
            type_()


def test_broken_traces(tmp_path):
    traced = f"{SOURCE}/examples/05_torch/traced"
    cut = tmp_path / "rank0.json"
    cut.write_text(pathlib.Path(traced, "rank0.json").read_text()[:3000])
    with pytest.raises(ValueError, match="rank0.json: ends in the middle"):
        stringline.from_trace(tmp_path)
    with pytest.raises(ValueError, match="rank0.json: no trace has stage 1"):
        stringline.from_trace([f"{traced}/rank0.json"])
    with pytest.raises(ValueError, match="step 7 is not whole"):
        stringline.from_trace(traced, step=7)
    with pytest.raises(FileNotFoundError, match="nowhere.json"):
        stringline.from_trace("nowhere.json")


@pytest.mark.parametrize("words, call", [
    ("slow[9]: there is no rank 9; the plan has 4", lambda plan: plan.simulate(slow={9: "1%"})),
    ("slow[1]: '10' has no unit: write 10%", lambda plan: plan.simulate(slow={1: "10"})),
    ("slow[0-3]: no message of this plan goes over 0-3; messages go over 0-1, 1-2, 2-3",
     lambda plan: plan.simulate({"F": 1, "I": 1, "W": 1, "p2p": 1}, slow={"0-3": "1%"})),
    ("slow[1-0]: link 1-0 is given twice, also as 0-1",
     lambda plan: plan.simulate({"p2p": 1}, slow={"0-1": "1%", "1-0": "1%"})),
    ("slow: '0-' is no link", lambda plan: plan.simulate(slow={"0-": "1%"})),
    ("links.0-1.p2q: a link has no 'p2q'; did you mean 'p2p'?",
     lambda plan: plan.simulate({"F": 1, "links": {"0-1": {"p2q": 1}}})),
    ("links.0-9.p2p: there is no rank 9; the plan has 4",
     lambda plan: plan.simulate({"F": 1, "I": 1, "W": 1, "links": {"0-9": {"p2p": 1}}})),
    ("memory: there is no rank 7; the plan has 4",
     lambda plan: plan.check(memory={7: "1GB"}, costs={"memory.weights": "1GB"})),
    ("memory[1]: '80' has no unit: write 80kB, 80MB or 80GB",
     lambda plan: plan.check(memory=["1GB", "80"])),
    ("(model=\"RUN.yaml\")", lambda plan: plan.check(memory="80GB")),
    ("buffers: expected a whole number in 0 .. 1000000, got -1", lambda plan: plan.check(buffers=-1)),
    ("layout: expected \"shared\" or \"updown\" or \"pair\" or \"edge\", got \"square\"",
     lambda plan: plan.simulate(layout="square")),
    ("costs: unknown cost 'Fd'; did you mean 'F'?", lambda plan: plan.simulate({"Fd": 1})),
    ("costs: F: '-1' is not a time", lambda plan: plan.simulate({"F": -1})),
    ("there is no 'lines'; did you mean 'lanes'?", lambda plan: plan.simulate().svg(lines=True)),
    ("ranks: there is no rank 9; the step has 4", lambda plan: plan.simulate().svg(ranks=9)),
    ("width does not go with html", lambda plan: plan.simulate().save("x.html", width=300)),
    ("M=\"9..x\": 'x' is", lambda plan: stringline.sweep("zb_h1", P=4, M="9..x")),
    ("place=\"ring\": a placement is", lambda plan: stringline.search(4, 8, COSTS, place="ring")),
    ("(work=\"model\")", lambda plan: stringline.search(4, 8, COSTS, place="any")),
    ("begin and place: give one of them",
     lambda plan: stringline.search(4, 8, COSTS, begin="zb_h1", place="v")),
    ("schedule: is the name", lambda plan: stringline.search(4, 8, COSTS, schedule="x")),
])
def test_a_wrong_field_is_named_as_its_keyword(words, call):
    with pytest.raises(ValueError) as raised:
        call(stringline.load("zb_h1").plan(P=4, M=8))
    assert words in str(raised.value)
    assert "--" not in str(raised.value) and "`" not in str(raised.value)


def test_no_field_is_read_over():
    from stringline import _core

    code, text, *_ = _core.call("facts", '{"file": "zb_h1", "fiel": 1}')
    assert (code, text) == (3, "there is no 'fiel'; did you mean 'file'?")
