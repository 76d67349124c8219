"""Uses the installed package once, with its command line or, with --module, without one, and checks that
the package contains everything it needs."""

import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import stringline

plan = stringline.load("zb_h1").plan(P=4, M=8)
proof = plan.check()
step = plan.simulate({"F": 10, "I": 10, "W": 10})
assert proof["actions"] == 96 and step.makespan_us == 270, (proof, step)
assert len(step.events) == 192 and step.end_ns.max() == 270_000

home = pathlib.Path(stringline.__file__).parent.parent
loaded = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
names = ("absl", "yaml-cpp")
outside = [path for path in loaded if any(name in path for name in names) and str(home) not in path]
assert not outside, f"not of the wheel: {outside}"
print(f"Python {platform.python_version()}: {step!r}")

bin_folder = pathlib.Path(sys.prefix, "bin")
if sys.argv[1:] == ["--module"]:
    sys.exit()

RUN = """
schedule: {file: 1f1b, P: 2, M: 4}
model: {layers: 2, width: 16, heads: 2, context: 16}
precision: DTYPE
data: {text: text.txt, microbatch: 1}
train: {steps: 4, learning_rate: 1e-2}
"""
SUITE = """
models: {small: {layers: 2, width: 16, heads: 2, context: 16}}
schedules: [{file: 1f1b, P: 2, M: 4}]
data: {text: text.txt, microbatch: 1}
device: cpu
repetitions: 1
steps: 2
warm_up: 1
"""


def said(*words: str, status: int = 0) -> str:
    """The command's output, with nothing of this machine on the path."""
    ran = subprocess.run([bin_folder / "stringline", *words], capture_output=True, text=True,
                         env={"HOME": "/nowhere", "PATH": str(bin_folder)})
    assert ran.returncode == status, (words, ran.returncode, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


def maps_of_a_run() -> set[str]:
    """The libraries that a training has loaded."""
    process = subprocess.Popen([bin_folder / "stringline", "run", "long.yaml", "--out", "long"],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step"):
            break
    found = {line.split()[-1] for line in open(f"/proc/{process.pid}/maps") if ".so" in line}
    process.terminate()
    process.communicate()
    return found


os.environ["PATH"] = str(bin_folder)  # no other stringline
os.environ.pop("STRINGLINE_TOOL", None)
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
for kind in ("fp32", "bf16"):
    pathlib.Path(f"{kind}.yaml").write_text(RUN.replace("DTYPE", kind))
pathlib.Path("long.yaml").write_text(RUN.replace("DTYPE", "fp32").replace("steps: 4", "steps: 1000000"))
pathlib.Path("suite.yaml").write_text(SUITE)
pathlib.Path("text.txt").write_text("so much depends upon a red wheel barrow glazed with rain water. " * 99)
pathlib.Path("dumps").mkdir()

assert re.match(f"stringline {stringline.__version__} \\(commit [0-9a-f]{{12}}", said("--version")), said("--version")
assert said("check", "zb_h1", "P=4", "M=8") == str(proof)
assert "270 us" in said("sim", "zb_h1", "P=4", "M=8", "--cost", "F=10,I=10,W=10")
said("show", "dualpipe_v", "P=4", "M=8", "--svg", "step.svg", "--html", "step.html")
assert "<svg" in pathlib.Path("step.svg").read_text() and "<script" in pathlib.Path("step.html").read_text()
pathlib.Path("torch.csv").write_text(plan.to_torch_csv("comms"))
assert dict(stringline.lint("torch.csv")) and "order of export" in said("lint", "torch.csv")
for kind in ("fp32", "bf16"):
    trained = stringline.run(f"{kind}.yaml", out=kind)
    assert trained["steps"] == 4 and trained.losses[-1] < trained.losses[0], trained
assert stringline.bench("suite.yaml", out="results.json")["measured"] == 1
try:
    stringline.diagnose("dumps")
    raise AssertionError("a folder without dumps was diagnosed")
except ValueError as error:
    print(f"diagnose: {error}")
prefix = pathlib.Path(sys.prefix, "share")
for path in ("man/man1/stringline.1", "bash-completion/completions/stringline",
             "zsh/site-functions/_stringline", "fish/vendor_completions.d/stringline.fish"):
    assert "stringline" in (prefix / path).read_text(), path

system = ("libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "ld-linux", "libstdc++.so", "libgcc_s.so")
loaded = {path for path in maps_of_a_run() if not pathlib.Path(path).name.startswith(system)}
outside = [path for path in loaded if not path.startswith(str(pathlib.Path(sys.prefix).resolve()))]
assert loaded and not outside, f"not of the wheel: {outside}"
print(said("--version").strip())
