"""Programs in the documents run; types and docstrings are complete."""

import inspect
import os
import re
import subprocess
import sys

import stringline
from tool import SOURCE


def blocks(path):
    text = open(os.path.join(SOURCE, path), encoding="utf-8").read()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_python_in_the_documents_runs(tmp_path):
    matplotlib = "import matplotlib; matplotlib.use('Agg')\n"
    for folder in ("examples", "tests"):  # which they read
        os.symlink(os.path.join(SOURCE, folder), tmp_path / folder)
    for path in ("README.md", "python/README.md"):
        shown = blocks(path)
        assert shown, path
        program = matplotlib + "\n".join(shown)
        subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_everything_public_says_what_it_is():
    for name in stringline.__all__:
        thing = getattr(stringline, name)
        if not callable(thing) or name == "Costs":
            continue
        assert inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) else ()
        for member, value in members:
            if member.startswith("_") or not (callable(value) or isinstance(value, property)):
                continue
            assert inspect.getdoc(value), f"{name}.{member}"


def test_types_are_right(tmp_path):
    package = os.path.dirname(stringline.__file__)
    assert os.path.exists(os.path.join(package, "py.typed"))
    (tmp_path / "user.py").write_text(
        "import numpy as np\nimport stringline\n"
        "step = stringline.load('zb_h1').plan(P=4, M=8).simulate({'F': 1.5, 'B': '2ms'})\n"
        "span: float = step.makespan_us\n"
        "starts: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = step.start_ns\n"
        "error: type[ValueError] = stringline.ScheduleError\n"
    )
    environment = {**os.environ, "MYPYPATH": os.path.dirname(package)}
    for words in (["-p", "stringline"], [str(tmp_path / "user.py")]):
        ran = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *words],
            capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
