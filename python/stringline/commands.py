"""What the command line does beside the package: linting, training, measuring, diagnosing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Union

from ._calls import Path, fields, is_text, parameters, path_of
from ._tool import ask, options, written
from .answers import Answer
from .costs import Costs, request_of
from .plan import Plan
from .schedule import Schedule
from .torch_csv import named_text

Paths = Union[Path, Iterable[Path]]


class Lint(Answer):
    """What torch's runtime would make of a schedule (``lint``); times in microseconds."""

    @property
    def peak_activations(self) -> int:
        """The most stage activations held by any rank."""
        return int(self["peak_activations"])

    @property
    def layouts(self) -> dict[str, dict[str, float | None]]:
        """By the layout of communicators: ``makespan_us`` of the schedule's own order of messages,
        and ``export_order_us`` of the one that ``Plan.to_torch_csv`` gives."""
        return dict(self["layouts"])


class Diagnosis(Answer):
    """What is wrong in the dumps of a hang (``diagnose``)."""

    def __init__(self, text: str, figures: Mapping[str, Any]):
        super().__init__(text, figures)
        self.clean = bool(figures["ok"])
        """True if no rank is behind, and calls agree."""


class Trained(Answer):
    """What a training run did (``run``).

    Losses are nats per token, times of steps microseconds, ``elapsed_s`` seconds. Of a run with
    ``strict`` whose plan hangs there is only ``hang``, a text, and ``findings``.
    """

    @property
    def losses(self) -> list[float]:
        """The loss of every step, in nats per token; none of an evaluation."""
        return list(self.get("losses", []))

    @property
    def hang(self) -> str | None:
        """With ``strict``, what every rank of a plan that hangs waits for."""
        return self.get("hang")


class Benchmark(Answer):
    """Measured cases, or their comparison (``bench``); times in microseconds."""

    def __init__(self, text: str, figures: Mapping[str, Any]):
        super().__init__(text, figures)
        self.fast = bool(figures["ok"])
        """False if a comparison cannot say that no case is slower than ``fail_slower`` allows."""


def lint(
    schedule: object,
    costs: Costs = None,
    *,
    work: str | None = None,
    mesh: str | None = None,
    sharding: str | None = None,
    bucket: str | None = None,
) -> Lint:
    """Errors and slowness of a schedule of torch's, before any GPU runs it.

    Args:
        schedule: as for ``from_torch``: a ``.csv`` file, its text, or a schedule object of torch's.
        costs: of F, B, I, W, messages and so on; a plain number is microseconds.
        work, mesh, sharding, bucket: as for ``Plan.simulate``.

    Raises:
        ScheduleError: the notation is wrong, or torch's runtime would hang, or compute something
            else; each finding has its place.
    """
    name, text = named_text(schedule)
    request = request_of(
        costs, work=work, mesh=mesh, sharding=sharding, bucket=bucket
    )
    given = request.pop("costs", {})
    names = {}
    with ExitStack() as stack:
        if "text" in given:
            request["cost"] = given["text"]
        elif "file" in given:
            request["costs"] = given["file"]
        elif given:
            costs_text = given["yaml"] if "yaml" in given else json.dumps(given["table"])
            request["costs"] = stack.enter_context(written("costs.yaml", costs_text))
            names[request["costs"]] = "costs"
        path = stack.enter_context(written(f"{os.path.basename(name)}.csv", text))
        names[path] = f"{name}.csv"
        said = ask(["lint", path, *options(request)], text=True, names=names)
    return Lint(said.text, _without_findings(said.figures))


def diagnose(
    dumps: Paths,
    *,
    schedule: Schedule | Plan | Path | None = None,
    layout: str | None = None,
    ranks: int | None = None,
    **more: int,
) -> Diagnosis:
    """What is wrong in the dumps that torch's flight recorders left of a hang.

    Args:
        dumps: a folder with them, or files: pickles or JSON, the rank at the end of the name.
            Nothing in a pickle is executed.
        schedule: the schedule that the ranks performed, with its parameters in ``more``
            (``P=4, M=8``); its text, path or name, or a plan.
        layout: which messages outside of batches share a communicator: ``"shared"``, ``"updown"``,
            ``"pair"`` (the default, torch's with NCCL) or ``"edge"``.
        ranks: how many the job had, where the dumps do not say it (gloo).

    Raises:
        ValueError: a file is no dump; the message names the file.
    """
    request = fields(layout=layout, ranks=ranks)
    names = {}
    if is_text(schedule, "\n{"):
        schedule = Schedule(str(schedule))
    with ExitStack() as stack:
        if isinstance(schedule, (Plan, Schedule)):
            name = f"{schedule.schedule}.plan" if isinstance(schedule, Plan) else schedule.name
            path = stack.enter_context(written(os.path.basename(name), schedule.text))
            request["schedule"] = path
            names[path] = name
        elif schedule is not None:
            request["schedule"] = path_of(schedule)
        elif more:
            raise ValueError(f"{next(iter(more))}: is a parameter of schedule, which is not given")
        words = [f"{name}={value}" for name, value in parameters(more).items()]
        command = ["diagnose", *_existing(dumps), *words, *options(request)]
        said = ask(command, text=True, names=names)
    return Diagnosis(said.text, _without_findings(said.figures))


def run(
    file: Path,
    *,
    layout: str | None = None,
    again: bool = False,
    text: Path | None = None,
    out: Path | None = None,
    steps: int | None = None,
    save: Path | None = None,
    load: Path | None = None,
    resume: Path | None = None,
    evaluate: bool = False,
    restarts: int | None = None,
    mesh_data: int | None = None,
    link: str | None = None,
    strict: bool = False,
    processes: int | None = None,
    rank: int | None = None,
    ranks: int | None = None,
    local_rank: int | None = None,
    master: str | None = None,
    run_id: str | None = None,
) -> Trained:
    """Trains a model with a schedule, in a process of its own, and compares the last step with the
    simulation. Ctrl-C ends the run after the step that is under way, a second one at once.

    Args:
        file: a run file (YAML). Relative paths in it are relative to the working directory.
        layout: which messages share a communicator.
        again: search for the orders of search blocks anew.
        text: train or evaluate on this text file instead.
        out: a folder for the results; by default ``out/`` and the name of the file's folder.
        steps: train so many steps instead.
        save: at the end, write the model into this folder.
        load: begin with the parameters in this folder.
        resume: go on from this checkpoint, or the newest in this folder; ``"auto"``: in the run
            file's.
        evaluate: train nothing; the loss on the data of the run file's ``evaluate``.
        restarts: how often lost processes are started again from the last checkpoint.
        mesh_data: so many copies instead of the run file's ``mesh.data``.
        link: the speed of messages between ranks: ``"50us,2GB/s"``.
        strict: perform the order without mercy; a plan that hangs is told so (``Trained.hang``).
        processes: share the ranks out to so many processes of this host.
        rank, ranks, local_rank, master, run_id: of several processes that something else starts:
            this one's number, how many there are, its number on its host, ``"HOST:PORT"`` of
            process 0, and a word for this start. Only process 0 has an answer; others give an empty
            one.

    Raises:
        ScheduleError: the schedule is wrong.
        ValueError: the run file or an option is wrong, or a process was lost.
    """
    request = fields(
        layout=layout,
        again=again,
        text=_optional(text),
        out=_optional(out),
        steps=steps,
        save=_optional(save),
        load=_optional(load),
        resume=_optional(resume),
        evaluate=evaluate,
        restarts=restarts,
        mesh_data=mesh_data,
        link=link,
        strict=strict,
        processes=processes,
        rank=rank,
        ranks=ranks,
        local_rank=local_rank,
        master=master,
        run_id=run_id,
    )
    said = ask(["run", *_existing(file), *options(request)])
    figures = said.figures
    if "hang" in figures:
        return Trained(figures["hang"] + "\n", figures)
    return Trained(_training_in_words(figures), figures)


def bench(
    files: Paths,
    *,
    out: Path | None = None,
    list: bool = False,
    again: bool = False,
    page: Path | None = None,
    compare: bool = False,
    fail_slower: str | float | None = None,
) -> Benchmark:
    """Measures the cases of a suite, in processes of their own, or compares two results. After
    Ctrl-C the same call goes on where it was.

    Args:
        files: a suite (``.yaml``), results (``.json``), or, with ``compare``, two results, the
            older one first.
        out: the file of the results; by default in ``out/bench``.
        list: only say which cases there are, and why one cannot be run.
        again: measure all cases anew.
        page: also write the tables as a page (``.md``).
        compare: compare two results.
        fail_slower: with ``compare``, the largest slowdown that is not too much: ``"5%"`` or 0.05.

    Raises:
        ValueError: a file or an option is wrong.
    """
    request = fields(
        out=_optional(out), list=list, again=again, page=_optional(page), compare=compare
    )
    if fail_slower is not None:
        share = fail_slower if isinstance(fail_slower, str) else f"{100 * fail_slower:g}%"
        request["fail_slower"] = share
    paths = _existing(files)
    said = ask(["bench", *paths, *options(request)], text=list or compare)
    printed = said.text
    if not (list or compare):
        printed = ask(["bench", said.figures.get("file", paths[0])], text=True).text
    return Benchmark(printed, _without_findings(said.figures))


def _optional(path: Path | None) -> str | None:
    return None if path is None else path_of(path)


def _existing(paths: Paths) -> list[str]:
    """Paths of files and folders that are there.

    Raises:
        FileNotFoundError: one is not.
    """
    some = [paths] if isinstance(paths, (str, os.PathLike)) else [*paths]
    found = [path_of(path) for path in some]
    for path in found:
        os.stat(path)
    return found


def _without_findings(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in figures.items() if key != "findings" or value}


def _training_in_words(figures: Mapping[str, Any]) -> str:
    """A line or two on a run: the schedule, steps, losses."""
    if not figures.get("schedule"):
        return ""
    named = " ".join(f"{name}={value}" for name, value in figures["parameters"].items())
    lines = []
    if "steps" in figures:
        lines.append(
            f"{figures['steps']} steps in {figures['elapsed_s']:.3g} s, loss "
            f"{figures['first_loss_nats']:.4f} -> {figures['final_loss_nats']:.4f} nats per token"
        )
    for validation in figures.get("validations", []):
        lines.append(f"validation loss {validation['loss_nats']:.4f} nats per token")
    return f"{figures['schedule']} {named}: {'; '.join(lines)}\n"
