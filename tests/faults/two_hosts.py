"""Two hosts on one machine: a training spans them, and the cable between them is pulled.

Each host is a network namespace with a name of its own; a virtual cable joins them. The judge asks
of a training with two processes on each: are its losses those of one process, to the bit, over TCP,
over MPI, and when the cable is out for less than `timeout`? And when it stays out: do all processes
end within a limit, with status 3 and a message that names a process of the other host?

    two_hosts.py TOOL FOLDER

It ends with 1 if an answer is wrong, and with 77 where the system lets nobody make namespaces.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE, THERE = "10.77.0.1", "10.77.0.2"
LIMIT_S = 60
SKIPPED = 77
RUN = """schedule: {{file: {source}/schedules/1f1b.sched, P: 2, M: 4}}
model: {{layers: 2, width: 16, heads: 2, context: 8}}
data: {{text: {source}/README.md, microbatch: 2}}
device: cpu
mesh: {{data: 2}}
transport: {transport}
timeout: {timeout}
train: {{steps: {steps}, learning_rate: 1e-3}}
"""


class Host:
    """A network namespace, kept by a process that sleeps in it."""

    def __init__(self, name):
        self.name = name
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", f"hostname {name}; echo; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        self.keeper.stdout.readline()

    def command(self, *words):
        return ["nsenter", f"--target={self.keeper.pid}", "--net", "--uts", *words]

    def ip(self, *words):
        subprocess.run(self.command("ip", *words), check=True)


class Cable:
    """The connection of both hosts."""

    def __init__(self, hosts):
        self.host = hosts[0]
        self.host.ip("link", "add", "cable", "type", "veth", "peer", "name", "cable2")
        self.host.ip("link", "set", "cable2", "netns", str(hosts[1].keeper.pid), "name", "cable")
        for host, address in zip(hosts, (HERE, THERE)):
            host.ip("address", "add", f"{address}/24", "dev", "cable")
            host.ip("link", "set", "lo", "up")
            host.ip("link", "set", "cable", "up")

    def pull(self):
        self.host.ip("link", "set", "cable", "down")

    def plug(self):
        self.host.ip("link", "set", "cable", "up")


class Training:
    """Runs in a folder of its own; two processes on each host."""

    def __init__(self, tool, root, name, hosts):
        self.tool, self.hosts = tool, hosts
        self.folder = root / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.environment = {**os.environ, "STRINGLINE_SECRET": os.urandom(32).hex(), "CUDA_VISIBLE_DEVICES": ""}

    def write(self, transport="tcp", timeout="20s", steps=40):
        source = pathlib.Path(__file__).resolve().parents[2]
        text = RUN.format(source=source, transport=transport, timeout=timeout, steps=steps)
        (self.folder / "run.yaml").write_text(text)

    def begin(self, words, said):
        return subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdout=open(self.folder / said, "w"), stderr=subprocess.STDOUT
        )

    def begin_all(self):
        """Over TCP: a command for each process."""
        return [
            self.begin(
                self.hosts[rank // 2].command(
                    *(self.tool, "run", "run.yaml", "--out", "out", "--ranks", "4", "--rank", str(rank)),
                    *("--local-rank", str(rank % 2), "--master", f"{HERE}:29500"),
                ),
                f"said-{rank}.txt",
            )
            for rank in range(4)
        ]

    def begin_mpirun(self):
        """Over MPI: mpirun starts its own servant on the other host, by this instead of ssh."""
        agent = self.folder / "agent"
        enter = " ".join(self.hosts[1].command("sh", "-c"))
        agent.write_text(f'#!/bin/sh\nwhile [ "$1" != {THERE} ]; do shift; done; shift\nexec {enter} "$*"\n')
        agent.chmod(0o755)
        mpirun = [
            "mpirun",
            "--allow-run-as-root",
            "--host",
            f"{HERE}:2,{THERE}:2",
            "--mca",
            "plm_rsh_agent",
            str(agent),
        ]
        words = [*mpirun, self.tool, "run", "run.yaml", "--out", "out"]
        return [self.begin(self.hosts[0].command(*words), "said-0.txt")]

    def end(self, processes):
        """The exit statuses, and what was said; a process that does not end is killed, and has none."""
        deadline = time.monotonic() + LIMIT_S
        statuses = []
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            statuses.append(process.poll())
            process.kill()
            process.wait()
        return statuses, [file.read_text() for file in sorted(self.folder.glob("said-*.txt"))]

    def wait_for_steps(self):
        """Waits until the training is under way."""
        deadline = time.monotonic() + LIMIT_S
        losses = self.folder / "out" / "losses.csv.part"
        while not losses.exists() or losses.read_text().count("\n") < 5:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no five steps in {self.folder}")
            time.sleep(0.01)

    def losses(self):
        file = self.folder / "out" / "losses.csv"
        return file.read_text() if file.exists() else None


def alone(tool, root, steps):
    """The losses of one process."""
    training = Training(tool, root, f"alone-{steps}", [])
    training.write(steps=steps)
    training.end([training.begin([tool, "run", "run.yaml", "--out", "out"], "said-0.txt")])
    return training.losses()


def is_whole(training, processes, expected):
    statuses, said = training.end(processes)
    if any(statuses) or expected is None or training.losses() != expected:
        return f"statuses {statuses}, losses {'differ' if training.losses() else 'are missing'}: {said}"
    return None


def over_tcp(tool, root, hosts, cable):
    training = Training(tool, root, "tcp", hosts)
    training.write()
    return is_whole(training, training.begin_all(), alone(tool, root, 40))


def over_mpi(tool, root, hosts, cable):
    training = Training(tool, root, "mpi", hosts)
    training.write(transport="mpi")
    return is_whole(training, training.begin_mpirun(), alone(tool, root, 40))


def out_for_a_second(tool, root, hosts, cable):
    training = Training(tool, root, "second", hosts)
    training.write(steps=2000)
    expected = alone(tool, root, 2000)
    processes = training.begin_all()
    training.wait_for_steps()
    cable.pull()
    time.sleep(1)
    cable.plug()
    return is_whole(training, processes, expected)


def out_for_good(tool, root, hosts, cable):
    training = Training(tool, root, "good", hosts)
    training.write(steps=1000000, timeout="3s")
    processes = training.begin_all()
    training.wait_for_steps()
    cable.pull()
    statuses, said = training.end(processes)
    cable.plug()
    wrong = []
    for rank, text in enumerate(said):
        blamed = re.search(r"rank (\d) on (host\d) does not answer", text)
        if statuses[rank] != 3 or not blamed or blamed[2] == hosts[rank // 2].name:
            wrong.append(f"rank {rank} ended with {statuses[rank]}: {text}")
    return "\n".join(wrong) or None


def main():
    tool, root = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    if "inside" not in sys.argv[3:]:
        enter = ["unshare", "--user", "--map-root-user", "--net", "--uts"]
        if subprocess.run([*enter, "true"]).returncode != 0:
            print("nobody may make namespaces here: nothing was tested")
            return SKIPPED
        return subprocess.run([*enter, sys.executable, *sys.argv, "inside"]).returncode
    hosts = [Host("host1"), Host("host2")]
    wrong = 0
    try:
        cable = Cable(hosts)
        for case in (over_tcp, over_mpi, out_for_a_second, out_for_good):
            began = time.monotonic()
            said = case(tool, root, hosts, cable)
            wrong += said is not None
            print(f"{case.__name__:17} {time.monotonic() - began:5.1f} s  {said or 'right'}", flush=True)
    finally:
        for host in hosts:
            host.keeper.kill()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
