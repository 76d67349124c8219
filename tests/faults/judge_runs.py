"""Real runs of small models, for the judge: their shapes, their processes, the moment of a fault.

A shape says how many processes a run has, what they share out and which model it trains. A Run has a
folder of its own, starts its processes by hand (each with a message and a status of its own) or
under a parent, and waits for a moment of one phase. Losses to compare with are those of one unharmed
process, made once for each run file.
"""

import dataclasses
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import threading
import time

STEPS = 16
LIMIT_S = 60
POLLS = ("7", "232", "281", "441")  # poll, epoll_wait, epoll_pwait, epoll_pwait2
EVALUATED = 4  # an evaluation after every so many steps
LINK = "4ms,1GB/s"  # stretches a step by holds that need no processor
RUN = """schedule: {{file: {schedule}.sched, P: {stages}, M: {microbatches}}}
model: {{{model}}}
data: {{text: words.txt, microbatch: 2}}
device: cpu
mesh: {{{mesh}}}
timeout: {timeout}
checkpoint: {{every: {every}, folder: ckpt, keep: {keep}}}
train: {{steps: {steps}, learning_rate: 1e-2}}
"""
GPT = "layers: {stages}, width: 16, heads: 2, context: 8"
LLAMA = "kind: llama, layers: {stages}, width: 16, heads: 2, kv_heads: 1, hidden: 32, context: 8"
EXPERTS = "kind: moe, layers: {stages}, width: 16, heads: 2, context: 8, experts: 4, top_k: 2, expert_hidden: 16"
TWO_TEXTS = "kind: encoder_decoder, layers: 2, encoder_layers: 1, width: 16, heads: 2, context: 8, source: 4"
# The update of its parameters is a large part of a step.
WIDE = "layers: {stages}, width: 384, heads: 2, context: 8"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What the processes of a run share out."""

    name: str
    processes: int
    stages: int
    mesh: str = ""
    model: str = GPT
    schedule: str = "zb_h1"
    more: str = ""
    ranks: int = 0  # of all; 0: one a process

    def copies(self):
        found = re.search(r"data: (\d+)", self.mesh)
        return int(found[1]) if found else 1

    def ranks_of(self, process):
        count = self.ranks or self.processes
        return range(process * count // self.processes, (process + 1) * count // self.processes)


SHAPES = [
    Shape("pipeline", 2, 2),
    Shape("pipeline, encoder and decoder", 2, 2, model=TWO_TEXTS, schedule="1f1b"),
    Shape("pipeline, two ranks a process", 2, 4, model=LLAMA, schedule="1f1b", ranks=4),
    Shape("pipeline", 3, 3, schedule="1f1b"),
    Shape("pipeline", 4, 4, model=LLAMA),
    Shape("pipeline", 8, 8, schedule="1f1b"),
    Shape("pipeline", 16, 16, schedule="gpipe"),
    Shape("copies", 2, 1, "data: 2", schedule="gpipe"),
    Shape("copies", 3, 1, "data: 3", model=LLAMA, schedule="gpipe"),
    Shape("copies", 4, 1, "data: 4", schedule="1f1b"),
    Shape("copies", 8, 1, "data: 8", schedule="gpipe"),
    Shape("both", 4, 2, "data: 2"),
    Shape("both", 8, 2, "data: 4", model=LLAMA),
    Shape("both", 8, 4, "data: 2"),
    Shape("both", 16, 4, "data: 4", schedule="1f1b"),
    Shape("both, two ranks a process", 4, 2, "data: 4", ranks=8),
    Shape("experts", 4, 2, "expert: 2", model=EXPERTS),
    Shape("experts", 8, 2, "data: 2, expert: 2", model=EXPERTS, schedule="1f1b"),
    Shape("sharding", 2, 1, "data: 2", schedule="gpipe", more="sharding: parameters\n"),
    Shape("sharding", 4, 2, "data: 2", model=LLAMA, more="sharding: optimizer\n"),
    Shape("sharding", 8, 2, "data: 4", more="sharding: gradients\n"),
]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def as_losses(path):
    return path.read_text() if path.exists() else "none"


class Truths:
    """Losses of runs to which nothing happens, of a single process, by their run files."""

    def __init__(self, tool, source, root):
        self.tool, self.source, self.root = tool, source, root
        self.known, self.made, self.lock = {}, 0, threading.Lock()

    def _made(self, run, key, words):
        """The folder of a run of one process; `run` is the text of its file."""
        with self.lock:
            if key not in self.known:
                folder = self.root / f"truth-{self.made}"
                self.made += 1
                prepare(folder, self.source)
                (folder / "run.yaml").write_text(run)
                command = [self.tool, "run", "run.yaml", "--out", "made", *words]
                done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env=environment())
                if done.returncode != 0:
                    raise RuntimeError(f"an unharmed run ended: {done.stderr.decode()}\n{run}")
                self.known[key] = folder
            return self.known[key]

    def losses(self, run):
        text = run.text(timeout="600s", every=1, keep=1000, heal=False)
        return as_losses(self._made(text, text, []) / "made/losses.csv")

    def healed(self, run, data, step):
        """Losses of a run that went on with fewer copies after this step, over a checkpoint."""
        text = run.text(timeout="600s", every=1, keep=1000, heal=False)
        whole = self._made(text, text, [])
        resume = ["--resume", str(whole / f"ckpt/step-{step:06d}")] if step > 0 else []
        text = run.text(timeout="600s", every=1000, keep=1, heal=False)
        made = self._made(text, (text, data, step), [*resume, "--mesh-data", str(data)])
        return as_losses(made / "made/losses.csv")


def environment(secret=None):
    known = {key: value for key, value in os.environ.items() if key != "STRINGLINE_SECRET"}
    known["CUDA_VISIBLE_DEVICES"] = ""
    return {**known, "STRINGLINE_SECRET": secret} if secret else known


def prepare(folder, source):
    folder.mkdir(parents=True)
    for schedule in {shape.schedule for shape in SHAPES}:
        shutil.copy(source / f"schedules/{schedule}.sched", folder)
    words = "".join(f"the {i % 7}th of {i % 5} words\n" for i in range(200))
    (folder / "words.txt").write_text(words)


class Run:
    """A run in a folder of its own, of which one process, the victim, is to be harmed."""

    def __init__(self, tool, source, folder, shape, phase, random):
        self.tool, self.folder, self.shape, self.phase, self.random = tool, folder, shape, phase, random
        self.count, self.victim = shape.processes, random.randrange(shape.processes)
        self.timeout, self.heals = "60s", False
        self.children, self.started, self.held = [], [], None
        self.parent, self.listened, self.port = None, False, 0
        prepare(folder, source)

    # The run file.

    def text(self, timeout=None, every=None, keep=2, heal=None):
        schedule, model = self.shape.schedule, self.shape.model
        # In GPipe's order a step has two halves; wide layers take long to update.
        if self.phase in ("forward", "backward", "sums", "evaluation"):
            schedule = "gpipe"
        if self.phase == "update":
            schedule, model = "gpipe", WIDE
        if every is None:
            every = 1 if self.phase in ("save", "load") else 7
        text = RUN.format(
            schedule=schedule,
            stages=self.shape.stages,
            microbatches=16 if self.shape.stages == 16 else 4 if self.shape.stages <= 4 else 8,
            model=model.format(stages=self.shape.stages),
            mesh=self.shape.mesh or "data: 1",
            timeout=timeout or self.timeout,
            every=every,
            keep=keep,
            steps=STEPS,
        )
        text += self.shape.more
        if self.phase == "evaluation":
            # A run of the forwards has 4 or 8 microbatches of 2 sequences in each copy.
            sequences = 16 * math.prod(int(size) for size in re.findall(r"\d+", self.shape.mesh))
            text += f"evaluate: {{every: {EVALUATED}, text: words.txt, sequences: {sequences}}}\n"
        return text + ("heal: {every: 1}\n" if (self.heals if heal is None else heal) else "")

    def write(self, name="run.yaml", **changes):
        (self.folder / name).write_text(self.text(**changes))

    def words(self):
        """Options by the phase: which messages are slow, what is written at the end."""
        words = ["--out", "made"]
        if self.phase in ("steps", "forward", "backward", "sums", "evaluation"):
            words += ["--link", LINK]
        return words + (["--save", "model"] if self.phase == "end" else [])

    # Processes.

    def start(self, words, log, limit=None, secret=None):
        def prepared():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if limit:
                resource.setrlimit(*limit)

        output = self.folder / log.replace("err", "out")
        with open(self.folder / log, "wb") as error, open(output, "wb") as out:
            self.started.append(
                subprocess.Popen(
                    [self.tool, "run", *words],
                    cwd=self.folder,
                    stdout=out,
                    stderr=error,
                    preexec_fn=prepared,  # noqa: PLW1509
                    env=environment(secret),
                )
            )
        return self.started[-1]

    def start_one(self, p, file="run.yaml", limit=None, secret=None, more=()):
        place = f"--rank {p} --ranks {self.count} --master 127.0.0.1:{self.port} --run-id {self.run_id}"
        words = [file, *self.words(), *more, *place.split()]
        return self.start(words, f"err-{p}", limit, secret)

    def start_all(self, more=(), held=None, **of_victim):
        """A process for each number, but for one that is held back. The victim may be special."""
        self.port, self.listened, self.held = free_port(), False, held
        self.run_id = f"judge-{time.time_ns()}-{id(self)}"
        secret = "the secret of the judge's runs" if "secret" in of_victim else None
        self.children = [None] * self.count
        for p in range(self.count):
            special = {"secret": secret, **(of_victim if p == self.victim else {})}
            if p != held:
                self.children[p] = self.start_one(p, more=more, **special)

    def start_held(self):
        if self.held is not None:
            self.children[self.held] = self.start_one(self.held)
            self.held = None

    def start_parent(self, more=()):
        words = ["run.yaml", *self.words(), "--processes", str(self.count), *more]
        self.parent = self.start(words, "err-parent")

    def ids(self):
        """The processes' ids, by their numbers; of a parent those of its children."""
        if self.parent is None:
            return [child.pid if child else 0 for child in self.children]
        try:
            path = pathlib.Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children")
            return [int(child) for child in path.read_text().split()]
        except OSError:
            return []

    def first_port(self):
        """The port at which process 0 gathers the others."""
        if self.parent is None:
            return self.port
        ids = self.ids() or [0]
        try:
            words = pathlib.Path(f"/proc/{ids[0]}/cmdline").read_bytes().decode().split("\0")
            return int(words[words.index("--master") + 1].split(":")[1])
        except (OSError, ValueError):
            return 0

    def lives(self):
        watched = self.parent or self.children[self.victim]
        return watched.poll() is None

    # Moments.

    def lines(self):
        try:
            return (self.folder / "made/losses.csv.part").read_bytes().count(b"\n") - 1
        except OSError:
            return -1

    def await_moment(self):
        """The moment of the fault in its phase; False: the run was over."""
        until = time.monotonic() + LIMIT_S
        if self.phase in ("steps", "forward", "backward", "sums", "update", "evaluation"):
            return self._await_step(until)
        after = self.random.randrange(1, STEPS * 3 // 4)
        while time.monotonic() < until and self.lives():
            if self.phase == "connect" and self._waits_for_others():
                return self._later(0.03)
            if self.phase in ("agreement", "load") and self._joined():
                return self._later(0.03)
            if self.phase == "exchange" and self.lines() >= after and self._exchanges():
                return True
            if self.phase == "save" and self.lines() >= after and self._saves():
                return True
            if self.phase == "end" and self.lines() >= STEPS - 1:
                return self._later(0.04)
            time.sleep(0.0005)
        return False

    def _later(self, most_s):
        time.sleep(self.random.uniform(0, most_s))
        return True

    def _await_step(self, until):
        """A part of a step, by the time that the steps before it took."""
        wanted = self.random.randrange(4, STEPS * 3 // 4)
        if self.phase == "evaluation":
            wanted = self.random.choice([EVALUATED, 2 * EVALUATED]) + EVALUATED - 1
        least, most = {
            "forward": (0.03, 0.4),
            "backward": (0.5, 0.8),
            "sums": (0.88, 0.99),
            "evaluation": (1.03, 1.25),
            "update": (0.5, 1.0),
        }.get(self.phase, (0, 1))
        seen, times = -1, []
        while time.monotonic() < until and self.lives():
            now = self.lines()
            if now > seen:
                seen = now
                times.append(time.monotonic())
            if seen >= wanted and len(times) > 2:
                took = statistics.median(b - a for a, b in zip(times[1:], times[2:], strict=False))
                time.sleep(self.random.uniform(least, most) * took)
                return True
            time.sleep(0.001)
        return False

    def _tcp(self):
        lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
        return [line.split() for line in lines]

    def _joined(self):
        """Process 0 has listened at the run's port, and no longer does."""
        if self.parent is not None:
            return self.lines() >= 0
        wanted = f":{self.port:04X}"
        listens = any(x[1].endswith(wanted) and x[3] == "0A" for x in self._tcp())
        self.listened = self.listened or listens
        return self.listened and not listens

    def _waits_for_others(self):
        """Process 0 listens, and all others that were started are connected to it."""
        wanted = f":{self.port:04X}"
        there = sum(x[1].endswith(wanted) and x[3] == "01" for x in self._tcp())
        return there >= self.count - 2

    def _exchanges(self):
        """The victim's main thread polls: all tell each other their norms. It is stopped there."""
        ids = self.ids()
        if self.victim >= len(ids):  # the run is over
            return False
        victim = ids[self.victim]
        polls = lambda: pathlib.Path(f"/proc/{victim}/syscall").read_text().split()[0] in POLLS  # noqa: E731
        try:
            if not polls():
                return False
            os.kill(victim, signal.SIGSTOP)
            time.sleep(0.001)
            if polls():
                return True
            os.kill(victim, signal.SIGCONT)
        except OSError:
            pass
        return False

    def _saves(self):
        try:
            return any("tmp" in name for name in os.listdir(self.folder / "ckpt"))
        except OSError:
            return False

    # The files and losses that a run left.

    def message(self, log):
        text = (self.folder / log).read_text(errors="replace")
        found = [x for x in text.splitlines() if x.startswith("stringline: ")]
        found = [x for x in found if not x.startswith(("stringline: SIGUSR2", "stringline: warn"))]
        message = found[-1][len("stringline: ") :] if found else ""
        # Behind it each process lists its own files.
        return re.split(r"; (?:what the ranks did last|no flight|made/|ckpt/)", message)[0]

    def clear(self, keep):
        for child in self.started:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
                child.wait()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
