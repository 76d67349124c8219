"""Torch's pipeline runtime with an order of this package, or the loop of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import __version__
from ..arrays import KINDS
from ..costs import Costs
from ..errors import ScheduleError
from ..plan import Plan
from .agreement import Agreement, hash_of
from .loaded import Runtime
from .loop import Loop
from .planned import Performed, places_of, plan_of, ranks_of_pipes, without_pairs
from .used import FSDPModule, Stage, demand, form, schedules
from .whole_backward import whole_where_needed


def runtime(
    schedule: Performed,
    stages: Any,
    loss_fn: Callable[..., Any] | None = None,
    *,
    P: int | None = None,
    M: int | None = None,
    costs: Costs = None,
    by: str | None = None,
    update: Callable[[Any, int], Any] | None = None,
    **settings: Any,
) -> Any:
    """A runtime for training: torch's ``_PipelineScheduleRuntime``, loaded with this schedule.

    The schedule is proven first. Then its computations get sends and receives in an order in which
    no rank holds up another, without a deadlock on torch's communicators.

    Every rank of the group calls this, with its own stages. ``step(*args, target=…, losses=…)`` and
    ``eval(…)`` are those of torch's schedules; ``plan`` is the performed plan.

    Plans that torch's runtime cannot perform are performed by a loop of this package with the same
    interface (``stringline.torch.loop``): schedules of two pipes, a last stage whose microbatches
    are not in the order of their numbers, R (a forward done again, with the same random numbers),
    and several steps (``stringline.load("1f1b").plan(P, M, steps=3)``): the batch is then that of
    all steps, one behind the other, and each UPDATE calls ``update``.

    Stages may be frozen (``requires_grad_(False)``), in part or whole, but not all of them. Where
    torch cannot take a stage's backward apart into I and W, its I is the whole backward
    (``stringline.torch.whole_backward``).

    The ranks compare what they name before any message of a step: where the schedule, P, M, the
    order of actions or of messages differ, or one rank refuses its call, every rank raises.

    Args:
        schedule: the name of a library schedule, a path, a text, a ``Schedule``, a ``Plan``,
            torch's notation (a ``.csv``, or its text), or a schedule object of torch's. Only its
            computations count; messages and collectives are made anew.
        stages: the rank's ``PipelineStage`` objects, as in ``stages_of_rank``.
        loss_fn: of an output and a target; None for forwards only.
        P: ranks; the size of the stages' group by default.
        M: microbatches, if the schedule does not fix the number itself.
        costs: messages are placed for a step at these costs.
        by: ``"torch"`` or ``"loop"``; by default torch's runtime for plans that it can perform.
        update: for a plan with UPDATEs: called with a ``PipelineStage``, whose gradients of a step
            are complete, and the number of the step in the plan. It steps the optimizer of that
            stage; then the gradients are gone.
        settings: as of torch's schedules: ``scale_grads``, ``args_chunk_spec``,
            ``kwargs_chunk_spec``, ``output_merge_spec``.

    Raises:
        ScheduleError: the schedule is wrong, or ``by="torch"`` and torch cannot perform it.
        ValueError: the stages, the group, P or M are not those of the schedule, ``update`` is
            missing, or never called, or the ranks of the group disagree.
        NotImplementedError: this torch is too old, or its internals have changed.
    """
    given = _stages_of(stages)
    agreement = Agreement(given[0])

    def prepare(facts: dict[str, Any]) -> tuple[Plan, dict[int, Any], str | None]:
        demand()
        plan = _plan_for(given[0], schedule, P, M, facts)
        return _prepared(plan, given, facts, costs=costs, by=by, update=update, settings=settings)

    (plan, mine, text), every = agreement.of(prepare)
    if any(facts["shares"] for facts in every):
        text = None  # on the other ranks, too

    def make(facts: dict[str, Any]) -> Any:
        facts["the runtime"] = "the loop" if text is None else "torch's"
        facts["hash of the messages"] = hash_of(text or "")
        if text is None:
            return _looped(plan, mine, loss_fn, settings, update)
        return Runtime(plan, text, list(mine.values()), loss_fn, settings)

    made, _ = agreement.of(make)
    for stage in mine.values():
        whole_where_needed(stage)
    return made


def _plan_for(
    stage: Any, schedule: Performed, P: int | None, M: int | None, facts: dict[str, Any]
) -> Plan:
    """The plan for the ranks of the stage's group; ``facts`` tells what is known of it so far."""
    ranks = int(stage.group_size)
    facts["P"] = ranks if P is None else P
    if M is not None:
        facts["M"] = M
    if P is not None and P != ranks:
        raise ValueError(f"P: the group of the stages has {ranks} ranks, not {P}")
    plan = plan_of(schedule, ranks, M)
    facts["the schedule"] = plan.schedule
    facts["M"] = plan.microbatches // plan.steps
    facts["the number of steps"] = plan.steps
    facts["the number of versions of the weights"] = plan.versions
    facts["stringline's version"] = __version__
    lines = plan.text.splitlines()
    rows = [line for line in lines if line.startswith("rank ")]
    head = "\n".join(line for line in lines if not line.startswith("rank "))
    facts["hash of the plan's head"] = hash_of(head)
    for row in rows:
        facts[f"hash of what {row.partition(':')[0]} performs"] = hash_of(row)
    return plan


def _prepared(
    plan: Plan,
    given: list[Any],
    facts: dict[str, Any],
    *,
    costs: Costs,
    by: str | None,
    update: Callable[[Any, int], Any] | None,
    settings: dict[str, Any],
) -> tuple[Plan, dict[int, Any], str | None]:
    """The plan, the rank's stages by their number, and the actions for torch's runtime, unless the
    loop performs them; errors for what neither can."""
    if by not in (None, "torch", "loop"):
        raise ValueError(f'by: expected "torch" or "loop", got {by!r}')
    _refuse_unperformed(plan, update)
    mine = _by_number(plan, int(given[0].group_rank), given)
    facts["scale_grads"] = bool(settings.get("scale_grads", True))
    shared = _shared(mine)
    facts["shares"] = bool(shared)
    if shared and (plan.pipes or update is not None or by == "torch"):
        with_it = "torch's runtime" if by == "torch" else "two pipes" if plan.pipes else "updates"
        raise NotImplementedError(
            f"stages {' and '.join(map(str, shared))} of this rank share a parameter, whose "
            f"gradient {with_it} would scale or sum once for each of them"
        )
    text = None if by == "loop" else _for_torch(plan, costs, refused=by == "torch")
    return plan, mine, text


def _refuse_unperformed(plan: Plan, update: Callable[[Any, int], Any] | None) -> None:
    plan.check()
    if plan.forward_only:
        raise ValueError(
            f"schedule: {plan.schedule} is forward only, and torch's step has backwards"
        )
    if plan.window > 0:
        raise ValueError(
            f"schedule: {plan.schedule} has a window, and torch's step keeps the order of the lists"
        )
    if plan.slices > 1:
        raise ValueError(
            f"schedule: {plan.schedule} cuts microbatches into {plan.slices} slices, and a stage "
            "of torch takes whole ones"
        )
    if plan.edges or plan.skips:
        raise ValueError(
            f"schedule: the stages of {plan.schedule} are no chain, and torch's are one"
        )
    updates = any(KINDS[kind] == "UPDATE" for kind in plan.kind)
    if updates != (update is not None):
        raise ValueError(
            f"update: {plan.schedule} has {'' if updates else 'no '}updates (UPDATE)"
            f"{': give the function that performs one' if updates else ''}"
        )


def instead_of(
    made: Any,
    schedule: Performed,
    *,
    costs: Costs = None,
    by: str | None = None,
    update: Callable[[Any, int], Any] | None = None,
) -> Any:
    """``runtime`` for the stages, the loss, the microbatches and the settings of a schedule object
    of torch's, made by other code.

    Its stages have to be the stages of ``schedule`` on this rank (``stages_of_rank``).
    """
    stages = getattr(made, "_stages", None) or getattr(made, "_stage", None)
    if not isinstance(made, schedules._PipelineSchedule) or stages is None:
        raise ValueError(f"made: expected a schedule object of torch's, got {type(made).__name__}")
    settings = {name: getattr(made, f"_{name}") for name in _CHUNKS}
    settings["scale_grads"] = made.scale_grads
    if not getattr(made, "_backward_requires_autograd", True):
        settings["backward_requires_autograd"] = False
    microbatches = made._n_microbatches
    settings.update(M=microbatches, costs=costs, by=by, update=update)
    return runtime(schedule, stages, made._loss_fn, **settings)


_CHUNKS = ("args_chunk_spec", "kwargs_chunk_spec", "output_merge_spec")


def _stages_of(stages: Any) -> list[Any]:
    given = [stages] if isinstance(stages, Stage) else list(stages)
    if not given or not all(isinstance(stage, Stage) for stage in given):
        raise ValueError("stages: expected torch's PipelineStage objects, one at least")
    if any(stage.group is not given[0].group for stage in given):
        raise ValueError("stages: they are of several groups")
    return given


def _by_number(plan: Plan, rank: int, given: Sequence[Any]) -> dict[int, Any]:
    """The stages by their number in the plan; ValueError where they are not those of the rank."""
    for mapping in ranks_of_pipes(plan):
        idle = set(range(len(plan.first) - 1)) - set(mapping.values())
        if idle:
            raise ValueError(
                f"stages: rank {min(idle)} of {plan.schedule} has no stage"
                f"{' of one pipe' if plan.pipes else ''}; torch wants one on every rank"
            )
    places = places_of(plan, rank)
    wanted = [place.stage_index for place in places]
    indices = [int(stage.stage_index) for stage in given]
    if sorted(indices) != sorted(wanted):
        raise ValueError(
            f"stages: rank {rank} of {plan.schedule} performs {_named(wanted)}, but is given "
            f"{_named(indices)}"
        )
    for place, stage in zip(places, _in_order_of(wanted, given)):
        in_pipe = int((plan.pipe_of_stage == place.pipe).sum())
        if stage.num_stages != in_pipe:
            raise ValueError(
                f"stages: {plan.schedule} has {in_pipe} stages, but stage {stage.stage_index} is "
                f"given as one of {stage.num_stages}"
            )
    return {place.number: stage for place, stage in zip(places, _in_order_of(wanted, given))}


def _in_order_of(wanted: Sequence[int], given: Sequence[Any]) -> list[Any]:
    left = list(given)
    found = []
    for index in wanted:
        stage = next(one for one in left if one.stage_index == index)
        left.remove(stage)
        found.append(stage)
    return found


def _named(indices: Sequence[int]) -> str:
    return f"stage{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"


def _shared(mine: dict[int, Any]) -> list[int]:
    """The indices of the first stages found with a parameter in common; none, if none have."""
    owner: dict[int, Any] = {}
    for stage in mine.values():
        for parameter in stage.submod.parameters():
            if owner.setdefault(id(parameter), stage) is not stage:
                return [int(owner[id(parameter)].stage_index), int(stage.stage_index)]
    return []


def _for_torch(plan: Plan, costs: Costs, refused: bool) -> str | None:
    """The actions for torch's runtime; None for a plan that it cannot perform, or the error for
    such a plan.

    Torch performs the two actions of a pair in turn, so a pair without a form in its notation loses
    nothing.
    """
    try:
        return plan.to_torch_csv(form(), costs)
    except ScheduleError:
        try:
            return without_pairs(plan).to_torch_csv(form(), costs)
        except ScheduleError:
            if refused:
                raise
            return None


def _looped(
    plan: Plan,
    mine: dict[int, Any],
    loss_fn: Any,
    settings: dict[str, Any],
    update: Callable[[Any, int], Any] | None,
) -> Loop:
    if plan.versions > 1:
        raise NotImplementedError(
            f"{plan.schedule} holds {plan.versions} versions of the weights; autograd's forwards "
            "know the latest only, in torch's runtime and in this loop"
        )
    if plan.own_actions:
        names = ", ".join(plan.own_actions.values())
        raise NotImplementedError(
            f"{plan.schedule} has actions of its own ({names}); neither torch's runtime nor this "
            "loop performs those"
        )
    copies = [KINDS[kind] for kind in plan.kind if KINDS[kind] in "DU"]
    if copies:
        raise NotImplementedError(
            f"{plan.schedule} copies values to the host ({copies[0]}); neither torch's runtime nor "
            "this loop performs that"
        )
    for stage in mine.values():
        if any(isinstance(module, FSDPModule) for module in stage.submod.modules()):
            raise NotImplementedError(
                f"stage {stage.stage_index} is wrapped by FSDP, and torch's runtime cannot perform "
                f"{plan.schedule}; the loop that can does not gather parameters"
            )
    return Loop(plan, mine, loss_fn, settings, update)
