"""Faults that are really there, and what `stringline diagnose` says of their dumps.

gloo's recorder keeps collectives: groups of processes make calls, one of them other calls than the
rest, and the dumps are torch's own. gloo ends a process that receives more bytes than it wants, so
calls that do not agree stand in line behind two that a further process of the group never makes.
Of messages gloo keeps nothing, so those dumps are of the model of torch's recorder
(flight_recorder.py), of schedules of the library with 2 to 8 ranks, half of them as JSON.

diagnose_test.py STRINGLINE SOURCE [FAULTS OF GLOO, OF MESSAGES]; without numbers a few of each.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import flight_recorder as model

STRINGLINE, SOURCE = sys.argv[1:3]


def diagnosed(folder, *options):
    answer = subprocess.run([STRINGLINE, "diagnose", str(folder), "--json", *options], capture_output=True, text=True)
    found = json.loads(answer.stdout)
    assert "error" not in found, found
    assert answer.returncode == (0 if found["ok"] else 1), answer
    return found


# Collectives over gloo.


@dataclass
class Scenario:
    kind: str  # late, cut, swapped, size, missing, none
    members: list
    culprit: int  # a member
    at: int  # which call, from 1: the first is the same everywhere
    absent: list  # a process of the group that makes no call


# gloo has two threads for the calls of a group, and the first two calls need all its processes.
CALLS = [("all_reduce", 4), ("all_reduce", 6), ("all_gather", 3), ("all_reduce", 8), ("broadcast", 5)]


def scenarios(count, world, seed):
    chance = random.Random(seed)
    kinds = ["late", "cut", "swapped", "size", "missing", "none"]
    made = []
    for i in range(count):
        kind = kinds[i % len(kinds)]
        differs = kind in ("swapped", "size", "missing")
        # Three callers at least: of two it would be open which one is wrong.
        group = chance.sample(range(world), chance.randint(4, world) if differs else world)
        absent = [group.pop()] if differs else []
        if not differs:
            group = group[: chance.randint(2, world)]
        at = 3 if kind == "size" else chance.choice([2, 3] if differs else [1, 2, 3])
        made.append(Scenario(kind, sorted(group), chance.choice(group), at, absent))
    return made


def calls_of(scenario, rank):
    calls = list(CALLS)
    if rank != scenario.culprit:
        return calls
    at = scenario.at
    if scenario.kind in ("late", "cut"):
        return calls[:at]
    if scenario.kind == "swapped":
        calls[at], calls[at + 1] = calls[at + 1], calls[at]
    if scenario.kind == "size":
        calls[at] = (calls[at][0], calls[at][1] + 1)
    if scenario.kind == "missing":
        del calls[at]
    return calls


def start(torch, dist, group, members, name, size):
    """The call, under way; the first of the group sends broadcasts."""
    tensor = torch.ones(size)
    if name == "all_reduce":
        return dist.all_reduce(tensor, group=group, async_op=True)
    if name == "broadcast":
        return dist.broadcast(tensor, members[0], group=group, async_op=True)
    return dist.all_gather([torch.ones(size) for _ in members], tensor, group=group, async_op=True)


def worker(rank, world, port, made, folder):
    import time

    import torch
    import torch._C._distributed_c10d as recorder
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    store = dist.TCPStore("127.0.0.1", port + 1, world, rank == 0, timedelta(seconds=120))

    def all_here(what):
        store.add(what, 1)
        while store.add(what, 0) < world:
            time.sleep(0.005)

    works = []
    for i, scenario in enumerate(made):
        whole = sorted(scenario.members + scenario.absent)
        group = dist.new_group(whole, timeout=timedelta(seconds=120))
        recorder._reset_fr_trace()
        all_here(f"begin {i}")
        if rank in scenario.members:
            for name, size in calls_of(scenario, rank):
                works.append(start(torch, dist, group, whole, name, size))
        all_here(f"called {i}")
        time.sleep(0.2)
        if rank in scenario.members:
            raw = recorder._dump_fr_trace()
            if scenario.kind == "cut" and rank == scenario.culprit:
                raw = raw[: len(raw) // 2]
            (Path(folder) / str(i)).mkdir(exist_ok=True)
            (Path(folder) / str(i) / f"rank{rank}").write_bytes(raw)
        all_here(f"dumped {i}")
    store.add("left", 1)
    while rank == 0 and store.add("left", 0) < world:
        time.sleep(0.005)  # the store is rank 0's
    os._exit(0)  # calls that never end are left


def judge(scenario, found):
    culprit = [scenario.culprit]
    places = {call["file"] for call in found["calls"]}
    assert places <= {__file__}, places
    if scenario.kind == "none":
        assert found["ok"], found
    elif scenario.kind in ("late", "cut"):
        why = "late" if scenario.kind == "late" else "cut short"
        assert [b["ranks"] for b in found["behind"] if b["why"] == why] == [culprit], found
        assert not found["mismatches"], found
    else:
        (mismatch,) = found["mismatches"]
        assert mismatch["sides"][1]["ranks"] == culprit, found
        assert mismatch["sequence"] == scenario.at + 1, found
        assert (mismatch["about"] == "size") == (scenario.kind == "size"), found
        hints = {"swapped": "swapped", "missing": "left out", "size": "none"}
        assert mismatch["hint"] == hints[scenario.kind], found


def over_gloo(count, world, seed):
    import socket

    import torch.multiprocessing as multiprocessing

    made = scenarios(count, world, seed)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (world, port, made, folder), world, start_method="fork")
        for i, scenario in enumerate(made):
            try:
                judge(scenario, diagnosed(Path(folder) / str(i)))
            except Exception:
                print(f"seed {seed}: {i}: {scenario}")
                raise
    print(f"gloo: {count} faults of {world} processes are told")


# Messages, of the model.

MESSAGE = re.compile(r"(\d+)(SEND|RECV)_([FB])(\d+)")


def lowered(name, ranks, microbatches):
    """By rank: the actions that are messages, and their calls."""
    answer = subprocess.run(
        [STRINGLINE, "plan", name, f"P={ranks}", f"M={microbatches}", "--lowered", "--json"] + ["--layout", "pair"],
        capture_output=True,
        text=True,
        check=True,
    )
    plan = json.loads(answer.stdout)
    rank_of = plan["stages"]
    actions, calls = [], []
    for row in plan["ranks"]:
        words = [word for group in row for word in group.split("&") if MESSAGE.fullmatch(word)]
        actions.append(words)
        calls.append(model.Rank())
        for word in words:
            stage, way, value, _ = MESSAGE.fullmatch(word).groups()
            further = (way == "SEND") == (value == "F")
            peer = rank_of[int(stage) + (1 if further else -1)]
            calls[-1].calls.append(model.Call(way.lower(), 16, peer, line=ord(value)))
    return actions, calls


def rounds(chance, folder, kind):
    """A fault of this kind, its dumps in the folder, and the check of the diagnosis."""
    name = chance.choice(["1f1b", "gpipe", "zb_h1"])
    ranks, microbatches = chance.randint(2, 8), chance.randint(2, 9)
    actions, made = lowered(name, ranks, microbatches)
    steps = chance.randint(1, 3)
    for rank in made:
        rank.calls = [model.Call(**vars(call)) for _ in range(steps) for call in rank.calls]
    groups = {"0": list(range(ranks))}
    culprit = chance.randrange(ranks)
    own = made[culprit]
    at = chance.randrange(len(own.calls))
    peer, per_step = own.calls[at].peer, len(actions[culprit])
    action = actions[culprit][at % per_step]
    sends = [i for i, call in enumerate(own.calls) if call.name == "send"]
    if kind == "late":
        del own.calls[at:]
    elif kind in ("no file", "cut"):
        own.dead = kind
    elif kind == "size":
        own.calls[at].size += 1
    elif kind == "dtype":
        own.calls[at].dtype = "Half"
    elif kind == "missing":
        at = chance.choice(sends)
        peer = own.calls[at].peer
        del own.calls[at]
    elif kind == "circle":
        other = made[peer]
        own.calls.insert(0, model.Call("send", 16, peer))
        own.calls.insert(1, model.Call("recv", 16, peer))
        other.calls.insert(0, model.Call("send", 16, culprit))
        other.calls.insert(1, model.Call("recv", 16, culprit))
    model.write(folder, made, groups, chance.choice(["pickle", "json"]))
    found = diagnosed(folder, "--schedule", name, f"P={ranks}", f"M={microbatches}")
    behind = {rank: one for one in found["behind"] for rank in one["ranks"]}
    if kind == "none":
        assert found["ok"], found
    elif kind == "late":
        assert list(behind) == [culprit] and behind[culprit]["why"] == "late", found
        planned = found["calls"][behind[culprit]["waiting_call"]]["planned"]
        later = {(a, at // per_step) for a in actions[culprit][at % per_step :]}
        later |= {(a, s) for s in range(at // per_step + 1, steps) for a in actions[culprit]}
        names = {(planned["send"], planned["step"]), (planned["receive"], planned["step"])}
        assert names & later and planned["line"] > 0, (found, later)
        assert not found["mismatches"] and not found["circles"], found
    elif kind in ("no file", "cut"):
        why = "no dump" if kind == "no file" else "cut short"
        assert list(behind) == [culprit] and behind[culprit]["why"] == why, found
    elif kind in ("size", "dtype"):
        (mismatch,) = found["mismatches"]
        assert mismatch["about"] == kind, found
        assert {tuple(side["ranks"]) for side in mismatch["sides"]} == {(culprit,), (peer,)}, found
        planned = found["calls"][mismatch["sides"][0]["call"]]["planned"]
        assert action in (planned["send"], planned["receive"]), (action, found)
        assert planned["step"] == at // per_step, found
    elif kind == "missing":
        pairs = [{step["rank"] for step in circle["steps"]} for circle in found["circles"]]
        assert culprit in behind or {culprit, peer} in pairs, found
    elif kind == "circle":
        assert not behind, found
        (circle,) = found["circles"]
        assert {step["rank"] for step in circle["steps"]} == {culprit, peer}, found
        assert {step["lack"] for step in circle["steps"]} == {"behind"}, found


def of_messages(count, seed):
    chance = random.Random(seed)
    kinds = ["late", "no file", "cut", "size", "dtype", "missing", "circle", "none"]
    for i in range(count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                rounds(chance, Path(folder), kinds[i % len(kinds)])
            except Exception:
                print(f"seed {seed}: {i}: {kinds[i % len(kinds)]}")
                raise
    print(f"messages: {count} faults are told")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[3:]] or [6, 8]
    drawn = random.randrange(1 << 30)
    print(f"seed {drawn}")
    of_messages(numbers[1], drawn)
    over_gloo(numbers[0], 8 if numbers[0] > 6 else 4, drawn)
