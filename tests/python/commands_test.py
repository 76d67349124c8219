"""lint, diagnose, run and bench answer as the commands do; Ctrl-C ends them; mistakes are
exceptions."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
import stringline
from tool import COST_WORDS, COSTS, SOURCE, TOOL, figures, said

RUN = """
schedule: {{file: {source}/schedules/1f1b.sched, P: 2, M: 4}}
model: {{layers: 2, width: 16, heads: 2, context: 16}}
data: {{text: {source}/README.md, microbatch: 1}}
train: {{steps: {steps}, learning_rate: 1e-3}}
"""
SUITE = """
models: {{small: {{layers: 2, width: 16, heads: 2, context: 16}}}}
schedules: [{{file: 1f1b, P: 2, M: 4}}]
data: {{text: {source}/README.md, microbatch: 1}}
device: cpu
repetitions: 1
steps: 2
warm_up: 1
"""
DUMPS = f"{SOURCE}/tests/golden/diagnose"
CSV = f"{SOURCE}/tests/golden/torch/interleaved1f1b_p4_v2_m8_comms.csv"


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(RUN.format(source=SOURCE, steps=3))
    return path


def test_lint():
    for costs, words in (
        (COSTS, ("--cost", COST_WORDS)),
        (COST_WORDS, ("--cost", COST_WORDS)),
        (None, ()),
    ):
        answer = stringline.lint(CSV, costs)
        assert str(answer) == said("lint", CSV, *words)
        expected = figures("lint", CSV, *words)
        assert expected.pop("findings") == []
        assert dict(answer) == expected
    assert answer.peak_activations == 11
    assert answer.layouts["edge"]["makespan_us"] == answer["layouts"]["edge"]["makespan_us"] > 0
    text = pathlib.Path(CSV).read_text()
    assert dict(stringline.lint(text)) == dict(answer)
    model = stringline.lint(CSV, COSTS, work="model")
    assert str(model) == said("lint", CSV, "--cost", COST_WORDS, "--work", "model")


def test_lint_refuses_what_the_command_refuses():
    broken = f"{SOURCE}/tests/golden/torch/1f1b_p2_v1_m4_compute.csv"
    with pytest.raises(stringline.ScheduleError) as raised:
        stringline.lint(broken)
    assert str(raised.value) + "\n" == said("lint", broken, status=1)
    assert (raised.value.file, raised.value.line) == (broken, 1)
    with pytest.raises(ValueError, match="^cost"):
        stringline.lint(CSV, {"Q": 1})
    with pytest.raises(FileNotFoundError):
        stringline.lint("nowhere.csv")


@pytest.mark.parametrize("name, status", [("ended", 0), ("late", 1), ("left_out", 1), ("dead", 1)])
def test_diagnose(name, status):
    folder = f"{DUMPS}/{name}"
    answer = stringline.diagnose(folder)
    assert str(answer) == said("diagnose", folder, status=status)
    assert answer.clean == (status == 0)
    expected = json.loads(
        subprocess.run([TOOL, "diagnose", folder, "--json"], capture_output=True).stdout
    )
    assert expected.pop("ok") == answer.clean
    assert {key: value for key, value in expected.items() if key != "findings"} == dict(answer)


def test_diagnose_names_the_messages_of_a_schedule():
    words = ("diagnose", f"{DUMPS}/late", "--schedule", "1f1b", "P=3", "M=3")
    expected = said(*words, status=1)
    assert "0SEND_F2" in expected
    for schedule in ("1f1b", stringline.load("1f1b")):
        answer = stringline.diagnose(f"{DUMPS}/late", schedule=schedule, P=3, M=3)
        assert str(answer) == expected
    text = stringline.load("1f1b").text
    answer = stringline.diagnose(f"{DUMPS}/late", schedule=text, P=3, M=3)
    assert "0SEND_F2 (<text>:13)" in str(answer)
    plan = stringline.load("1f1b").plan(3, 3)
    assert "0SEND_F2" in str(stringline.diagnose(f"{DUMPS}/late", schedule=plan))
    with pytest.raises(ValueError, match="^P: "):
        stringline.diagnose(f"{DUMPS}/late", P=3)
    with pytest.raises(ValueError, match="^layout"):
        stringline.diagnose(f"{DUMPS}/late", layout="square")
    with pytest.raises(FileNotFoundError):
        stringline.diagnose("nowhere")


def test_run(run_file, tmp_path):
    trained = stringline.run(run_file, out=tmp_path / "out", save=tmp_path / "saved")
    path = (str(run_file), "--out", tmp_path / "again")
    expected = figures("run", *path)
    assert trained.losses == expected["losses"] and len(trained.losses) == 3
    assert set(trained) == set(expected) and trained.hang is None
    assert f"loss {trained.losses[0]:.4f} -> {trained.losses[-1]:.4f}" in str(trained)
    assert (tmp_path / "out" / "losses.csv").exists()
    evaluated = stringline.run(run_file, evaluate=True, load=tmp_path / "saved")
    again = figures("run", str(run_file), "--evaluate", "--load", tmp_path / "saved")
    assert evaluated["validations"] == again["validations"]
    assert evaluated["validations"][0]["loss_nats"] < trained.losses[0]


def test_run_refuses_what_the_command_refuses(run_file):
    with pytest.raises(ValueError, match="^steps"):
        stringline.run(run_file, steps=0)
    with pytest.raises(ValueError, match="^link"):
        stringline.run(run_file, link="fast")
    with pytest.raises(FileNotFoundError):
        stringline.run("nowhere.yaml")
    broken = pathlib.Path(run_file).with_name("broken.yaml")
    text = RUN.format(source=SOURCE, steps=3)
    broken.write_text(
        text.replace("schedules/1f1b.sched", "examples/03_find_a_deadlock/broken.sched")
    )
    with pytest.raises(stringline.ScheduleError) as raised:
        stringline.run(broken)
    assert raised.value.code == "progress" and raised.value.line == 9
    assert "waits forever" in str(raised.value)
    strict = stringline.run(broken, strict=True, out=run_file.with_name("strict"))
    assert strict.hang and "hangs" in strict.hang and strict["findings"]


def test_bench(tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(source=SOURCE))
    cases = stringline.bench(suite, list=True)
    assert str(cases) == said("bench", suite, "--list")
    assert dict(cases) == figures("bench", suite, "--list")
    results = tmp_path / "results.json"
    measured = stringline.bench(suite, out=results)
    assert measured["measured"] == 1 and measured["file"] == str(results)
    assert str(measured) == said("bench", results)
    kept = stringline.bench(suite, out=results)
    assert (kept["measured"], kept["kept"]) == (0, 1) and kept["cases"] == measured["cases"]
    assert dict(stringline.bench(results)) == figures("bench", results)
    words = ("bench", results, results, "--compare")
    compared = stringline.bench([results, results], compare=True)
    assert str(compared) == said(*words) and compared.fast
    assert dict(compared) == {
        key: value for key, value in figures(*words).items() if key != "findings"
    }
    # A repetition each may be too little to tell, which is the command's matter.
    held = stringline.bench([results, results], compare=True, fail_slower=0.05)
    ran = subprocess.run([TOOL, *words, "--fail-slower", "5%"], capture_output=True, text=True)
    assert str(held) == ran.stdout and held.fast == (ran.returncode == 0)
    with pytest.raises(ValueError):
        stringline.bench(suite, fail_slower="5%")


def interrupted(program, tmp_path, started, again=False):
    """The exit status of a Python program whose group gets SIGINT, as a terminal's Ctrl-C sends it,
    once ``started`` says that the work goes on."""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, start_new_session=True,
                               stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not started():
        assert time.monotonic() < end and process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_ctrl_c_ends_a_run_after_its_step(run_file, tmp_path):
    run_file.write_text(RUN.format(source=SOURCE, steps=1_000_000))
    program = (
        "import stringline\n"
        "try:\n"
        f"    stringline.run({str(run_file)!r}, out='out', save='saved')\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(7)\n"
    )
    losses = tmp_path / "out" / "losses.csv.part"
    status, err = interrupted(program, tmp_path,
                              lambda: losses.exists() and losses.read_text().count("\n") > 2)
    assert status == 7, err
    assert (tmp_path / "saved" / "model.safetensors").exists()


def test_a_program_that_is_nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("STRINGLINE_TOOL")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotImplementedError, match=re.escape("lint()")):
        stringline.lint(CSV)


def test_the_program_of_the_environment_comes_first(monkeypatch, tmp_path):
    monkeypatch.delenv("STRINGLINE_TOOL")
    package = tmp_path / "lib" / "python3" / "site-packages" / "stringline"
    monkeypatch.setattr(stringline._tool, "__file__", str(package / "_tool.py"))
    for folder in (tmp_path / "bin", tmp_path / "path"):
        folder.mkdir()
        (folder / "stringline").write_text("")
        (folder / "stringline").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert stringline._tool.program("lint()") == str(tmp_path / "bin" / "stringline")
    (tmp_path / "bin" / "stringline").unlink()
    assert stringline._tool.program("lint()") == str(tmp_path / "path" / "stringline")
