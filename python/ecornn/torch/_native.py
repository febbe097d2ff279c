"""Runs as torch operators written in C: the module ``ecornn-torch.so``, if it loads.

It needs torch 2.10 or later, and is searched for in the package and next to the library.  Without
it _run.py does the same in Python.  ``ECORNN_TORCH_MODULE`` is its path, or ``none``.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct

import torch

from .. import _library as lib

_VERSION = 4  # version of the interface between Python and the module
# Bits of `given`, as in python/native/operator.h.
LENGTHS, PACKED, Y, DY, RESERVE, DX, DWEIGHTS, WEIGHTS = (1 << k for k in range(8))
STATE, DFINAL, DSTATE = 1 << 8, 1 << 12, 1 << 16
_FUNCTIONS = ("ecornn_forward", "ecornn_backward", "ecornn_pack", "ecornn_unpack")


def _load():
    """The module with its operators registered; None if it or torch lacks something."""
    module, asked = lib.module("torch"), os.environ.get("ECORNN_TORCH_MODULE") or "none"
    if module is None or module.ecornn_torch_open(_VERSION, lib.addresses(_FUNCTIONS)):
        if asked != "none":
            raise ImportError(f"ECORNN_TORCH_MODULE: {asked} is no ecornn-torch.so of this version, or "
                              "lacks a library")
        return None
    module.ecornn_torch_job.restype = ctypes.c_int64
    module.ecornn_torch_job.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    module.ecornn_torch_job_free.argtypes = [ctypes.c_int64]
    module.ecornn_torch_job_free.restype = None
    return module


_module = _load()
pack = forward = backward = None
if _module is not None:
    pack, forward, backward = (getattr(torch.ops.ecornn_native, name).default._op
                               for name in ("pack", "forward", "backward"))


class Handle:
    """A job of the module: what runs of one shape share."""

    __slots__ = ("number", "zeros", "keeps")

    def __init__(self, numbers: bytes, keeps):
        self.keeps = keeps  # the memory that the numbers point to
        self.number = _module.ecornn_torch_job(numbers, len(numbers) // 8)

    def __del__(self):
        if self.number and _module is not None:
            _module.ecornn_torch_job_free(self.number)


def _shape(sizes) -> list[int]:
    return [len(sizes), *sizes]


def _packed(numbers) -> bytes:
    return struct.pack(f"@{len(numbers)}q", *numbers)


class _Weights:
    """What all jobs of a stack of layers on one device have in common about weights; size: bytes of
    an element."""

    def __init__(self, spec, device, size: int):
        shapes = [shape for pair in range(spec.pairs)
                  for shape in spec.shapes(pair // spec.directions)]
        self.count, self.params = len(shapes), len(spec.places)
        self.zeros = torch.zeros(spec.hidden * size, dtype=torch.uint8, device=device)
        numbers = list(itertools.chain.from_iterable(map(_shape, shapes)))
        for which in (spec.places, spec.added, spec.targets, spec.twins):
            for tensor, offset in which:
                numbers += tensor, offset * size
        self.numbers = _packed(numbers)


def handle(spec, job, device, type: int, param_type: int, size: int, x, y,
           states) -> Handle | None:
    """The handle for runs of that job; None if the module does not support them.

    x, y, states: their shapes.  type, param_type: the library's numbers.  size: bytes of an element
    of the parameters.
    """
    if _module is None or not job.steps or not job.batch or spec.models is not None:
        return None
    weights = spec.native.get((device, size))
    if weights is None:
        weights = spec.native.setdefault((device, size), _Weights(spec, device, size))
    if not weights.count:
        return None
    plan, cuda = job.plan, device.type == "cuda"
    numbers = [plan.handle, job.reserve, job.workspace, plan.weights, plan.dweights, int(cuda),
               device.index if cuda else 0, type, param_type, job.steps, job.batch, spec.states,
               weights.count, weights.params, weights.zeros.data_ptr(), *_shape(x), *_shape(y)]
    for shape in states:
        numbers += _shape(shape)
    made = Handle(_packed(numbers) + weights.numbers, (plan, weights.zeros))
    return made if made.number else None
