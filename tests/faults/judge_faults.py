"""Faults that the judge makes, and what has to follow from each.

A Case makes one fault in one run and judges the end by what it did itself: who has to be blamed,
with which status all have to end, which losses the run has to have. KINDS is the list of all faults
with their phases.
"""

import dataclasses
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import connections
from judge_runs import LIMIT_S, SHAPES, STEPS, Run

SHORT = "4s"  # a timeout that has to pass
SETTINGS = {
    "learning_rate": ("learning_rate: 1e-2", "learning_rate: 2e-2"),
    "weight_decay": ("train: {", "train: {weight_decay: 0.03, "),
    "seed": ("train: {", "train: {seed: 77, "),
    "steps": (f"steps: {STEPS}", f"steps: {STEPS + 1}"),
    "clip_norm": ("train: {", "train: {clip_norm: 0.5, "),
    "every": ("every: ", "every: 1"),
    "context": ("context: 8", "context: 4"),
    "microbatch": ("microbatch: 2", "microbatch: 1"),
    "text": ("words.txt", "other.txt"),
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """A fault, started by hand (each process by itself), or under a parent, in one phase."""

    fault: str
    phase: str
    start: str = "each"
    weight: int = 1


class Case:
    def __init__(self, tool, source, folder, truths, kind, random, mutant):
        self.kind, self.truths, self.random, self.mutant = kind, truths, random, mutant
        self.tool, self.wrong, self.said, self.seconds, self.whom = tool, [], "", None, None
        shapes = [shape for shape in SHAPES if self.fits(shape)]
        self.run = Run(tool, source, folder, random.choice(shapes), kind.phase, random)
        self.run.heals = kind.start == "heal"
        self.began, self.mounted, self.ends = 0, False, set()

    def fits(self, shape):
        kind = self.kind
        if kind.phase == "connect" and kind.start == "each" and shape.processes < 3:
            return False  # nobody could be held back
        if kind.phase in ("sums", "exchange") and shape.copies() == 1 and kind.phase == "sums":
            return False
        if kind.phase in ("evaluation", "update") and (shape.processes > 8 or shape.model != SHAPES[0].model):
            return False
        if kind.start == "heal":
            return shape.copies() > 1 and not shape.more and "expert" not in shape.mesh
        return True

    # Names.

    def blamed(self):
        return (self.run.victim + 1) % self.run.count if self.mutant else self.run.victim

    def name(self, process):
        ranks = "|".join(str(rank) for rank in self.run.shape.ranks_of(process))
        return rf"(?:process {process}(?: with ranks [0-9, ]+)?|rank (?:{ranks}))(?: on \S+)?"

    def others(self):
        return [p for p in range(self.run.count) if p != self.run.victim and self.run.children[p]]

    # Judgements.

    def wait(self, of, limit_s=LIMIT_S):
        until = time.monotonic() + limit_s
        for child in of:
            try:
                child.wait(max(0.01, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.wrong.append(f"hangs for {limit_s} s")
                return
        self.seconds = time.monotonic() - self.began

    def wait_all(self, limit_s=LIMIT_S):
        self.wait([child for child in self.run.children if child], limit_s)

    def ended(self, of, statuses):
        for p in of:
            status = self.run.children[p].returncode
            if status not in statuses:
                self.wrong.append(f"process {p} ended with {status}: {self.run.message(f'err-{p}')}")

    def told(self, of, pattern):
        """One same message of all these, like the pattern."""
        messages = {p: self.run.message(f"err-{p}") for p in of}
        self.said = messages[of[0]]
        if len(set(messages.values())) != 1:
            self.wrong.append(f"messages differ: {sorted(set(messages.values()))}")
        if not re.search(pattern, self.said):
            self.wrong.append(f"does not name {self.whom}: {self.said}")

    def records_are_whole(self):
        for path in self.run.folder.glob("made/flight-*"):
            shown = subprocess.run([self.tool, "show", path, "--color", "never"], capture_output=True, check=False)
            if shown.returncode != 0:
                self.wrong.append(f"{path.name} is not whole: {shown.stderr.decode()[:200]}")

    def losses_are(self, expected):
        path = self.run.folder / "made/losses.csv"
        if not path.exists() or path.read_text() != expected:
            self.wrong.append("the losses are not those of an unharmed run")

    def unharmed(self):
        self.losses_are(self.truths.losses(self.run))

    def resumed(self):
        """The run is started again as it is, and ends with the losses of an unharmed one."""
        run = self.run
        run.timeout = "60s"
        run.write()
        words = ["run.yaml", "--out", "made", "--resume", "auto", "--processes", str(run.count)]
        child = run.start(words, "err-resumed")
        seconds = self.seconds
        self.wait([child])
        self.seconds = seconds
        if child.returncode != 0:
            self.wrong.append(f"resuming ended with {child.returncode}: {run.message('err-resumed')}")
        self.unharmed()

    # Faults that are done to the victim.

    def harm(self, fault):
        """Returns the pattern of what has to be said; "": the run has to go on."""
        run, victim = self.run, self.run.ids()[self.run.victim]
        name = self.name(self.blamed())
        self.whom = f"process {run.victim}"
        self.began = time.monotonic()
        if fault in ("SIGKILL", "SIGSEGV"):
            os.kill(victim, getattr(signal, fault))
            os.kill(victim, signal.SIGCONT)
            return f"^{name} died, or ended without a word: "
        if fault == "stop":
            os.kill(victim, signal.SIGSTOP)
            return f"^{name}.*(?:does not answer|did not|computes)"
        if fault == "pause":
            os.kill(victim, signal.SIGSTOP)
            time.sleep(self.random.uniform(0.1, 0.7))
            os.kill(victim, signal.SIGCONT)
            return ""
        if fault in ("SIGUSR2", "SIGTERM", "SIGUSR1", "SIGHUP"):
            os.kill(victim, getattr(signal, fault))
            os.kill(victim, signal.SIGCONT)
            return ""
        raise ValueError(fault)

    def cut(self):
        """A connection for messages is cut, and perhaps the one by which all meet. Returns as `harm`.

        None: the victim has no connection. Before there are any for messages the other one is cut.
        """
        run, ids = self.run, self.run.ids()
        if len(ids) != run.count:
            return None
        peers = {p: connections.between(ids[run.victim], ids[p]) for p in range(run.count) if p != run.victim}
        peers = {p: files for p, files in peers.items() if files}
        if not peers:
            return None
        other = self.random.choice(sorted(peers))
        first = {file for file in peers[other] if connections.is_at(ids[run.victim], file, run.first_port())}
        files = [file for file in peers[other] if file not in first]
        joining = not files
        if joining or self.random.random() < 0.5:
            files += first
        self.whom = f"processes {run.victim}, {other}"
        self.began = time.monotonic()
        if connections.cut(ids[run.victim], files) == 0:
            return None
        os.kill(ids[run.victim], signal.SIGCONT)
        a, b = self.name(self.blamed()), self.name(other)
        between = f"the connection between (?:{a} and {b}|{b} and {a}) broke"
        self.ends = {run.victim, other}
        if joining:  # these alone know of each other, or process 0 of all
            return f"^(?:{a}|{b}) died, or ended without a word: |^{between}"
        return f"; or only {between}, which no third process" if run.count == 2 else f"^{between}"

    # Runs of processes that are started by hand. Each returns False if it does not count.

    def each(self):
        run, fault = self.run, self.kind.fault
        if fault == "stop":
            run.timeout = SHORT
        run.write()
        if run.phase == "load" and not self.leave_checkpoint():
            return False
        held = None
        if run.phase == "connect":
            held = self.random.choice([p for p in range(1, run.count) if p != run.victim])
            if fault != "pause" and run.victim == 0:
                run.victim = next(p for p in range(1, run.count) if p != held)
        run.start_all(["--resume", "auto"] if run.phase == "load" else [], held=held)
        if not run.await_moment():
            return self.missed(run.children)
        pattern = self.cut() if fault == "cut connection" else self.harm(fault)
        if pattern is None:
            return False
        run.start_held() if pattern == "" else None
        if fault == "stop":
            self.wait([run.children[p] for p in self.others()])
            seconds = self.seconds
            run.children[run.victim].send_signal(signal.SIGCONT)
            self.wait_all()
            self.seconds = seconds
        else:
            self.wait_all()
        return self.judge_each(fault, pattern)

    def judge_each(self, fault, pattern):
        run, everyone = self.run, range(self.run.count)
        if pattern == "":
            self.seconds = None
            right = [0]
            if fault in ("SIGTERM", "SIGHUP"):  # those that hear of the wish from others end as by SIGTERM
                right += [128 + getattr(signal, fault), 128 + signal.SIGTERM]
            self.ended(everyone, right)
            if fault == "SIGUSR2" and run.phase == "steps":
                found = {p.name.split("-")[1] for p in run.folder.glob("made/flight-*-asked-1-*")}
                if found != {str(p) for p in everyone}:
                    self.wrong.append(f"records of {sorted(found)} only")
        else:
            if self.was_over(fault):
                return False
            of = list(everyone) if fault == "cut connection" else self.others()
            self.ended(of, [3])
            if fault == "cut connection" and run.count == 2:
                for p in of:  # each names the other
                    self.told([p], pattern)
            else:
                joining = pattern.startswith("^(")
                self.told([p for p in of if p not in self.ends or not p or not joining], pattern)
        self.records_are_whole()
        if all(child is not None and child.returncode == 0 for child in run.children):
            self.unharmed()
        else:
            self.resumed()
        return True

    def missed(self, of):
        """The run was over before its fault, and then has to have ended well."""
        self.wait([child for child in of if child])
        bad = [child.returncode for child in of if child and child.returncode != 0]
        if bad:
            said = self.run.message("err-parent" if self.run.parent else "err-0")
            self.wrong.append(f"ended with {bad} before the fault: {said}")
        return bool(self.wrong)

    def was_over(self, fault):
        """The run had ended for the victim, or for all others, before its fault."""
        run = self.run
        if self.wrong or run.phase == "connect":
            return False
        statuses = [child.returncode for child in run.children]
        return statuses[run.victim] == 0 or all(s == 0 for p, s in enumerate(statuses) if p != run.victim)

    def leave_checkpoint(self):
        """A run is killed in its middle; its results are removed, and its checkpoints stay."""
        run, phase = self.run, self.run.phase
        run.phase = "save"
        run.write(every=1)
        run.start_all()
        while run.lines() < 5 and run.children[0].poll() is None:
            time.sleep(0.001)
        for child in run.children:
            child.kill()
        self.wait_all()
        run.phase = phase
        shutil.rmtree(run.folder / "made", ignore_errors=True)
        return bool(self.checkpoints())

    def checkpoints(self):
        folder = self.run.folder / "ckpt"
        found = folder.iterdir() if folder.exists() else []
        return sorted(path for path in found if re.fullmatch(r"step-\d+", path.name))

    # Faults of a process that differs from the others from its start.

    def setting(self):
        run = self.run
        run.write()
        key = self.random.choice(sorted(SETTINGS))
        before, after = SETTINGS[key]
        text = run.text()
        (run.folder / "other.txt").write_text("another text of other words\n" * 60)
        (run.folder / "other.yaml").write_text(text.replace(before, after, 1))
        run.start_all(file="other.yaml")
        self.whom, self.began = f"{key} of process {run.victim}", time.monotonic()
        self.wait_all()
        self.ended(range(run.count), [2])
        self.told(list(range(run.count)), rf"differ in .*{'data' if key == 'text' else key}")
        return True

    def secret(self):
        run = self.run
        run.victim = run.victim or 1
        run.write()
        run.start_all(secret="another secret than the others'")
        self.whom, self.began = f"process {run.victim}", time.monotonic()
        self.wait_all(limit_s=180)
        self.ended(range(run.count), [1, 2, 3])
        own = run.message(f"err-{run.victim}")
        if "do not have the same secret" not in own:
            self.wrong.append(f"process {run.victim} does not know why: {own}")
        self.told(self.others(), f"^process {self.blamed()} of .* did not prove the secret")
        return True

    def descriptors(self):
        run = self.run
        run.write()
        few = self.random.randrange(8, 28)
        run.start_all(limit=(resource.RLIMIT_NOFILE, (few, few)))
        self.whom, self.began = f"process {run.victim}", time.monotonic()
        self.wait_all(limit_s=180)
        self.ended(range(run.count), [1, 2])
        self.told(self.others(), rf"^{self.name(self.blamed())}: .*may open {few} files")
        return True

    def strangers(self):
        """They knock at every port of the run while it meets, and at the first one to its end."""
        run = self.run
        run.write()
        held = self.random.choice([p for p in range(1, run.count)])
        run.start_all(held=held)

        def ports():
            found = {run.port}
            for child in run.started:
                if child.poll() is None:
                    found.update(connections.ports_of(child.pid))
            return sorted(found)

        self.began = time.monotonic()
        knocking = connections.Strangers(self.random.randrange(3, 11), ports)
        try:
            until = time.monotonic() + LIMIT_S
            while knocking.made < 30 and time.monotonic() < until:
                time.sleep(0.01)
            run.start_held()
            self.wait_all()
        finally:
            knocking.end()
        self.whom = f"{len(knocking.threads)} strangers"
        self.seconds = None
        self.ended(range(run.count), [0])
        self.unharmed()
        return True

    # Disks.

    def limit(self):
        """The victim may write no file of more than 2,000 bytes."""
        run = self.run
        run.write()
        run.start_all(limit=(resource.RLIMIT_FSIZE, (2000, 2000)))
        self.whom, self.began = f"process {run.victim}", time.monotonic()
        self.wait_all()
        self.ended(self.others(), [2])
        name = self.name(self.blamed())
        self.told(self.others(), rf"^(?:the checkpoint of step \d+: )?{name}: .*File too large")
        self.resumed()
        return True

    def disk(self):
        """All checkpoints are on a disk that has no room for the first one."""
        run = self.run
        run.write()
        room = self.random.choice(["4k", "8k", "16k", "24k"])
        (run.folder / "ckpt").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "none", run.folder / "ckpt"]
        self.mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        if not self.mounted:
            return False
        run.start_all()
        self.whom, self.began = f"a disk of {room}", time.monotonic()
        self.wait_all()
        messages = {run.message(f"err-{p}") for p in range(run.count)}
        self.ended(range(run.count), [2])
        self.said = max(messages, key=len)
        where = r"ckpt/step-000001\.tmp-\w+/\S+: .*No space left on device"
        if self.mutant or not all(re.search(where, message) for message in messages):
            self.wrong.append(f"not every message names the disk: {sorted(messages)}")
        if not any(re.search(r"(?:rank|process) \d+", message) for message in messages):
            self.wrong.append(f"no message names a process: {sorted(messages)}")
        self.unmount()
        self.resumed()
        return True

    def unmount(self):
        if self.mounted:
            subprocess.run(["umount", self.run.folder / "ckpt"], check=True)
            self.mounted = False

    def damage(self):
        """A file of the newest checkpoint is damaged; the run goes on from the one before."""
        run = self.run
        run.write()
        if not self.leave_checkpoint() or len(self.checkpoints()) < 2:
            return False
        before, newest = self.checkpoints()[-2:]
        path = self.random.choice(sorted(newest.iterdir()))
        bytes_ = bytearray(path.read_bytes())
        if self.kind.fault == "removed file":
            path.unlink()
        elif self.kind.fault == "cut file":
            path.write_bytes(bytes_[: self.random.randrange(len(bytes_))])
        else:
            bit = self.random.randrange(8 * len(bytes_))
            bytes_[bit // 8] ^= 1 << bit % 8
            path.write_bytes(bytes_)
        self.whom, self.began = re.sub(r"\d{5}", "N", path.name), time.monotonic()
        run.start_parent(["--resume", "auto"])
        self.wait([run.parent])
        self.seconds = None
        text = (run.folder / "err-parent").read_text()
        self.said = next((x for x in text.splitlines() if newest.name in x), text[:300])
        wanted = f"not whole and is passed over: ckpt/{before.name if self.mutant else newest.name}"
        if run.parent.returncode != 0 or wanted not in self.said or path.name not in self.said:
            self.wrong.append(f"status {run.parent.returncode}, does not name {newest.name}/{path.name}: {text}")
        self.unharmed()
        return True

    # Runs under a parent.

    def under_parent(self):
        """A fault of a child; with --restarts the run ends as if nothing had happened."""
        run, fault, again = self.run, self.kind.fault, self.kind.start == "restarts"
        if fault == "stop":
            run.timeout = SHORT
        run.write()
        run.start_parent(["--restarts", "1"] if again else [])
        if run.phase == "connect":
            while run.lives() and len(run.ids()) < run.count:
                time.sleep(0.0005)
            time.sleep(self.random.uniform(0, 0.01))
        elif not run.await_moment():
            return self.missed([run.parent])
        if len(run.ids()) != run.count or not self.alive(run.ids()[run.victim]):
            return False
        victim = run.ids()[run.victim]
        pattern = self.cut() if fault == "cut connection" else self.harm(fault)
        if pattern is None:
            return False
        self.await_told(run.folder / "err-parent")
        if fault == "stop" and pathlib.Path(f"/proc/{victim}").exists():
            os.kill(victim, signal.SIGCONT)
        seconds = self.seconds
        self.wait([run.parent])
        self.seconds = seconds
        text = (run.folder / "err-parent").read_text(errors="replace")
        if run.parent.returncode == 0 and "stringline: " not in text:
            return False  # it was over
        self.judge_parent(fault, pattern, text, again)
        return True

    @staticmethod
    def alive(process):
        try:
            return pathlib.Path(f"/proc/{process}/stat").read_text().split(") ")[1][0] not in "ZX"
        except OSError:
            return False

    def judge_parent(self, fault, pattern, text, again):
        run = self.run
        lines = [x for x in text.splitlines() if x.startswith("stringline: ")]
        self.said = " / ".join(x[len("stringline: ") :] for x in lines)
        signal_ = {"SIGKILL": "SIGKILL", "SIGSEGV": "SIGSEGV"}.get(fault)
        lost = rf"process {self.blamed()} was lost \({signal_}\)" if signal_ else "lost each other"
        if fault == "stop":  # the parent kills it ten seconds after the others have ended
            lost += rf"|process {self.blamed()} was lost \(SIGKILL\)"
        named = any(re.search(pattern, x[len("stringline: ") :]) for x in lines)
        if again:
            if not re.search(rf"(?:{lost}); starting again from .*restart 1 of 1", text):
                self.wrong.append(f"does not start again, or does not say why: {text}")
            if run.parent.returncode != 0:
                self.wrong.append(f"the run ended with {run.parent.returncode}: {text}")
            self.unharmed()
            return
        if not named and not (signal_ and re.search(lost, text)):
            self.wrong.append(f"does not name {self.whom}: {text}")
        expected = 3 if run.victim or not signal_ else 128 + getattr(signal, fault)
        # The parent kills those that wait for a process that died before it joined.
        late = 128 + signal.SIGKILL if run.phase == "connect" else expected
        if run.parent.returncode not in (expected, late, 128 + getattr(signal, signal_ or "SIGKILL")):
            self.wrong.append(f"the parent ended with {run.parent.returncode}: {text}")
        self.records_are_whole()
        self.resumed()

    def await_told(self, log):
        """Waits until something is said, or the parent has ended."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and self.run.parent.poll() is None and log.stat().st_size == 0:
            time.sleep(0.002)
        self.seconds = time.monotonic() - self.began

    def kill_parent(self):
        run = self.run
        run.write()
        run.start_parent()
        if not run.await_moment():
            return self.missed([run.parent])
        self.whom, self.began = "all", time.monotonic()
        run.parent.kill()
        self.wait([run.parent])
        if run.parent.returncode == 0:
            return False
        time.sleep(0.02)
        self.records_are_whole()
        self.resumed()
        return True

    def heal(self):
        """Copies without the victim go on: with the losses of a resumed run of fewer copies."""
        run, shape = self.run, self.run.shape
        run.write()
        run.start_parent()
        if not run.await_moment():
            return self.missed([run.parent])
        if len(run.ids()) != run.count:
            return False
        lines = run.lines()
        self.harm(self.kind.fault)
        self.wait([run.parent])
        self.seconds = None
        text = (run.folder / "err-parent").read_text(errors="replace")
        losses = run.folder / "made/losses.csv"
        if run.parent.returncode != 0 or not losses.exists():
            self.wrong.append(f"the run ended with {run.parent.returncode}: {text}")
            return True
        if losses.read_text() == self.truths.losses(run):
            return False  # it was over
        copies = shape.copies()
        size = run.count // copies
        left = copies - 1 if size > 0 else 0
        while copies % left:
            left -= 1
        # The run may be two steps further, or one back, than its losses when the signal was sent.
        steps = range(max(0, lines - 2), min(STEPS, lines + 3) + 1)
        if not any(losses.read_text() == self.truths.healed(run, left, step) for step in steps):
            self.wrong.append(f"losses of no run with {left} copies from a step of {steps}")
        out = (run.folder / "out-parent").read_text(errors="replace")
        self.said = next((x for x in out.splitlines() if " was lost: " in x), "")
        if not re.search(rf"^{self.name(self.blamed())} was lost: ", self.said):
            self.wrong.append(f"does not name {self.whom}: {self.said or text}")
        return True

    def line(self):
        run, kind = self.run, self.kind
        shape = run.shape
        said = self.said.replace(f" on {socket.gethostname()}", " here")
        took = "" if self.seconds is None else f"{self.seconds:.3f}"
        right = "no" if self.wrong else "yes"
        where = [kind.fault, kind.start, kind.phase, shape.name, shape.processes]
        return [*where, self.whom, right, took, "; ".join(self.wrong), said]

    def judge(self):
        """Returns the line of the table; None: the run was over before its fault."""
        try:
            return self.line() if ACTIONS.get(self.kind.fault, STARTS[self.kind.start])(self) else None
        finally:
            if self.mounted:
                self.unmount()
            self.run.clear(keep=bool(self.wrong))


STARTS = {"each": Case.each, "parent": Case.under_parent, "restarts": Case.under_parent, "heal": Case.heal}
ACTIONS = {
    "setting": Case.setting,
    "secret": Case.secret,
    "descriptors": Case.descriptors,
    "strangers": Case.strangers,
    "file limit": Case.limit,
    "full disk": Case.disk,
    "flipped bit": Case.damage,
    "removed file": Case.damage,
    "cut file": Case.damage,
    "kill parent": Case.kill_parent,
}
STEP_PHASES = ("steps", "forward", "backward", "sums", "update", "exchange", "evaluation")
PHASES = ("agreement", "load", *STEP_PHASES, "save", "end")
KINDS = [
    *[Kind("SIGKILL", phase, weight=6) for phase in ("connect", *PHASES)],
    *[Kind("SIGSEGV", phase, weight=2) for phase in ("connect", *PHASES)],
    *[Kind("stop", phase, weight=3) for phase in PHASES],
    *[Kind("pause", phase, weight=3) for phase in ("connect", *PHASES)],
    *[Kind("cut connection", phase, weight=6) for phase in PHASES],
    *[Kind("SIGUSR2", phase) for phase in PHASES],
    *[Kind(fault, phase) for fault in ("SIGTERM", "SIGHUP", "SIGUSR1") for phase in ("steps", "save", "evaluation")],
    *[
        Kind(fault, phase, "restarts")
        for fault in ("SIGKILL", "SIGSEGV", "stop", "cut connection")
        for phase in PHASES[2:]
    ],
    *[Kind(fault, "connect", "parent") for fault in ("SIGKILL", "SIGSEGV")],
    *[Kind("SIGKILL", phase, "heal", 3) for phase in ("steps", "backward", "sums", "exchange", "save")],
    Kind("setting", "connect", weight=14),
    Kind("secret", "connect"),
    Kind("descriptors", "connect", weight=8),
    Kind("strangers", "connect", weight=10),
    Kind("file limit", "save", weight=8),
    Kind("full disk", "save", weight=8),
    *[Kind(fault, "load", weight=8) for fault in ("flipped bit", "removed file", "cut file")],
]
SAVES = [Kind("SIGKILL", "save", "parent"), Kind("kill parent", "save", "parent")]
