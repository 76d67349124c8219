"""Random small cases of `stringline search`: stages, costs and limits, each made of a seed and a number."""

import itertools
import math
import random
from dataclasses import dataclass, field

MOST_ACTIONS = 36  # of a case, so that CP-SAT proves its optimum in seconds
ITERATIONS = 20000  # of a search
UNIT = 64  # bytes of an aligned value; a link moves so many in a microsecond


@dataclass
class Case:
    number: int
    ranks: int
    microbatches: int
    place: str
    kinds: str
    objective: str
    times: dict  # of each kind: by stage, in microseconds
    latency: int = 0
    messages: list = field(default_factory=list)  # by stage that sends an activation: UNITs
    has_bandwidth: bool = False
    activations: int = -1
    held: dict = field(default_factory=dict)  # saved_for_I, saved_for_W, stash: by stage, UNITs
    memory: list = field(default_factory=list)  # by rank: UNITs

    @property
    def limit(self):
        return "bytes" if self.memory else "activations" if self.activations >= 0 else "none"

    @property
    def rank_of(self):
        return ranks_of(self.place, self.ranks)

    def costs(self):
        keys = {kind: printed(times) for kind, times in self.times.items()}
        keys["p2p"] = self.latency
        if self.messages:
            keys["message"] = printed([UNIT * size for size in self.messages])
        if self.has_bandwidth:
            keys["bandwidth"] = f"{UNIT}MB/s"
        keys.update({f"memory.{key}": printed([UNIT * size for size in sizes]) for key, sizes in self.held.items()})
        return ",".join(f"{key}={value}" for key, value in keys.items())

    def limits(self):
        if not self.memory:
            return []
        return ["--memory", ",".join(f"{UNIT * size}B" for size in self.memory)]

    def command(self):
        words = ["search", f"P={self.ranks}", f"M={self.microbatches}", "--place", self.place]
        words += ["--kinds", self.kinds, "--minimize", self.objective, "--cost", self.costs(), *self.limits()]
        if self.activations >= 0:
            words += ["--activations", str(self.activations)]
        return [*words, "--iterations", str(ITERATIONS)]


def printed(numbers):
    return str(numbers[0]) if len(set(numbers)) == 1 else f"[{','.join(map(str, numbers))}]"


def ranks_of(place, ranks):
    there = list(range(ranks))
    if place == "line":
        return there
    if place.startswith("loop"):
        return there * int(place.split()[1])
    turns = 2 if place == "v" else int(place.split()[1])
    return list(itertools.chain.from_iterable(there[::-1] if k % 2 else there for k in range(turns)))


def made_case(seed, number):
    """A case that depends on these two numbers alone."""
    chance = random.Random(f"{seed}/{number}")
    while True:
        place = chance.choice(["line", "line", "v", "loop 2", "wave 2", "wave 4"])
        kinds = chance.choice(["F,B", "F,I,W", "F,B,I,W"])
        ranks, microbatches = chance.choice([1, 2, 2, 3, 3, 3, 4, 4]), chance.choice([1, 2, 2, 3, 3, 3, 4, 4])
        stages = len(ranks_of(place, ranks))
        actions = stages * microbatches * (2 if kinds == "F,B" else 3)
        if MOST_ACTIONS // 4 <= actions <= MOST_ACTIONS:
            break
    case = Case(number, ranks, microbatches, place, kinds, chance.choice(["makespan"] * 4 + ["span"]), {})
    alike = chance.random() < 0.5
    most = chance.choice([1, 3, 9])

    def drawn(low, high):
        return [chance.randint(low, high)] * stages if alike else [chance.randint(low, high) for _ in range(stages)]

    for kind in kinds.split(","):
        case.times[kind] = drawn(1, most)
    if kinds == "F,B,I,W" and chance.random() < 0.5:
        case.times["B"] = [i + w for i, w in zip(case.times["I"], case.times["W"])]
    case.latency = chance.choice([0, 0, 1, chance.randint(1, 5)])
    if chance.random() < 0.4:
        case.has_bandwidth = True
        case.messages = drawn(1, 4)
    limit = chance.choice(["none", "activations", "bytes", "bytes"])
    if limit == "activations":
        here = stages // ranks
        case.activations = chance.randint(here, max(here, here * microbatches - 1))
    if limit == "bytes":
        if not case.messages and chance.random() < 0.5:
            case.messages = drawn(1, 4)
        case.held = {"saved_for_I": drawn(0, 4), "saved_for_W": drawn(1, 6), "stash": drawn(0, 4)}
        set_memory(case, chance)
    return case


def set_memory(case, chance):
    """Draws limits between what one microbatch needs, more or less, and what all of them do."""
    share = chance.random() ** 2
    for rank in range(case.ranks):
        one = beside = 0
        for stage, its in enumerate(case.rank_of):
            if its != rank:
                continue
            one += sum(case.held[key][stage] for key in case.held)
            beside += sum(case.messages[max(stage - 1, 0) : stage + 1])
        most = case.microbatches * (one + beside)
        case.memory.append(one + math.ceil(share * (most - one)))
    if chance.random() < 0.5:
        case.memory = [max(case.memory)] * case.ranks
