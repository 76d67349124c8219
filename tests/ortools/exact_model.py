"""A small case as OR-Tools CP-SAT has it, posed from the rules that exact_test.py lists."""

import itertools
from dataclasses import dataclass

from ortools.sat.python import cp_model


@dataclass
class Action:
    kind: str  # F, G (a B or an I), W
    stage: int
    microbatch: int
    start: object
    end: object
    there: object  # a literal, or True


class Model:
    """The case as CP-SAT has it; `most`: only orders of at most this value."""

    def __init__(self, case, most=None):
        self.case, self.cp = case, cp_model.CpModel()
        self.rank_of = case.rank_of
        self.stages = range(len(self.rank_of))
        self.sizes = case.messages or [0] * len(self.rank_of)
        self.horizon = self.longest()
        self.literals = {}
        self.forward, self.back, self.weight, self.whole = {}, {}, {}, {}
        for place in itertools.product(self.stages, range(case.microbatches)):
            self.add_actions(*place)
        self.add_orders()
        self.arrivals = self.add_messages()
        self.add_needs()
        if case.activations >= 0:
            self.limit_activations()
        if case.memory:
            self.limit_bytes()
        self.value = self.add_value(self.horizon if most is None else most)

    def longest(self):
        """The sum of everything: no order of use takes longer."""
        case, sizes = self.case, self.sizes
        computed = sum(map(sum, case.times.values()))
        sent = 2 * sum(case.latency + size for size in sizes)
        return case.microbatches * (computed + sent)

    def time(self, name):
        return self.cp.new_int_var(0, self.horizon, name)

    def add_actions(self, s, m):
        cp, times = self.cp, self.case.times
        start = self.time(f"F{s},{m}")
        self.forward[s, m] = Action("F", s, m, start, start + times["F"][s], True)
        whole = self.whole[s, m] = cp.new_bool_var(f"whole{s},{m}")
        if "B" not in times:
            cp.add(whole == 0)
        if "I" not in times:
            cp.add(whole == 1)
        as_whole, alone = times.get("B", times.get("I"))[s], times.get("I", times.get("B"))[s]
        start, end = self.time(f"G{s},{m}"), self.time(f"end of G{s},{m}")
        cp.add(end == start + alone + (as_whole - alone) * whole)
        self.back[s, m] = Action("G", s, m, start, end, True)
        if "W" in times:
            start = self.time(f"W{s},{m}")
            self.weight[s, m] = Action("W", s, m, start, start + times["W"][s], ~whole)

    def on(self, rank):
        every = [*self.forward.values(), *self.back.values(), *self.weight.values()]
        return [action for action in every if self.rank_of[action.stage] == rank]

    def interval(self, begin, end, name, there=True):
        size = self.time(f"size {name}")
        if there is True:
            return self.cp.new_interval_var(begin, size, end, name)
        return self.cp.new_optional_interval_var(begin, size, end, there, name)

    def add_orders(self):
        """One action at a time on a rank, and microbatches in order."""
        for rank in range(self.case.ranks):
            self.cp.add_no_overlap(
                self.interval(a.start, a.end, f"{a.kind}{a.stage},{a.microbatch}", a.there) for a in self.on(rank)
            )
        for actions in (self.forward, self.back, self.weight):
            for (s, m), action in actions.items():
                for n in range(m):
                    earlier = actions[s, n]
                    both = [one.there for one in (earlier, action) if one.there is not True]
                    self.cp.add(earlier.end <= action.start).only_enforce_if(both)

    def before(self, a, b):
        """The literal that `a` is before `b`, on one rank."""
        names = tuple((x.kind, x.stage, x.microbatch) for x in (a, b))
        if names[::-1] in self.literals:
            return ~self.literals[names[::-1]]
        if names not in self.literals:
            literal = self.literals[names] = self.cp.new_bool_var(f"before{names}")
            both = [one.there for one in (a, b) if one.there is not True]
            self.cp.add(a.end <= b.start).only_enforce_if([*both, literal])
            self.cp.add(b.end <= a.start).only_enforce_if([*both, ~literal])
        return self.literals[names]

    def sent(self):
        """The messages between ranks: who makes each, who takes it, and its size."""
        last = self.stages[-1]
        for s, m in itertools.product(self.stages, range(self.case.microbatches)):
            if s < last:
                yield self.forward[s, m], self.forward[s + 1, m], self.sizes[s]
                yield self.back[s + 1, m], self.back[s, m], self.sizes[s]

    def add_messages(self):
        """The arrival of every message, by maker."""
        case, cp = self.case, self.cp
        arrivals, queues = {}, {}
        for maker, taker, size in self.sent():
            key = (maker.kind, maker.stage, maker.microbatch)
            ranks = self.rank_of[maker.stage], self.rank_of[taker.stage]
            if ranks[0] == ranks[1]:
                arrivals[key] = maker.end
                continue
            if not case.has_bandwidth:
                arrivals[key] = maker.end + case.latency
                continue
            begin = self.time(f"send{key}")
            cp.add(begin >= maker.end)
            arrivals[key] = begin + size + case.latency
            queues.setdefault(ranks, []).append((maker, begin, size))
        for queue in queues.values():
            for (a, a_begin, a_size), (b, b_begin, b_size) in itertools.combinations(queue, 2):
                literal = self.before(a, b)
                cp.add(a_begin + a_size <= b_begin).only_enforce_if(literal)
                cp.add(b_begin + b_size <= a_begin).only_enforce_if(~literal)
        return arrivals

    def add_needs(self):
        for maker, taker, _ in self.sent():
            self.cp.add(taker.start >= self.arrivals[maker.kind, maker.stage, maker.microbatch])
        for place, back in self.back.items():
            self.cp.add(back.start >= self.forward[place].end)
            if place in self.weight:
                self.cp.add(self.weight[place].start >= back.end).only_enforce_if(~self.whole[place])

    def last_end(self, s, m):
        """The end of its B or W."""
        back = self.back[s, m]
        if (s, m) not in self.weight:
            return back.end
        end = self.time(f"last{s},{m}")
        self.cp.add(end == back.end).only_enforce_if(self.whole[s, m])
        self.cp.add(end == self.weight[s, m].end).only_enforce_if(~self.whole[s, m])
        return end

    def limit_activations(self):
        for rank in range(self.case.ranks):
            held = [
                self.interval(f.start, self.last_end(*place), f"held{place}")
                for place, f in self.forward.items()
                if self.rank_of[place[0]] == rank
            ]
            self.cp.add_cumulative(held, [1] * len(held), self.case.activations)

    def limit_bytes(self):
        holds = [[] for _ in range(self.case.ranks)]  # by rank: interval and size

        def hold(stage, size, begin, end, there=True):
            if size > 0:
                mine = holds[self.rank_of[stage]]
                mine.append((self.interval(begin, end, f"held{stage},{len(mine)}", there), size))

        held = self.case.held
        for (s, m), f in self.forward.items():
            back = self.back[s, m]
            hold(s, held["saved_for_I"][s], f.start, back.end)
            hold(s, held["saved_for_W"][s], f.start, self.last_end(s, m))
            if (s, m) in self.weight:
                hold(s, held["stash"][s], back.start, self.weight[s, m].end, ~self.whole[s, m])
        for maker, taker, size in self.sent():
            hold(maker.stage, size, maker.start, taker.end)
            if self.rank_of[maker.stage] != self.rank_of[taker.stage]:
                hold(taker.stage, size, maker.end, taker.end)
        for mine, most in zip(holds, self.case.memory):
            self.cp.add_cumulative([one for one, _ in mine], [size for _, size in mine], most)

    def add_value(self, most):
        """The end of the last rank, or the longest time of a rank from its first start. The first
        action of rank r is the first F of stage r, which nothing delays."""
        case, cp = self.case, self.cp
        value = cp.new_int_var(0, max(most, 0), "value")
        begin = 0
        for rank in range(case.ranks):
            for action in self.on(rank):
                end = action.end - (begin if case.objective == "span" else 0)
                cp.add(value >= end).only_enforce_if([] if action.there is True else [action.there])
            begin += case.times["F"][rank] + case.latency + (self.sizes[rank] if case.has_bandwidth else 0)
        cp.minimize(value)
        return value

    def solve(self, seconds):
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self.cp)
        assert status != cp_model.MODEL_INVALID, self.cp.validate()
        return status, solver

    def words(self, solver):
        """The actions of every rank in order."""
        there = [[a for a in self.on(r) if a.there is True or solver.value(a.there)] for r in range(self.case.ranks)]
        return [sorted(actions, key=lambda a: solver.value(a.start)) for actions in there]

    def plan(self, solver):
        lines = [f"plan exact P={self.case.ranks} M={self.case.microbatches}"]
        lines.append("stages " + " ".join(map(str, self.rank_of)))
        for rank, actions in enumerate(self.words(solver)):
            printed = []
            for a in actions:
                kind = a.kind
                if kind == "G":
                    kind = "B" if solver.value(self.whole[a.stage, a.microbatch]) else "I"
                printed.append(f"{a.stage}{kind}{a.microbatch}")
            lines.append(f"rank {rank}: {' '.join(printed)}")
        return "\n".join(lines) + "\n"

    def exclude(self, solver, rank):
        """Takes out the orders of which the bytes of this rank are the same. Of other ranks W does not
        matter, nor which back is whole: messages alone tell what has ended there."""
        others = []
        for place, whole in self.whole.items():
            if self.rank_of[place[0]] == rank:
                others.append(~whole if solver.value(whole) else whole)
        for its, actions in enumerate(self.words(solver)):
            if its != rank:
                actions = [a for a in actions if a.kind != "W"]
            others += [~self.before(a, b) for a, b in itertools.pairwise(actions)]
        self.cp.add_bool_or(others)
