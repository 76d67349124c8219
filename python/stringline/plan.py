"""Plans: each rank's actions, in order."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._calls import Path, call, fields, path_of, step_of, whole
from ._tool import options, run
from .answers import Comparison, Explanation, Proof, Report
from .arrays import array_of, ranks_of
from .costs import Costs, Memory, Slow, memory_in_words, memory_of, request_of
from .errors import ScheduleError
from .timeline import Timeline

# The part of a plan that ``print(plan)`` shows: ranks, and columns of each.
_SHOWN_RANKS = 4
_SHOWN_COLUMNS = 72


class Plan:
    """Each rank's actions, in order, for one P and M. A plan never changes.

    ``plan.actions`` and its columns are read-only NumPy arrays over the memory of the plan itself:
    an item per action, the actions of rank 0 first. ``print(plan)`` shows its beginning, and
    ``print(plan.text)`` all of it. Plans are equal if their texts are: the same name, parameters,
    stages and orders.
    """

    def __init__(self, step: _core.Step):
        self._step = step

    @functools.cached_property
    def _described(self) -> tuple[str, dict[str, Any]]:
        result = call("describe_plan", {}, self._step)
        return result.text, result.figures

    @property
    def schedule(self) -> str:
        """The name of the schedule."""
        return str(self._described[1]["schedule"])

    @property
    def parameters(self) -> dict[str, int]:
        """P, M, then the schedule's others."""
        return dict(self._described[1]["parameters"])

    @property
    def microbatches(self) -> int:
        """The number of microbatches, in all steps."""
        return int(self._described[1]["microbatches"])

    @property
    def slices(self) -> int:
        """The number of slices of each microbatch; one in most.

        With slices, ``microbatch`` counts them: slice k of microbatch m is ``m * slices + k``.
        """
        return int(self._described[1]["slices"])

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The edges between stages that are no chain, as (from, to); empty for a chain."""
        return [(int(a), int(b)) for a, b in self._described[1].get("edges", [])]

    @property
    def skips(self) -> list[tuple[int, int]]:
        """The stages that microbatches of a step leave out, as (stage, microbatch)."""
        return [(int(s), int(m)) for s, m in self._described[1].get("skips", [])]

    @property
    def forward_only(self) -> bool:
        """Whether the plan has no backwards."""
        return bool(self._described[1]["forward_only"])

    @property
    def window(self) -> int:
        """In ready order, the computations among which a rank chooses; 0: the order of the lists."""
        return int(self._described[1]["window"])

    @property
    def slack(self) -> int:
        """In ready order, the activations that a stage may hold beyond its list."""
        return int(self._described[1]["slack"])

    @property
    def steps(self) -> int:
        """The number of training steps in the plan; one in most."""
        return int(self._described[1]["steps"])

    @property
    def versions(self) -> int:
        """The number of versions of its weights that a stage holds; one in most."""
        return int(self._described[1]["versions"])

    @property
    def lowered(self) -> bool:
        """True if sends and receives are among the actions."""
        return bool(self._described[1]["lowered"])

    @property
    def pipes(self) -> tuple[str, ...]:
        """The names of the pipes of a bidirectional schedule; none of others."""
        return tuple(self._described[1]["pipes"])

    @property
    def ranks(self) -> list[list[str]]:
        """Each rank's actions, as text: ``[["0F0", "0F1&1B0", ...], ...]``."""
        return [list(rank) for rank in self._described[1]["ranks"]]

    @property
    def text(self) -> str:
        """The plan as a text for ``stringline.load``."""
        return self._described[0]

    @functools.cached_property
    def actions(self) -> npt.NDArray[np.void]:
        """All actions, with the fields ``kind``, ``joined``, ``stage`` and ``microbatch``.

        ``stringline.KINDS[kind]`` is the kind's name. A joined action shares the rank with the one
        before it. The microbatch counts in its pipe, and is -1 for a collective.
        """
        return array_of(self._step, "actions")

    @functools.cached_property
    def first(self) -> npt.NDArray[np.uint32]:
        """The actions of rank r are ``actions[first[r]:first[r + 1]]``."""
        return array_of(self._step, "action_first")

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        """The kind of every action: an index into ``stringline.KINDS``."""
        return self.actions["kind"]

    @property
    def own_actions(self) -> dict[str, str]:
        """The schedule's own actions: their names by their kinds in ``stringline.KINDS``."""
        rows = self._described[1].get("own_actions", [])
        return {row["kind"]: row["name"] for row in rows}

    @property
    def stage(self) -> npt.NDArray[np.int32]:
        """The stage of every action."""
        return self.actions["stage"]

    @property
    def microbatch(self) -> npt.NDArray[np.int32]:
        """The microbatch of every action, its ``slices`` counted."""
        return self.actions["microbatch"]

    @functools.cached_property
    def rank(self) -> npt.NDArray[np.int32]:
        """The rank of every action (computed once, from ``first``)."""
        return ranks_of(self.first)

    @property
    def rank_of_stage(self) -> npt.NDArray[np.int32]:
        """The rank of every stage."""
        return array_of(self._step, "stages")["rank"]

    @property
    def pipe_of_stage(self) -> npt.NDArray[np.int32]:
        """The pipe of every stage: an index into ``pipes``."""
        return array_of(self._step, "stages")["pipe"]

    def check(
        self,
        *,
        layout: str | None = None,
        buffers: int | None = None,
        lazy: bool = False,
        activations: int | None = None,
        memory: Memory | None = None,
        host_memory: Memory | None = None,
        costs: Costs = None,
        sharding: str | None = None,
        model: Path | None = None,
    ) -> Proof:
        """Proves that the plan is complete, uses no value too early, and comes to an end.

        Args:
            layout: the sharing of communicators among messages: ``"edge"`` (the default),
                ``"pair"``, ``"updown"`` or ``"shared"``.
            buffers: the number of messages that a channel buffers; 0 by default: a send waits.
            lazy: communicators connect at their first call.
            activations: most stage activations that a rank may hold.
            memory: most bytes that a rank may hold, as ``"80GB"``; a list is a limit for each rank,
                a dict has limits for some ranks. Needs costs with sizes.
            host_memory: the same of copies (D) on a rank's host.
            costs: the source of sizes (``memory.*``, or a model's shape).
            sharding: the state shared out among copies of the pipeline.
            model: a run file, as ``"run.yaml"``: sizes are those of its training. The command line
                counts them: a ``stringline`` must be on the path.

        Raises:
            ScheduleError: the plan is wrong; the message gives the reason and the place.
        """
        request = request_of(costs, sharding=sharding)
        request |= fields(layout=layout, buffers=buffers, lazy=lazy, activations=activations)
        if model is not None:
            if costs is not None:
                raise ValueError("model: goes without costs, which say sizes as well")
            request |= fields(memory=memory_in_words(memory), model=path_of(model))
            request |= fields(host_memory=memory_in_words(host_memory))
            return self._checked_by_tool(options(request))
        if host_memory is not None:
            request["host_memory"] = memory_of(host_memory)
        result = call("check", {"memory": memory_of(memory), **request}, self._step)
        return Proof(result.text, result.figures)

    def _checked_by_tool(self, words: list[str]) -> Proof:
        file = (f"{self.schedule}.plan", self.text)
        status, text = run("check(model=…)", "check", *words, file=file)
        figures = json.loads(run("check(model=…)", "check", *words, "--json", file=file)[1])
        if status != 0:
            raise ScheduleError(text, figures["findings"])
        figures.pop("findings")
        return Proof(text, figures)

    def simulate(
        self,
        costs: Costs = None,
        *,
        layout: str | None = None,
        messages: str | None = None,
        slow: Slow | None = None,
        work: str | None = None,
        mesh: str | None = None,
        sharding: str | None = None,
        bucket: str | None = None,
    ) -> Timeline:
        """The plan's timeline, in virtual time, at these costs (``stringline.Costs``).

        Args:
            costs: of F, B, I, W, messages and so on; a plain number is microseconds.
            layout: as for ``check``.
            messages: ``"early"`` (the default), or ``"as-written"``: messages in the plan's own
                order, as in torch's runtime.
            slow: ranks that compute more slowly: ``{3: "10%"}``; links whose messages take longer:
                ``{"3-4": "50%"}``.
            work: the unit of the costs: ``"stage"``, ``"rank"`` or ``"model"``.
            mesh, sharding, bucket: copies of the pipeline: ``"data=16,shard=8"``, ``"parameters"``,
                ``"25MiB"``.

        Raises:
            ScheduleError: the plan is wrong: every plan is checked first.
        """
        request = request_of(
            costs, slow=slow, work=work, mesh=mesh, sharding=sharding, bucket=bucket
        )
        request |= fields(layout=layout, messages=messages)
        return Timeline(step_of(call("simulate", request, self._step)))

    def report(self, costs: Costs = None, **how: Any) -> Report:
        """``simulate(costs, **how).report()``."""
        return self.simulate(costs, **how).report()

    def compare(self, other: Plan | Timeline, costs: Costs = None, **how: Any) -> Comparison:
        """This plan's step beside another plan's, both at these costs."""
        if isinstance(other, Plan):
            other = other.simulate(costs, **how)
        return self.simulate(costs, **how).compare(other)

    def explain(self, action: str, costs: Costs = None, **how: Any) -> Explanation:
        """Why an action (``"1I1"``) starts at its time at these costs."""
        return self.simulate(costs, **how).explain(action)

    def with_messages(self, *, layout: str | None = None) -> Plan:
        """The plan with the sends and receives implied by its actions."""
        result = call("lowered", fields(layout=layout), self._step)
        return Plan(step_of(result))

    def to_torch_csv(self, form: str = "compute", costs: Costs = None) -> str:
        """The plan in the notation of ``torch.distributed.pipelining``.

        Args:
            form: ``"compute"``: computations only, torch adds messages; ``"comms"``: with messages,
                collectives and waits, for torch 2.15 and later; ``"comms-2.14"``: without waits,
                for torch before that.
            costs: messages are placed for a step at these costs.

        Raises:
            ScheduleError: the plan is wrong, or has no form in torch's notation.
        """
        request = {"form": f"torch-{form}", **request_of(costs)}
        return call("torch_csv", request, self._step).text

    def __reduce__(self) -> tuple[Any, ...]:
        return _plan_of, (self.text, self.schedule)

    def __len__(self) -> int:
        """The number of actions."""
        return len(self.actions)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Plan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        lines = [f"plan {self._title()}"]
        for rank, words in enumerate(self.ranks[:_SHOWN_RANKS]):
            shown = " ".join(words)
            if len(shown) > _SHOWN_COLUMNS:
                shown = shown[: shown.rfind(" ", 0, _SHOWN_COLUMNS + 1)]
                shown += f" … {len(words) - len(shown.split()):,} more"
            lines.append(f"rank {rank}: {shown}")
        if len(self.ranks) > _SHOWN_RANKS:
            lines.append(f"… {len(self.ranks) - _SHOWN_RANKS:,} more ranks")
        lines.append("All actions: plan.text, plan.ranks, plan.actions; a picture: plan.simulate()")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Plan {self._title()}>"

    def _title(self) -> str:
        named = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        lowered = " lowered" if self.lowered else ""
        stages, ranks = len(self.rank_of_stage), len(self.first) - 1
        actions = f"{len(self):,} actions of {stages} stages on {ranks} ranks"
        return f"{self.schedule} {named}{lowered}: {actions}"

    def of(self, rank: int) -> npt.NDArray[np.void]:
        """The actions of a rank."""
        rank = whole("rank", rank)
        if not 0 <= rank < len(self.first) - 1:
            raise IndexError(f"there is no rank {rank}")
        return self.actions[self.first[rank] : self.first[rank + 1]]


def _plan_of(text: str, name: str) -> Plan:
    return Plan(step_of(call("plan", {"file": f"{name}.plan", "text": text})))
