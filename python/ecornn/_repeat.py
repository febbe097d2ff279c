"""Runs of a frozen layer on numpy arrays whose shape an earlier run had.

What such runs have in common was checked and packed once, so a call takes a few microseconds.
"""

from __future__ import annotations

import math
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy

from . import _library as lib
from ._library import check, library, pack_io
from ._memory import address_of, scratch

if TYPE_CHECKING:
    from ._run import Job

_KEPT = 128  # shapes of a layer
# The fields of ecornn_io that differ between runs: size to workspace.
_CHANGING = struct.Struct("@NPPP4P4PPP")
_NONE = (0,) * lib.MAX_STATES
_REUSED = 1 << 20  # bytes of results that are kept: fresh pages take longer than a small run


def _are_alone(arrays: tuple[numpy.ndarray, ...]) -> bool:
    """Has nobody but this tuple references to its arrays?"""
    return max([sys.getrefcount(array) for array in arrays]) == _ALONE


_ALONE = max([sys.getrefcount(array) for array in (numpy.empty(1),)])


class Repeat:
    """Runs with x of one shape, perhaps with initial states, and with nothing else."""

    __slots__ = ("_plan", "_size", "_weights", "_workspace", "_device", "_dtype", "_y", "_states",
                 "_pad", "_rest", "_spare")

    def __init__(self, job: Job):
        layer = job.layer
        self._plan, self._size, self._weights = job.plan, (job.steps, job.batch), job.weights
        self._workspace, self._device, self._dtype = job.workspace, layer.device, job.x.owner.dtype
        self._y, self._states = job.y_shape(), layer._state_shapes(job.batch)
        self._pad = _NONE[len(self._states):]
        bytes = self._dtype.itemsize * sum(map(math.prod, (self._y, *self._states)))
        # results of earlier calls, which each call takes away while it looks at them or fills them
        self._spare: list[tuple[numpy.ndarray, ...]] | None = [] if bytes <= _REUSED else None
        self._rest = pack_io(0, 0, 0, *_NONE, *_NONE, 0, 0, 0, 0, 0, job.workspace, 0)[_CHANGING.size:]

    @classmethod
    def keep(cls, job: Job) -> None:
        """Keeps a job's run of no further arguments, which has succeeded, for later ones."""
        if job.repeats is not None and job.lengths is None and job.weights is not None and (
                isinstance(job.x.owner, numpy.ndarray)):
            if len(job.repeats) >= _KEPT:
                job.repeats.clear()
            job.repeats[job.x.shape] = cls(job)

    def _is_like(self, array: Any, shape: tuple[int, ...]) -> bool:
        return type(array) is numpy.ndarray and array.shape == shape and self._takes(array)

    def _takes(self, array: numpy.ndarray) -> bool:
        flags = array.flags
        return array.dtype == self._dtype and flags.c_contiguous and flags.aligned

    def takes(self, x: numpy.ndarray, initial: Any) -> bool:
        """Do these arrays of an x of the run's shape need neither a copy nor a refusal?"""
        return self._takes(x) and (initial is None or (
            type(initial) is tuple and len(initial) == len(self._states)
            and all(map(self._is_like, initial, self._states))))

    def _results(self) -> tuple[numpy.ndarray, ...]:
        """y and final states: those of an earlier call, if its caller has dropped them."""
        if self._spare:
            try:
                kept = self._spare.pop()
            except IndexError:  # another thread took it
                kept = ()
            if kept and _are_alone(kept):
                return kept
        return tuple([numpy.empty(shape, self._dtype) for shape in (self._y, *self._states)])

    def __call__(self, x: numpy.ndarray, initial: Any) -> tuple[Any, ...]:
        """y and final states."""
        made = self._results()
        start = _NONE if initial is None else (*map(address_of, initial), *self._pad)
        space = scratch(self._device, self._workspace, 0, "workspace")
        io = _CHANGING.pack(lib.IO_BYTES, 0, address_of(x), address_of(made[0]), *start,
                            *map(address_of, made[1:]), *self._pad, self._weights.address,
                            space.address) + self._rest
        check(library.ecornn_forward(self._plan.handle, *self._size, io))
        if self._spare is not None:
            self._spare.append(made)
        return made[0], made[1:]
