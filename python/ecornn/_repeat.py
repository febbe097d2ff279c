"""Runs on numpy arrays whose shape an earlier run had.

What such runs have in common was checked and packed once, so a call takes a few microseconds.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy

from . import _library as lib
from ._library import pack_io
from ._memory import address_of

if TYPE_CHECKING:
    from ._run import Job

_KEPT = 128  # shapes of a layer
# The fields of ecornn_io that differ between runs: size to final.
_CHANGING = struct.Struct("@NPPP4P4P")
_NONE, _IO_BYTES = (0,) * lib.MAX_STATES, pack_io.size
_REST = bytes(_IO_BYTES - _CHANGING.size)
# A result of _LEAST to _MOST bytes reuses the memory of an earlier result that the caller dropped:
# mapping fresh pages takes longer than a small run, and malloc reuses pages below _LEAST anyway.  A
# frozen layer keeps at most _SPARE bytes, one set of results for each shape; others keep none.
_LEAST, _MOST, _SPARE = 128 << 10, 1 << 20, 16 << 20  # bytes


def _taken(spare: deque) -> tuple[tuple[Any, ...], int]:
    """The spare blocks, which are now the caller's, and the most references to any of them."""
    try:
        blocks = spare.pop()
    except IndexError:
        return (), 0
    return blocks, max([sys.getrefcount(block) for block in blocks])


_ALONE = _taken(deque([((ctypes.c_char * 1)(),)]))[1]
_COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()  # without it counts of references are estimates


class Repeat:
    """Runs with x of one shape, perhaps with initial states, and with nothing else."""

    __slots__ = ("_infer", "_ask", "_dtype", "_shapes", "_states", "_pad", "_spare", "_blocks", "spare_bytes")

    def __init__(self, job: Job, room: int):
        layer = job.layer
        self._infer, self._ask, self._dtype = layer._plans.infer, job.ask, job.x.owner.dtype
        self._states = layer._state_shapes(job.batch)
        self._shapes = job.y_shape(), *self._states
        self._pad = _NONE[len(self._states):]
        bytes = [math.prod(shape) * self._dtype.itemsize for shape in self._shapes]
        kept = _COUNTS and _LEAST <= sum(bytes) <= min(_MOST, room)
        self.spare_bytes = sum(bytes) if kept else 0
        # A block has no shape, type or size that a caller could change, as .base of a result.
        self._blocks = [ctypes.c_char * size for size in bytes]
        self._spare: deque[tuple[Any, ...]] = deque(maxlen=1)

    @classmethod
    def keep(cls, job: Job) -> None:
        """Keeps a job's run of no further arguments, which has succeeded, for later ones."""
        repeats = job.layer._repeats
        if not job.is_plain or not isinstance(job.x.owner, numpy.ndarray) or job.x.shape in repeats:
            return
        with job.layer._lock:
            if len(repeats) >= _KEPT:
                repeats.clear()
            room = _SPARE - sum([each.spare_bytes for each in repeats.values()]) if job.layer._frozen else 0
            repeats[job.x.shape] = cls(job, room)

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
        """Arrays for y and final states."""
        if not self.spare_bytes:
            return tuple([numpy.empty(shape, self._dtype) for shape in self._shapes])
        blocks, references = _taken(self._spare)
        if references != _ALONE:
            blocks = tuple([kind() for kind in self._blocks])
        made = tuple([numpy.ndarray(shape, self._dtype, block)
                      for shape, block in zip(self._shapes, blocks)])
        self._spare.append(blocks)  # _taken counts the references of `made` to them
        return made

    def __call__(self, x: numpy.ndarray, initial: Any) -> tuple[Any, ...]:
        """y and final states."""
        made = self._results()
        start = _NONE if initial is None else (*map(address_of, initial), *self._pad)
        self._infer(self._ask, _CHANGING.pack(
            _IO_BYTES, 0, address_of(x), address_of(made[0]), *start, *map(address_of, made[1:]),
            *self._pad) + _REST)
        return made[0], made[1:]
