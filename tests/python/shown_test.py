"""Notebooks, tables and pictures; optional packages stay optional."""

import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import stringline
from tool import COSTS


@pytest.fixture
def step():
    return stringline.load("dualpipe_v").plan(P=4, M=8).simulate({**COSTS, "FB": 40000})


def test_a_notebook_shows_the_page(step):
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(step._repr_html_())
    [(tag, frame)] = tags
    assert tag == "iframe" and frame["srcdoc"] == step.html()
    assert "allow-same-origin" not in frame["sandbox"]
    assert ElementTree.fromstring(step._repr_svg_()).tag.endswith("svg")


def test_parts_of_a_picture(step):
    part = step.svg(ranks="0..1", width=500, palette="grey", no_title=True)
    assert len(part) < len(step.svg())


def test_reprs(step):
    assert repr(step) == "<Timeline simulated dualpipe_v P=4 M=8: 822.665 ms, bubble 15.16 %>"
    plan = stringline.load("dualpipe_v").plan(P=4, M=8)
    assert repr(plan) == "<Plan dualpipe_v P=4 M=8: 150 actions of 8 stages on 4 ranks>"
    assert repr(stringline.load("zb_v")) == "Schedule('zb_v', parameters=('P', 'M'))"
    assert "critical path" in repr(step.report())


def test_a_long_plan_is_shown_in_a_few_lines():
    plan = stringline.load("1f1b").plan(P=32, M=256)
    lines = str(plan).split("\n")
    assert lines[0] == "plan 1f1b P=32 M=256: 16,384 actions of 32 stages on 32 ranks"
    begin, _, more = lines[1].removeprefix("rank 0: ").partition(" … ")
    shown = len(begin.split())
    assert begin.split() == plan.ranks[0][:shown] and more == f"{512 - shown} more"
    assert lines[5] == "… 28 more ranks" and "plan.text" in lines[6]
    assert len(lines) == 7 and max(map(len, lines)) < 100
    short = stringline.load("1f1b").plan(P=2, M=2)
    assert "more" not in str(short) and "rank 1: 1F0 1B0 1F1 1B1\n" in str(short)
    # Neither has a representation for notebooks beside repr.
    assert not hasattr(plan, "_repr_html_") and not hasattr(stringline.load("1f1b"), "_repr_html_")


def test_matplotlib(step):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    ax = step.plot()
    boxes = sum(len(collection.get_paths()) for collection in ax.collections)
    assert boxes == (step.kind < 5).sum()
    assert ax.get_xlim() == (0, step.makespan_us / 1000)
    _, mine = pyplot.subplots()
    assert step.plot(mine) is mine
    pyplot.close("all")


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = stringline.sweep("1f1b", COSTS, P=[2, 4], M=8)
    assert isinstance(frame, pandas.DataFrame) and list(frame["P"]) == [2, 4]
    assert frame["bubble"].is_monotonic_increasing
    assert isinstance(stringline.sweep("1f1b", P=2, M=8, frame=False), dict)


def test_torch_is_asked_for_where_it_is_needed():
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import stringline\n"
        "try: import stringline.torch\n"
        "except ImportError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert said.stdout.startswith(b"stringline.torch needs torch 2.10 or later")


def test_neither_is_needed():
    program = (
        "import sys\n"
        "for name in ('pandas', 'matplotlib', 'torch'): sys.modules[name] = None\n"
        "import stringline\n"
        "columns = stringline.sweep('1f1b', P=2, M=[2, 4])\n"
        "assert list(columns['M']) == [2, 4]\n"
        "try: stringline.sweep('1f1b', P=2, M=2, frame=True)\n"
        "except ImportError: pass\n"
        "else: raise SystemExit('a frame without pandas')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
