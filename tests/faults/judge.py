"""Faults of real runs, at random moments: each is judged, and becomes a line of a table.

A run of a very small model is started, as processes with a number each or under a parent, and
something is done to one of its processes. The judge asks: do all end within a limit, with the right
status and one same message that blames the right process, is every file whole, and are the losses,
after `--resume auto` where the run was ended, those of an unharmed run of one process, to the bit?

    judge.py TOOL FOLDER --csv FILE [--faults N] [--saves N] [--seed S] [--jobs J] [--mutant]

It ends with 1 if a fault was judged wrong. With --mutant it blames another process, and must end
with 1.
"""

import argparse
import concurrent.futures
import csv
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

STEPS = 16
LIMIT_S = 60
# Processes: stages, copies.
SIZES = {2: (2, 1), 3: (3, 1), 4: (2, 2), 8: (2, 4)}
RUN = """schedule: {{file: s.sched, P: {stages}, M: 4}}
model: {{layers: {stages}, width: 16, heads: 2, context: 8}}
data: {{text: words.txt, microbatch: 2}}
device: cpu
mesh: {{data: {copies}}}
timeout: {timeout}
checkpoint: {{every: {every}, folder: ckpt, keep: 2}}
train: {{steps: {steps}, learning_rate: {rate}}}
"""
FIELDS = ["fault", "phase", "processes", "victim", "right", "seconds", "wrong", "said"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Case:
    """One fault of one run, in a folder of its own."""

    def __init__(self, tool, source, root, number, fault, phase, seed, mutant):
        self.tool, self.fault, self.phase = tool, fault, phase
        self.random = random.Random(f"{seed} {number}")
        self.count = self.random.choice([2, 3, 4, 8])
        self.victim = self.random.randrange(self.count)
        self.blamed = (self.victim + 1) % self.count if mutant else self.victim
        self.folder = root / f"case-{number}"
        self.folder.mkdir(parents=True)
        shutil.copy(source / "schedules/zb_h1.sched", self.folder / "s.sched")
        words = "".join(f"the {i % 7}th of {i % 5} words\n" for i in range(200))
        (self.folder / "words.txt").write_text(words)
        self.children, self.started, self.wrong, self.said = [], [], [], ""
        # A deadline is short only where it has to notice the fault.
        self.write("run.yaml", "1500ms" if fault == "stop" else "60s")

    def write(self, name, timeout, rate="1e-2"):
        stages, copies = SIZES[self.count]
        every = 1 if self.phase in ("save", "load") else 7
        text = RUN.format(stages=stages, copies=copies, timeout=timeout, every=every, steps=STEPS, rate=rate)
        (self.folder / name).write_text(text)

    def start(self, words, log, limit=None):
        error = open(self.folder / log, "wb")  # noqa: SIM115
        self.started.append(
            subprocess.Popen(
                [self.tool, "run", *words],
                cwd=self.folder,
                stdout=subprocess.DEVNULL,
                stderr=error,
                preexec_fn=limit,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            )
        )
        error.close()
        return self.started[-1]

    def start_all(self, words=()):
        """A process for each number, so that each has a message and a status of its own."""
        port, run = free_port(), f"judge-{time.time_ns()}-{id(self)}"
        self.children = []
        for p in range(self.count):
            file = "run.yaml"
            if self.fault == "setting" and p == self.victim:
                file = "other.yaml"
                self.write(file, "60s", "2e-2")
            full = self.fault == "disk" and p == self.victim
            more = f"--rank {p} --ranks {self.count} --master 127.0.0.1:{port} --run-id {run}"
            self.children.append(
                self.start(
                    [file, "--out", "made", *words, *more.split()],
                    f"err-{p}",
                    (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))) if full else None,
                )
            )

    def lines(self):
        try:
            return (self.folder / "made/losses.csv.part").read_bytes().count(b"\n") - 1
        except OSError:
            return -1

    def await_moment(self):
        """The moment of the fault in its phase; False: the run was over."""
        until = time.monotonic() + LIMIT_S
        after = self.random.randrange(1, STEPS * 3 // 4)
        while time.monotonic() < until and self.children[self.victim].poll() is None:
            if self.phase in ("start", "load"):
                time.sleep(self.random.uniform(0.03, 0.12))
                return True
            if self.phase == "steps" and self.lines() >= after:
                time.sleep(self.random.uniform(0, 0.003))
                return True
            if self.phase == "save" and self.lines() >= after and self.saving():
                return True
            if self.phase == "end" and self.lines() >= STEPS - 1:
                time.sleep(self.random.uniform(0, 0.02))
                return True
            time.sleep(0.0002)
        return False

    def saving(self):
        try:
            return any("tmp" in name for name in os.listdir(self.folder / "ckpt"))
        except OSError:
            return False

    def wait(self, of):
        until = time.monotonic() + LIMIT_S
        for child in of:
            try:
                child.wait(max(0.01, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.wrong.append(f"hangs for {LIMIT_S} s")
                return False
        return True

    def message(self, p):
        text = (self.folder / f"err-{p}").read_text(errors="replace")
        found = [x for x in text.splitlines() if x.startswith("stringline: ")]
        found = [x for x in found if not x.startswith(("stringline: SIGUSR2", "stringline: warn"))]
        message = found[-1][len("stringline: ") :] if found else ""
        # Behind it each process lists its own files.
        return re.split(r"; (?:what the ranks did last|no flight|made/|ckpt/)", message)[0]

    def judge_end(self, statuses, pattern, of):
        """All of these ended with one of the statuses, and one message like the pattern."""
        messages = {p: self.message(p) for p in of}
        for p in of:
            if self.children[p].returncode not in statuses:
                status = self.children[p].returncode
                self.wrong.append(f"process {p} ended with {status}: {messages[p]}")
        if not pattern:
            return
        self.said = messages[of[0]]
        if len(set(messages.values())) != 1:
            self.wrong.append(f"messages differ: {sorted(set(messages.values()))}")
        if not re.search(pattern, self.said):
            self.wrong.append(f"blames another than {self.blamed}: {self.said}")

    def judge_files(self):
        for path in self.folder.glob("made/flight-*"):
            shown = subprocess.run([self.tool, "show", path, "--color", "never"], capture_output=True, check=False)
            if shown.returncode != 0:
                self.wrong.append(f"{path.name} is not whole: {shown.stderr.decode()[:200]}")

    def judge_losses(self, losses):
        path = self.folder / "made/losses.csv"
        if not path.exists() or path.read_text() != losses[SIZES[self.count]]:
            self.wrong.append("the losses are not those of an unharmed run")

    def resume(self, losses):
        run = self.start(
            ["run.yaml", "--out", "made", "--resume", "auto", "--processes", str(self.count)],
            "err-resumed",
        )
        if self.wait([run]) and run.returncode != 0:
            said = (self.folder / "err-resumed").read_text()
            self.wrong.append(f"resuming ended with {run.returncode}: {said[:300]}")
        self.judge_losses(losses)

    def harm(self):
        victim = self.children[self.victim]
        others = [p for p in range(self.count) if p != self.victim]
        everyone = list(range(self.count))
        name = rf"(?:rank|process) {self.blamed}(?: with ranks [0-9, ]+)? on \S+ "
        if self.fault == "kill":
            victim.kill()
            self.wait(self.children)
            self.judge_end([3], f"^{name}died, or ended without a word: ", others)
        elif self.fault == "stop":
            victim.send_signal(signal.SIGSTOP)
            self.wait([self.children[p] for p in others])
            victim.send_signal(signal.SIGCONT)
            self.wait(self.children)
            self.judge_end([3], f"^{name}.*(?:does not answer|did not|computes)", others)
        elif self.fault == "delay":
            victim.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            victim.send_signal(signal.SIGCONT)
            self.wait(self.children)
            self.judge_end([0], "", everyone)
        elif self.fault == "USR2":
            victim.send_signal(signal.SIGUSR2)
            self.wait(self.children)
            self.judge_end([0], "", everyone)
            if self.phase == "steps":
                found = {p.name.split("-")[1] for p in self.folder.glob("made/flight-*-asked-1-*")}
                if found != {str(p) for p in everyone}:
                    self.wrong.append(f"records of {sorted(found)} only")
        elif self.fault == "TERM":
            victim.send_signal(signal.SIGTERM)
            self.wait(self.children)
            self.judge_end([0, 143], "", everyone)
        elif self.fault == "setting":
            self.wait(self.children)
            self.judge_end([2], r"differ in .*learning_rate", everyone)
        elif self.fault == "disk":
            self.wait(self.children)
            start = name.removesuffix(r"\S+ ")
            pattern = rf"^(?:the checkpoint of step \d+: )?{start}[^ :]+: .*File too large"
            self.judge_end([2], pattern, others)
        return self.fault in ("delay", "USR2")

    def was_over(self, losses):
        """The run had ended for the killed process; then it has for the others."""
        others = [child for p, child in enumerate(self.children) if p != self.victim]
        if self.children[self.victim].returncode != -9:
            return True
        if any(child.returncode != 0 for child in others):
            return False
        self.wrong = []
        self.judge_losses(losses)
        return not self.wrong

    def run(self, losses):
        """Returns the line of the table; None: the run was over before its fault."""
        try:
            if self.phase == "load":
                self.start_all()
                while self.lines() < 5 and self.children[0].poll() is None:
                    time.sleep(0.001)
                for child in self.children:
                    child.kill()
                self.wait(self.children)
                shutil.rmtree(self.folder / "made", ignore_errors=True)
            self.start_all(["--resume", "auto"] if self.phase == "load" else [])
            if self.fault not in ("setting", "disk") and not self.await_moment():
                return None
            began = time.monotonic()
            whole = self.harm()
            seconds = time.monotonic() - began
            if self.fault == "kill" and self.was_over(losses):
                return None
            self.judge_files()
            if whole or all(child.returncode == 0 for child in self.children):
                self.judge_losses(losses)
            elif self.fault != "setting":
                self.resume(losses)
            return self.line(seconds)
        finally:
            self.clear()

    def run_parent(self, losses):
        """A kill during a save, of a process or of the parent with all."""
        try:
            words = ["run.yaml", "--out", "made", "--processes", str(self.count)]
            parent = self.start(words, "err-0")
            self.children = [parent] * self.count
            if not self.await_moment():
                return None
            began = time.monotonic()
            if self.fault == "kill parent":
                parent.kill()
            else:
                path = pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
                found = [int(child) for child in path.read_text().split()]
                if len(found) != self.count:
                    return None
                os.kill(found[self.victim], signal.SIGKILL)
            self.wait([parent])
            seconds = time.monotonic() - began
            if parent.returncode == 0:
                return None
            if self.fault != "kill parent":
                self.children = [parent]
                name = rf"(?:rank|process) {self.blamed} (?:on \S+ died|was lost)"
                self.judge_end([3] if self.victim else [137], name, [0])
            time.sleep(0.02)
            self.judge_files()
            self.resume(losses)
            return self.line(seconds)
        finally:
            self.clear()

    def line(self, seconds):
        victim = "all" if self.fault == "kill parent" else self.victim
        right = "no" if self.wrong else "yes"
        wrong, said = "; ".join(self.wrong), re.sub(r" on \S+ ", " on HOST ", self.said)
        took = f"{seconds:.3f}"
        return [self.fault, self.phase, self.count, victim, right, took, wrong, said]

    def clear(self):
        for child in self.started:
            if child.poll() is None:
                child.kill()
                child.wait()
        if not self.wrong:
            shutil.rmtree(self.folder, ignore_errors=True)


KINDS = [
    *[("kill", phase) for phase in ("steps", "steps", "steps", "steps", "save", "load", "end")],
    *[("stop", phase) for phase in ("steps", "save")],
    *[("delay", phase) for phase in ("start", "steps", "save", "load", "end")],
    *[("USR2", phase) for phase in ("start", "steps", "save", "load", "end")],
    *[("TERM", phase) for phase in ("steps", "save")],
    ("setting", "start"),
    ("disk", "save"),
]


def unharmed(tool, source, root):
    """The losses of one process, by stages and copies."""
    losses = {}
    for count, size in SIZES.items():
        case = Case(tool, source, root, f"unharmed-{count}", "none", "steps", 0, False)
        case.count = count
        case.write("run.yaml", "60s")
        subprocess.run(
            [tool, "run", "run.yaml", "--out", "made"],
            cwd=case.folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        losses[size] = (case.folder / "made/losses.csv").read_text()
        case.clear()
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--csv", type=pathlib.Path, required=True)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--saves", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--mutant", action="store_true")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    tool, source = asked.tool.resolve(), pathlib.Path(__file__).resolve().parents[2]
    root = asked.folder.resolve() / f"judge-{os.getpid()}"
    losses = unharmed(tool, source, root)
    left = {"fault": asked.faults, "save": asked.saves}
    wrong, over = 0, 0

    def one(number, sort):
        fault, phase = KINDS[number % len(KINDS)]
        if sort == "save":
            fault, phase = ("kill parent" if number % 2 else "kill child"), "save"
        case = Case(tool, source, root, f"{sort}-{number}", fault, phase, asked.seed, asked.mutant)
        return case.run_parent(losses) if sort == "save" else case.run(losses)

    with asked.csv.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(FIELDS)
        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
            for sort, wanted in left.items():
                number, done = 0, 0
                while done < wanted:
                    batch = range(number, number + min(wanted - done, 60))
                    number += len(batch)
                    for line in pool.map(lambda n, s=sort: one(n, s), batch):
                        if line is None:
                            over += 1
                            continue
                        done += 1
                        table.writerow(line)
                        if line[4] == "no":
                            wrong += 1
                            print(*line[:4], line[6], flush=True)
                    file.flush()
                    print(f"{sort}: {done} of {wanted}, {wrong} wrong", flush=True)
    print(f"{wrong} wrong; {over} runs were over before their fault")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
