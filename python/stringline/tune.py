"""Choose mesh, microbatch, schedule and sharding for a model on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Union

import numpy as np

from ._calls import Path, call, fields, path_of, table_of
from .costs import Slow, request_of

File = Union[Path, Mapping[str, Any]]
"""A YAML file by its path, or its keys as a dict."""


def _file(name: str, source: File) -> dict[str, str]:
    if isinstance(source, Mapping):
        return {f"{name}_text": json.dumps(source)}  # JSON is YAML
    return {name: path_of(source)}


def _columns(choices: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for choice in choices:
        row = {key: value for key, value in choice.items() if key != "parts_us"}
        row |= {f"{part}_us": value for part, value in choice["parts_us"].items()}
        rows.append(row)
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def tune(
    model: File,
    cluster: File,
    *,
    global_batch: int = 1024,
    pin: str | Mapping[str, str | int] | None = None,
    seconds: float | None = None,
    evaluations: int | None = None,
    jitter: str | float | None = None,
    slow: Slow | None = None,
    top: int | None = None,
    emit: Path | None = None,
    svg: Path | None = None,
    html: Path | None = None,
    frame: bool | None = None,
) -> Any:
    """The best choices for a model on a cluster, as ``stringline tune`` finds them.

    ``tune("llama.yaml", {"hardware": "h100", "gpus": 64}, global_batch=256, pin={"tp": 8})``

    Args:
        model, cluster: MODEL.yaml and CLUSTER.yaml: paths, or their keys as dicts.
        global_batch: sequences of a step, over all copies.
        pin: what is given: ``{"tp": 4, "schedule": "zb_v"}`` or ``"tp=4,schedule=zb_v"``.
        seconds: how long to plan at most; 60 by default. Ctrl-C stops it.
        evaluations: instead of a time: so many simulations, the same answer on every machine.
        jitter: judge the best by the mean of drawn steps: ``"10%"`` or 0.1.
        slow: GPUs that compute more slowly: ``{3: "10%"}``.
        top: rows, each of another mesh; 12 by default.
        emit: write the best choice into this new folder.
        svg, html: write throughput over memory as a picture, and a page with it.
        frame: True for a pandas DataFrame, False for a dict of NumPy columns; by default a frame if
            pandas is installed.

    Returns:
        A row per mesh, the best first, with the keys of ``choices`` in the JSON of ``tune``; those
        of ``parts_us`` as ``compute_us``, ``bubble_us`` and so on. A frame's ``attrs`` have the
        other keys, ``bound_us`` among them.
    """
    request = request_of(None, slow=slow)
    request |= _file("model", model) | _file("cluster", cluster)
    if isinstance(pin, Mapping):
        pin = ",".join(f"{key}={value}" for key, value in pin.items())
    request |= fields(
        global_batch=global_batch,
        pin=pin,
        seconds=seconds,
        evaluations=evaluations,
        jitter=jitter if jitter is None or isinstance(jitter, str) else f"{jitter:g}",
        top=top,
        emit=emit,
        svg=svg,
        html=html,
        asked="stringline.tune(…)" if html is not None else None,
    )
    figures = call("tune", request).figures
    attrs = {key: value for key, value in figures.items() if key != "choices"}
    return table_of(_columns(figures["choices"]), frame, attrs)
