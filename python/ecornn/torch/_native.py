"""Runs as torch operators written in C: the module ``ecornn-torch.so``, if it loads.

It needs torch 2.10 or later, and is searched for in the package and next to the library.  Without
it _run.py does the same in Python.  ``ECORNN_TORCH_MODULE`` is its path, or ``none``.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int64, c_void_p

import torch

from .. import _library as lib

_VERSION = 6  # version of the interface between Python and the module
# Bits of `given`, as in python/native/operator.h.
LENGTHS, PACKED, Y, DY, RESERVE, DX, DWEIGHTS, WEIGHTS = (1 << k for k in range(8))
STATE, DFINAL, DSTATE, TOGETHER = 1 << 8, 1 << 12, 1 << 16, 1 << 20


class Wish(lib.Sized):
    """struct job_wish: a plan, and a run of it."""

    _fields_ = [("size", ctypes.c_size_t), ("plan", c_void_p), ("desc", POINTER(lib.Desc)),
                ("cell", c_char_p)] + [
                    (name, c_int64) for name in ("bias", "cuda", "device", "steps", "batch")]


def _load():
    """The module with its operators registered; None if it or torch lacks something, but an ImportError if
    the environment names it."""
    try:
        module = lib.module("torch", _VERSION)
    except ImportError:
        if os.environ.get("ECORNN_TORCH_MODULE", "none") not in ("", "none"):
            raise
        return None
    module.ecornn_torch_job.restype = c_int64
    module.ecornn_torch_job.argtypes = [POINTER(Wish)]
    module.ecornn_torch_job_free.argtypes = [c_int64]
    module.ecornn_torch_job_free.restype = None
    return module


_module = _load()
pack = forward = backward = None
if _module is not None:
    pack, forward, backward = (getattr(torch.ops.ecornn_native, name).default._op
                               for name in ("pack", "forward", "backward"))


class Handle:
    """A job of the module: what runs of one shape share."""

    __slots__ = ("number", "plan")

    def __init__(self, wish: Wish, plan):
        self.plan = plan  # which the module uses
        self.number = _module.ecornn_torch_job(wish)

    def __del__(self):
        if self.number and _module is not None:
            _module.ecornn_torch_job_free(self.number)


def handle(spec, job) -> Handle | None:
    """The handle for runs of that job; None if the module does not support them."""
    if _module is None or not job.steps or not job.batch or spec.models is not None or (
            not spec.names):
        return None
    made = Handle(Wish(plan=job.plan.handle, desc=ctypes.pointer(job.plan.desc),
                       cell=spec.cell.encode(), bias=spec.bias, cuda=job.on_gpu,
                       device=job.index or 0, steps=job.steps, batch=job.batch), job.plan)
    return made if made.number else None
