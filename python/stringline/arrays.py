"""Arrays of plans and timelines in C++'s own memory."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._calls import call


@functools.cache
def tables() -> dict[str, Any]:
    """Names, colours and layouts of items."""
    found: dict[str, Any] = call("tables", {}).figures
    return found


@functools.cache
def _item_type(name: str) -> np.dtype[Any]:
    layout = tables()["layouts"][name]
    names, formats, offsets = zip(*layout["fields"])
    if names == ("",):
        return np.dtype(str(formats[0]))
    fields: Any = {"names": names, "formats": formats, "offsets": offsets}
    fields["itemsize"] = layout["item_bytes"]
    found: np.dtype[Any] = np.dtype(fields)
    return found


def array_of(step: _core.Step, name: str) -> npt.NDArray[Any]:
    """A read-only array without a copy; the array keeps the step alive."""
    found = _core.array(step, name)
    if found is None:
        raise RuntimeError(f"the step has no {name}")
    if found.__array_interface__["shape"] == (0,):
        return read_only(np.empty(0, _item_type(name)))
    return np.asarray(found).view(_item_type(name))


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values.flags.writeable = False
    return values


def ranks_of(first: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The rank of every item, where those of rank r are items first[r] .. first[r + 1] - 1."""
    counts = first[1:] - first[:-1]
    return read_only(np.repeat(np.arange(len(counts), dtype=np.int32), counts))


KINDS: tuple[str, ...] = tuple(kind["name"] for kind in tables()["kinds"])
"""The names of the kinds of actions, by their number in arrays: ``KINDS[0] == "F"``."""
