"""Dumps as torch's flight recorder writes them, of runs that exist only on paper.

gloo records no messages, and NCCL needs GPUs, so the recorder is modelled: its keys, types and
counters are those of torch 2.15 (version 2.10 of the format). Each rank has a list of calls, which
``perform`` issues without waiting, as NCCL's host does. A call ends when its partners stand at the
front of their queues with the same call: one queue of a rank for each process group, and one for
each other rank with which it exchanges messages outside of batches.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Call:
    name: str  # all_reduce, send, recv …
    size: int = 4
    peer: int = -1
    dtype: str = "Float"
    line: int = 10
    group: str = "0"


@dataclass
class Rank:
    calls: list[Call] = field(default_factory=list)
    dead: str = ""  # "no file" or "cut"


def _queues(calls: list[Call]) -> dict[tuple, Iterator[int]]:
    found: dict[tuple, list[int]] = {}
    for i, call in enumerate(calls):
        found.setdefault((call.group, call.peer), []).append(i)
    return found


def _meet(a: Call, b: Call) -> bool:
    """True for the two ends of a message; sizes have to agree as NCCL wants it."""
    return {a.name, b.name} == {"send", "recv"} and a.size == b.size and a.dtype == b.dtype


def perform(ranks: list[Rank], groups: dict[str, list[int]]) -> list[list[bool]]:
    """By rank and call: whether the call ended."""
    ended = [[False] * len(rank.calls) for rank in ranks]
    queues = [_queues(rank.calls) for rank in ranks]
    front = {(r, key): 0 for r in range(len(ranks)) for key in queues[r]}

    def at(r: int, key: tuple) -> int | None:
        calls = queues[r].get(key, [])
        place = front.get((r, key), 0)
        return calls[place] if place < len(calls) and not ranks[r].dead else None

    def advance(r: int, key: tuple) -> None:
        ended[r][at(r, key)] = True
        front[r, key] += 1

    moved = True
    while moved:
        moved = False
        for r in range(len(ranks)):
            for key in queues[r]:
                i = at(r, key)
                if i is None:
                    continue
                call = ranks[r].calls[i]
                if call.peer >= 0:
                    other = (call.group, r)
                    j = at(call.peer, other)
                    if j is not None and _meet(call, ranks[call.peer].calls[j]):
                        advance(r, key)
                        advance(call.peer, other)
                        moved = True
                    continue
                members = groups[call.group]
                places = [at(m, key) for m in members]
                if None in places:
                    continue
                there = [ranks[m].calls[p] for m, p in zip(members, places)]
                if all((c.name, c.size, c.dtype) == (call.name, call.size, call.dtype) for c in there):
                    for member in members:
                        advance(member, key)
                    moved = True
    return ended


def dump(rank: int, record: Rank, ended: list[bool], groups: dict[str, list[int]], kept: int = 2000) -> dict:
    """What ``_dump_nccl_trace`` gives of this rank, as a value; the last ``kept`` calls of it."""
    collective = dict.fromkeys(groups, 0)
    message = dict.fromkeys(groups, 0)
    entries = []
    for i, call in enumerate(record.calls):
        is_message = call.peer >= 0
        counter = message if is_message else collective
        counter[call.group] += 1
        members = groups[call.group]
        name = call.name
        if is_message:
            arrow = "->" if call.name == "send" else "<-"
            name = f"{call.name} {members.index(rank)}{arrow}{members.index(call.peer)}"
        times = 1_700_000_000_000_000_000 + i if ended[i] else None
        entries.append(
            {
                "frames": [
                    {
                        "name": call.name,
                        "filename": "/site-packages/torch/distributed/distributed_c10d.py",
                        "line": 4174,
                    },
                    {"name": "step", "filename": "train.py", "line": call.line},
                ],
                "record_id": i,
                "pg_id": list(groups).index(call.group),
                "process_group": (call.group, "default_pg" if call.group == "0" else "pipe"),
                "collective_seq_id": collective[call.group],
                "p2p_seq_id": message[call.group],
                "op_id": i + 1,
                "profiling_name": f"nccl:{name}",
                "time_created_ns": 1_700_000_000_000_000_000 + i,
                "input_sizes": [[call.size]],
                "input_dtypes": [call.dtype],
                "output_sizes": [[call.size]],
                "output_dtypes": [call.dtype],
                "state": "completed" if ended[i] else "scheduled",
                "time_discovered_started_ns": times,
                "time_discovered_completed_ns": times,
                "retired": ended[i],
                "timeout_ms": 600000,
                "is_p2p": is_message,
                "thread_id": "140159154290752",
                "thread_name": "python",
            }
        )
    config = {
        name: {
            "name": name,
            "desc": "default_pg" if name == "0" else "pipe",
            "ranks": str(members),
        }
        for name, members in groups.items()
        if rank in members
    }
    return {
        "version": "2.10",
        "pg_config": config,
        "comm_lib_version": "2.27.3",
        "pg_status": {},
        "entries": entries[-kept:],
    }


def write(
    folder: Path, ranks: list[Rank], groups: dict[str, list[int]], form: str = "pickle", kept: int = 2000
) -> None:
    """One file a rank, as a timeout leaves them."""
    ended = perform(ranks, groups)
    for r, rank in enumerate(ranks):
        if rank.dead == "no file":
            continue
        value = dump(r, rank, ended[r], groups, kept)
        raw = json.dumps(value).encode() if form == "json" else pickle.dumps(value, protocol=2)
        if rank.dead == "cut":
            raw = raw[: math.floor(len(raw) * 0.7)]
        (folder / f"nccl_trace_rank_{r}").write_bytes(raw)
