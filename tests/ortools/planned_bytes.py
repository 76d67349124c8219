"""Bytes of a case as a plan is laid out: they are used again only where the plan orders the uses.

One rank knows that an action of another has ended from messages alone: it takes one that was made by
that action, or behind it, or by an action that knew. Before each action of a rank two sets of values
need bytes of their own, by pairs:

- all that live on the rank and whose last use is not known to have ended, and the messages that this
  action takes;
- what the rank itself will use last, and every message for it that may have arrived: its maker does
  not know that this action has ended. (What another rank uses last is left out, but for the action's
  own: that rank may know of the use when it makes a message.)

These are less than all that a plan needs, so what keeps them may still not fit.
"""


class PlannedBytes:
    def __init__(self, model):
        self.model, self.cp = model, model.cp
        self.known = {}  # literals: an action has ended before another starts, and that rank knows
        self.takes = [[] for _ in range(model.case.ranks)]  # by rank: who takes a message, and its maker
        for maker, taker, _ in model.sent():
            if model.rank_of[maker.stage] != model.rank_of[taker.stage]:
                self.takes[model.rank_of[taker.stage]].append((taker, maker))

    def limit(self):
        for rank, most in enumerate(self.model.case.memory):
            for action in self.model.on(rank):
                self.limit_before(action, rank, most)

    def limit_before(self, action, rank, most):
        model, held = self.model, self.model.case.held
        own, all_lives, may_come = [], [], []  # size and literal
        for (s, m), f in model.forward.items():
            if model.rank_of[s] != rank:
                continue
            back, weight = model.back[s, m], model.weight.get((s, m))
            own.append((held["saved_for_I"][s], self.during([(f, back)], action)))
            uses = [(f, back)] if weight is None else [(f, back), (f, weight)]
            own.append((held["saved_for_W"][s], self.during(uses, action)))
            if weight is not None:
                own.append((held["stash"][s], self.during([(back, weight)], action)))
        for maker, taker, size in model.sent():
            if size == 0:
                continue
            made, taken = (model.rank_of[one.stage] == rank for one in (maker, taker))
            if made and taken:
                own.append((size, self.during([(maker, taker)], action)))
            elif made and maker is action:
                own.append((size, True))
            elif made:
                all_lives.append((size, self.both(model.before(maker, action), ~self.knows(taker, action))))
            elif taken and taker is action:
                own.append((size, True))
            elif taken:
                may_come.append((size, self.both(model.before(action, taker), ~self.knows(action, maker))))
        there = [] if action.there is True else [action.there]
        for values in (own + all_lives, own + may_come):
            self.cp.add(sum(size * literal for size, literal in values) <= most).only_enforce_if(there)

    def both(self, a, b):
        """A literal that is true if both are."""
        literal = self.cp.new_bool_var("")
        self.cp.add_bool_or([literal, ~a, ~b])
        return literal

    def during(self, uses, action):
        """A literal that is true if a value is there for the action: for one of these pairs it is not
        before the first, nor behind the last. A last use that is not there does not count."""
        literal = self.cp.new_bool_var("")
        for first, last in uses:
            since = [] if first is action else [~self.model.before(first, action)]
            until = [] if last is action else [~self.model.before(action, last)]
            there = [~one.there for one in (action, last) if one.there is not True]
            self.cp.add_bool_or([literal, *since, *until, *there])
        return literal

    def knows(self, x, y):
        """A literal that is true only if the rank of `y` knows at its start that `x` has ended."""
        model = self.model
        if model.rank_of[x.stage] == model.rank_of[y.stage]:
            return model.before(x, y)
        names = tuple((one.kind, one.stage, one.microbatch) for one in (x, y))
        if names in self.known:
            return self.known[names]
        literal = self.known[names] = self.cp.new_bool_var(f"known{names}")
        ways = []
        for taker, maker in self.takes[model.rank_of[y.stage]]:
            way = self.cp.new_bool_var("")
            if taker is not y:
                self.cp.add_implication(way, model.before(taker, y))
            if maker is not x:
                self.cp.add_implication(way, self.knows(x, maker))
            ways.append(way)
        self.cp.add_bool_or([~literal, *ways])
        return literal
