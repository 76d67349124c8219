"""Every answer equals the command line's, word by word and figure by figure."""

import pytest
import stringline
from tool import COST_WORDS, COSTS, SOURCE, figures, said

P, M = 4, 8
NAMES = ("P=4", "M=8")
COST = ("--cost", COST_WORDS)
OWN = 700  # the cost of an action of a schedule's own

library = pytest.mark.parametrize("name", stringline.library())


@pytest.fixture
def plan(name):
    return stringline.load(name).plan(P, M)


@pytest.fixture
def costs(plan):
    return {**COSTS, **dict.fromkeys(plan.own_actions.values(), OWN)}


@pytest.fixture
def cost(plan):
    own = [f"{name}={OWN}" for name in plan.own_actions.values()]
    return "--cost", ",".join([COST_WORDS, *own])


@pytest.fixture
def step(plan, costs):
    return plan.simulate(costs)


@library
def test_plan(name, plan):
    assert plan.text == said("plan", name, *NAMES)
    assert plan.ranks == figures("plan", name, *NAMES)["ranks"]
    assert plan.with_messages().text == said("plan", name, *NAMES, "--lowered")
    again = stringline.load(plan.text).plan()
    assert again.text == plan.text


@library
def test_check(name, plan):
    proof = plan.check()
    assert str(proof) == said("check", name, *NAMES)
    assert dict(proof) == {
        key: value for key, value in figures("check", name, *NAMES).items()
    }


@library
def test_sim(name, cost, step):
    assert str(step) == said("sim", name, *NAMES, *cost)
    assert dict(step.summary) == figures("sim", name, *NAMES, *cost)


@library
def test_report(name, cost, step):
    report = step.report()
    assert str(report) == said("report", name, *NAMES, *cost)
    assert dict(report) == figures("report", name, *NAMES, *cost)


@library
def test_explain(name, plan, cost, step):
    action = plan.ranks[1][-1].split("&")[0]
    explanation = step.explain(action)
    assert str(explanation) == said("explain", name, action, *NAMES, *cost)
    assert dict(explanation) == figures("explain", name, action, *NAMES, *cost)
    assert str(step.explain(action, all=True)) == said(
        "explain", name, action, *NAMES, *cost, "--all"
    )


@library
def test_compare(name, cost, step):
    other = stringline.load("1f1b").plan(P, M).simulate(COSTS)
    comparison = step.compare(other)
    words = ("compare", name, "1f1b", *NAMES, *cost)
    # The tool draws both timelines before the comparison.
    assert str(comparison) and said(*words).endswith(str(comparison))
    assert dict(comparison) == figures(*words)


@library
def test_timeline(name, cost, step, tmp_path):
    said("sim", name, *NAMES, *cost, "--timeline", tmp_path / "tool.timeline")
    step.save(tmp_path / "package.timeline")
    assert (tmp_path / "tool.timeline").read_text() == (tmp_path / "package.timeline").read_text()
    recorded = stringline.load_timeline(tmp_path / "tool.timeline")
    assert recorded.makespan_us == step.makespan_us
    assert (recorded.events == step.events).all()


@library
def test_pictures(name, cost, step, tmp_path):
    for option, end in (("--svg", "svg"), ("--html", "html"), ("--chrome", "json"),
                        ("--perfetto", "pftrace")):
        said("show", name, *NAMES, *cost, option, tmp_path / "tool")
        step.save(tmp_path / f"package.{end}")
        written = (tmp_path / f"package.{end}").read_bytes()
        assert written == (tmp_path / "tool").read_bytes(), option
    assert step.svg() == (tmp_path / "package.svg").read_text()
    assert step.html() == (tmp_path / "package.html").read_text()


@library
def test_torch_csv(name, plan, costs, cost):
    for form in ("compute", "comms", "comms-2.14"):
        try:
            text = plan.to_torch_csv(form, costs)
        except stringline.ScheduleError:
            # Torch's notation has no form for this plan.
            said("export", name, *NAMES, "--to", f"torch-{form}", status=1)
            continue
        assert text == said("export", name, *NAMES, "--to", f"torch-{form}", *cost)


def test_options_are_those_of_the_command_line():
    plan = stringline.load("zb_v").plan(P, M)
    step = plan.simulate(
        COSTS, layout="pair", slow={1: "10%", 2: 0.25}, work="model", mesh=None
    )
    words = ("zb_v", *NAMES, *COST, "--layout", "pair", "--slow", "1=10%", "--slow", "2=25%",
             "--work", "model")
    assert str(step) == said("sim", *words)
    linked = plan.simulate({**COSTS, "links": {"1-0": {"p2p": "80us"}}}, slow={"0->1": 0.5})
    assert str(linked) == str(plan.simulate("links.0-1.p2p=80us," + COST_WORDS, slow={"0->1": "50%"}))
    assert str(linked) == said("sim", "zb_v", *NAMES, "--cost", COST_WORDS + ",links.0-1.p2p=80us",
                               "--slow", "0->1=50%")
    assert dict(linked.summary)["slow"] == {"0->1": 0.5}
    proof = plan.check(layout="updown", buffers=2, lazy=True, activations=9)
    assert str(proof) == said("check", "zb_v", *NAMES, "--layout", "updown", "--buffers", "2",
                              "--lazy", "--activations", "9")
    jitter = {**COSTS, "jitter": "5%"}
    report = plan.simulate(jitter).report(runs=20, seed=7)
    assert str(report) == said("report", "zb_v", *NAMES, "--cost", COST_WORDS + ",jitter=5%",
                               "--runs", "20", "--seed", "7")


def test_costs_of_a_model_and_of_copies():
    costs = f"{SOURCE}/examples/07_mixture_of_experts/costs.yaml"
    step = stringline.load("dualpipe_v").plan(2, 8).simulate(costs)
    words = ("dualpipe_v", "P=2", "M=8", "--costs", costs)
    assert str(step.report()) == said("report", *words)
    assert len(step.parts) > 0


def test_sweep():
    ranges = {"P": "2..4", "M": "P..3*P..2"}
    columns = stringline.sweep(["1f1b", "dualpipe_v"], COSTS, **ranges, frame=False)
    points = figures("sim", "1f1b", "dualpipe_v", "--for", "P=2..4", "--for", "M=P..3*P..2",
                     *COST)["points"]
    rows = [(point["parameters"], entry) for point in points for entry in point["schedules"]]
    assert len(columns["P"]) == len(rows)
    for i, (parameters, entry) in enumerate(rows):
        assert columns["schedule"][i] == entry["schedule"]
        assert (columns["P"][i], columns["M"][i]) == (parameters["P"], parameters["M"])
        assert columns["refused"][i] == entry.get("refused", "")
        if "makespan_us" in entry:
            for figure in ("makespan_us", "bubble", "peak_activations", "stages"):
                assert columns[figure][i] == entry[figure]
    assert (columns["refused"] != "").any()


def test_search_with_jitter():
    found = stringline.search(
        4, 6, COSTS, jitter="10%", seeds=6, expect="worst", slow={1: "20%"}, iterations=2000
    )
    plan = found.schedule.plan(P=4, M=6)
    drawn = plan.simulate(COSTS, slow={1: "20%"}).jitter("10%", seeds=6)
    assert found["jitter"] == dict(drawn)
    assert found.value_us == drawn["listed_us"]["most"]
    assert found.bound_us <= found.value_us


def test_search():
    words = ("P=4", "M=6", *COST, "--activations", "4", "--iterations", "4000")
    found = stringline.search(4, 6, COSTS, activations=4, iterations=4000)
    assert str(found) == said("search", *words)
    asked = figures("search", *words)
    assert {key: found[key] for key in asked} == asked
    assert found.timeline.makespan_us == found["makespan_us"]
    assert found.plan.check().activations <= 4
    assert found.timeline.explain("0I0")["chain"][0]["file"] == "found.sched"
    better = stringline.search(4, 6, COSTS, begin=found.schedule, iterations=4000, activations=4)
    assert better.value_us <= found.value_us


def test_limits_of_memory_and_stages_that_recompute():
    sizes = {**COSTS, "memory.saved_for_I": "1GiB", "memory.saved_for_W": "1GiB"}
    words = (*NAMES, "--cost", ",".join(f"{key}={value}" for key, value in sizes.items()))
    plan = stringline.load("zb_h1").plan(P, M)
    for memory, said_so in (("40GiB", "40GiB"), (2**36, f"{2**36}B"), ({0: "40GiB"}, "0:40GiB"),
                            (["40GiB"] * 4, "40GiB,40GiB,40GiB,40GiB")):
        assert str(plan.check(memory=memory, costs=sizes)) == said(
            "check", "zb_h1", *words, "--memory", said_so)
    found = stringline.search(P, M, sizes, recompute="all", iterations=2000)
    asked = figures("search", *words, "--recompute", "all", "--iterations", "2000")
    assert found["recompute"] == asked["recompute"] == [0, 1, 2, 3]
    assert found.timeline.makespan_us == asked["makespan_us"]


def test_kernels(tmp_path):
    folder = f"{SOURCE}/tests/golden/torch/kernels"
    seen = stringline.kernels(folder, operator="aten::linear", against=folder)
    options = ["--operator", "aten::linear", "--against", folder]
    assert dict(seen) == figures("report", folder, *options)
    assert seen.text == said("report", folder, *options)
    assert {row["rank"] for row in seen.idle} == {0, 1}
    assert sum(row["count"] for row in seen.times) == sum(
        of["count"] for rank in seen["ranks"] for of in rank["kernels"])
    launches = sum(len(rank["launches"]["gpu_us"]) for rank in seen["ranks"])
    assert len(seen.launches) == launches
    assert seen.queues[0]["length"] == 1 and seen.memory[0]["device"] == "GPU 0"
    assert {row["kind"] for row in seen.copies} == {"Memcpy DtoD", "Memcpy HtoD", "Memset"}
    assert seen.sequences[0]["operator"] == "aten::linear"
    assert [row["rank"] for row in seen.stragglers] == [
        row["rank"] for row in seen["stragglers"]["ranks"]]
    assert all(row["first_us"] == row["second_us"] for row in seen.differences)
    assert seen.html().startswith("<!doctype html>") and "stream 7" in seen.html()
    seen.save_counters(tmp_path)
    assert '"Queue Length"' in (tmp_path / "rank1.json").read_text()
    with pytest.raises(ValueError, match="is the trace itself"):
        seen.save_counters(folder)
    with pytest.raises(ValueError, match="step 9 is not in it"):
        stringline.kernels(folder, step=9)


def test_traces():
    folder = f"{SOURCE}/examples/05_torch/traced"
    seen = stringline.from_trace(folder)
    answer = figures("import", folder)
    assert seen.text == answer.pop("text") == said("import", folder)
    assert dict(seen.imported) == answer
    assert seen.imported.step == 2 and len(seen.imported.ranks) == 2
    assert seen.plan.check().proven
    assert [rank["rank"] for rank in seen.kernels()["ranks"]] == [0, 1]
    files = [f"{folder}/rank{rank}.json" for rank in (1, 0)]
    assert stringline.from_trace(files, step=1).makespan_us != seen.makespan_us
    costs = seen.calibrate()
    expected = stringline.load("1f1b").plan(P=2, M=4).simulate(costs)
    assert expected.compare(seen)["matched"] == 16
