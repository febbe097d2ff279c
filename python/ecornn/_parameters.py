"""The parameters of a layer: one block of host memory, accessed by name, and in the forms of other systems."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping

import numpy

from . import _library as lib
from ._errors import BadArgument
from ._library import check, library
from ._memory import address_of
from ._plan import Parameter, Plan


class Parameters(Mapping):
    """Arrays by parameter name, ``0.fwd.W.i``, each a view of one block; with several models they
    have [M] first.

    block: all of them, [count], in the order of ecornn_param.  An item may be written in place,
    ``p[name][...] = 0``, or assigned, which copies: ``p[name] = array``.
    """

    def __init__(self, block: numpy.ndarray, table: list[Parameter], lead: tuple[int, ...] = ()):
        self.block, self._table, self._lead = block, table, lead
        models = block.reshape(*lead, -1)
        # With models, the names and offsets of model 0 serve for all, after its prefix.
        self._views = {
            p.name.rpartition(":")[2]: models[..., p.offset:p.offset + p.rows * p.cols].reshape(
                *lead, *p.shape)
            for p in table[:len(table) // math.prod(lead)]
        }

    def __getitem__(self, name: str) -> numpy.ndarray:
        return self._views[name]

    def __setitem__(self, name: str, value) -> None:
        view, value = self._views[name], numpy.asarray(value)
        if value.shape not in ((), view.shape):
            raise BadArgument(f"{name} is given {list(value.shape)}, must be {list(view.shape)}")
        view[...] = value

    def __reduce__(self):
        # A copy must have views of its own block.
        return Parameters, (self.block, self._table, self._lead)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name} {list(view.shape)}" for name, view in self.items())
        return f"Parameters({inside})"


def size_in(plan: Plan, system: str) -> int:
    """Number of elements of the weights in another system."""
    if not isinstance(system, str):
        raise TypeError(f"system is {system!r}, must be torch, cudnn, keras or onnx")
    elements = ctypes.c_size_t()
    check(library.ecornn_import_size(plan.handle, system.encode("utf-8", "replace"),
                                     ctypes.byref(elements)))
    return elements.value


def convert(plan: Plan, system: str, block: numpy.ndarray, given: numpy.ndarray | None):
    """Converts another system's weights to the block, or, with given None, the block to that
    system's."""
    elements, name = size_in(plan, system), system.encode("utf-8", "replace")
    theirs = numpy.empty(elements, block.dtype) if given is None else given
    kind = lib.F64 if theirs.dtype == numpy.float64 else lib.F32
    if given is None:
        check(library.ecornn_export(plan.handle, name, address_of(block), address_of(theirs), kind,
                                    theirs.size))
    else:
        check(library.ecornn_import(plan.handle, name, address_of(theirs), kind, theirs.size,
                                    address_of(block)))
    return theirs
