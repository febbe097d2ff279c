"""Runs of the library on torch's tensors: forward and backward, without autograd.

Memory comes from torch's allocator, runs are queued on the current stream.
"""

from __future__ import annotations

import threading

import torch

from .. import _library as lib
from .._library import check, library, pack_gradient, pack_io
from .._plan import Plan, round_up
from . import _weights
from ._spec import Spec

TYPES = {torch.float32: lib.F32, torch.float64: lib.F64, torch.bfloat16: lib.BF16,
         torch.float16: lib.F16}
_NONE = (0, 0, 0, 0)
_local = threading.local()
_stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
_names: dict[object, str] = {}
_SCRATCH = 64 << 20  # bytes of workspace that a CPU's thread keeps


def device_name(device: torch.device) -> str:
    """The library's name of it: a CPU has as many threads as torch would take."""
    key = torch.get_num_threads() if device.type == "cpu" else device
    name = _names.get(key)
    if name is None:
        name = _names[key] = f"cpu:{key}" if device.type == "cpu" else f"cuda:{device.index}"
    return name


def _stream(device: torch.device) -> int:
    return 0 if device.type == "cpu" else _stream_of(device.index)


def plan_of(spec: Spec, x: torch.Tensor, params: torch.dtype, batch_major: bool, training: bool,
            drop: bool, flags: int) -> Plan:
    """The plan for x [T,N,I] or [N,T,I]."""
    steps, batch = x.shape[0], x.shape[1]
    if batch_major:
        steps, batch = batch, steps
    steps, batch = max(steps, 1), max(batch, 1)  # an empty run takes any plan
    if x.device.type != "cpu":
        # On a GPU the choice of algorithm takes longer than a run of a few steps.
        steps = round_up(steps)
    plans = spec.plans(batch_major, drop, flags)
    return plans.get(device_name(x.device), steps, batch, TYPES[x.dtype], TYPES[params], training)


def _workspace(plan: Plan, device: torch.device) -> torch.Tensor:
    """[bytes]; on a CPU the thread's own, so that its pages are there already."""
    if device.type != "cpu" or plan.workspace > _SCRATCH:
        return torch.empty(plan.workspace, dtype=torch.uint8, device=device)
    kept = getattr(_local, "workspace", None)
    if kept is None or kept.numel() < plan.workspace:
        kept = _local.workspace = torch.empty(plan.workspace, dtype=torch.uint8)
    return kept


def forward(spec: Spec, plan: Plan, x, lengths, states, weights, batch_major: bool, keep: bool,
            seed: int, fresh: bool):
    """y, final states, reserve (None unless keep) and packed weights.

    x: [T,N,I] or [N,T,I], dense.  lengths: [N] int32 on x's device, or None.  states: a tensor
    [L*D,N,*] each, dense, or None.  fresh: gradients are wanted, so on a GPU weights are packed.
    """
    device = x.device
    steps, batch = x.shape[0], x.shape[1]
    if batch_major:
        steps, batch = batch, steps
    first = x.shape[:2]
    y = x.new_empty((*first, spec.out))
    final = [x.new_empty((spec.pairs, batch, width)) for width in spec.widths]
    stream = _stream(device)
    on_gpu = device.type != "cpu"
    packed = None
    if steps and batch:
        kept = not on_gpu or not (fresh or _capturing())
        packed = _weights.packed(spec, plan, weights, stream, kept)
    reserve = torch.empty(plan.reserve, dtype=torch.uint8, device=device) if keep else None
    workspace = _workspace(plan, device)
    pad = _NONE[spec.states:]
    io = pack_io(
        steps, batch, 0 if lengths is None else lengths.data_ptr(), x.data_ptr(), y.data_ptr(),
        *[0 if state is None else state.data_ptr() for state in states], *pad,
        *[state.data_ptr() for state in final], *pad,
        0 if packed is None else packed.data_ptr(), workspace.data_ptr(),
        0 if reserve is None else reserve.data_ptr(), seed, stream, workspace.numel(),
        0 if reserve is None else reserve.numel())
    check(library.ecornn_forward(plan.handle, io))
    return y, final, reserve, packed


def backward(spec: Spec, plan: Plan, x, y, lengths, states, weights, reserve, packed,
             batch_major: bool, seed: int, dy, dfinal, wanted):
    """dx, dstates and dweights of one forward; None where not wanted.

    dy, dfinal: as y and the final states, dense, or None.  wanted: for x, each state and each
    weight in turn.
    """
    device = x.device
    steps, batch = x.shape[0], x.shape[1]
    if batch_major:
        steps, batch = batch, steps
    count = spec.states
    stream = _stream(device)
    dx = torch.empty_like(x) if wanted[0] else None
    dstates = [x.new_empty((spec.pairs, batch, width)) if want else None
               for want, width in zip(wanted[1:], spec.widths)]
    want_weights = wanted[1 + count:]
    some = any(want_weights)
    dweights = torch.empty(plan.dweights, dtype=torch.uint8, device=device) if some else None
    workspace = _workspace(plan, device)
    pad = _NONE[count:]
    io = pack_io(
        steps, batch, 0 if lengths is None else lengths.data_ptr(), x.data_ptr(),
        0 if y is None else y.data_ptr(),
        *[0 if state is None else state.data_ptr() for state in states], *pad, *_NONE,
        0 if packed is None else packed.data_ptr(), workspace.data_ptr(), reserve.data_ptr(), seed,
        stream, workspace.numel(), reserve.numel())
    gradient = pack_gradient(
        0 if dy is None else dy.data_ptr(),
        *[0 if d is None else d.data_ptr() for d in dfinal], *pad,
        0 if dx is None else dx.data_ptr(),
        *[0 if d is None else d.data_ptr() for d in dstates], *pad,
        0 if dweights is None or not plan.dweights else dweights.data_ptr(), 0)
    check(library.ecornn_backward(plan.handle, io, gradient))
    found = [None] * len(weights)
    if some:
        if steps and batch:
            found = _weights.gradients(spec, plan, dweights, weights, want_weights, stream)
        else:
            found = [torch.zeros_like(weight) if want else None
                     for weight, want in zip(weights, want_weights)]
    return dx, dstates, found
