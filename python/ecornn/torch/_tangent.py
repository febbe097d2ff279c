"""Derivatives along a direction, and gradients of gradients, by the library's tangents.

Serves forward-mode differentiation and the backward of a backward, which ``torch.autograd.grad(...,
create_graph=True)`` requests.
"""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import torch

from .. import _library as lib
from .._library import check, library
from .._plan import Made, cell
from . import _run
from ._spec import NOWHERE, Spec
from ._stream import stream_of


@functools.lru_cache(maxsize=64)
def _plan(on: str, spec: Spec, steps: int, batch: int, kind: _run.Kind) -> Made:
    """A plan of tangents of the library."""
    drop, type = kind.drop, _run.TYPES[kind.dtype]
    return Made(on, lib.Desc(
        cell=cell(spec.drawing(drop)), input=spec.input, hidden=spec.hidden, layers=spec.layers,
        steps=steps, batch=batch, type=type, param_type=type,
        dropout=spec.dropout if drop and spec.layers > 1 else 0,
        flags=kind.flags | lib.TANGENT | lib.TRAINING | lib.BATCH_MAJOR * kind.batch_major
        | lib.BIDIRECTIONAL * (spec.directions == 2)))


class Result(NamedTuple):
    """The results; None for those not wanted."""

    y: torch.Tensor          # the tangents of y and of the final states
    final: list
    dx: torch.Tensor | None
    dstates: list
    dweights: list


def refuses(call, x) -> str | None:
    """Why the library's tangents do not support this call, or None."""
    spec = call.spec
    if spec.models is not None:
        return "of several models"
    if call.shows:
        return "with states of every step"
    if x.dtype is not call.dtype or call.result != (x.dtype,) * 3:
        return "with autocast: call the layer outside of it"
    if call.dtype not in (torch.float32, torch.float64):
        return f"of {call.dtype}"
    if spec.proj:
        return "with a projection"
    if spec.heads > 1:
        return "with heads"
    if not call.job.steps or not call.job.batch:
        return "of an empty run"
    if call.drop and spec.dropout > 0 and spec.layers > 1 and call.mask is not None:
        return "with dropout and a mask"
    if call.drop and spec.random and spec.layers > 1:
        return "with bernoulli() in more than one layer"
    try:
        _plan_of(call, x)
    except lib.BY_STATUS[5] as error:
        return f"({error})"
    return None


def _plan_of(call, x) -> Made:
    job = call.job
    return _plan(_run.device_name(x.device), call.spec, max(job.steps, 1), max(job.batch, 1),
                 job.kind)


# ---- parameters: the library's, in torch's tensors -----------------------------------------------


def _parameters(spec: Spec, tensors, keep: list):
    """Addresses of the library's parameters in flat weights, or in their tangents, with 0 for None.
    keep: receives what must live as long as they are used."""
    start = [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
    size = next((tensor.element_size() for tensor in tensors if tensor is not None), 0)
    sums, found = {}, []
    for (tensor, offset), (more, _) in zip(*spec.of_each):
        first = NOWHERE[0] if tensor < 0 or not start[tensor] else tensor
        second = NOWHERE[0] if more < 0 or not start[more] else more
        if first >= 0 and second >= 0:
            if (first, second) not in sums:
                sums[first, second] = tensors[first] + tensors[second]
                keep.append(sums[first, second])
            found.append(sums[first, second].data_ptr() + offset * size)
        else:  # equal gates of two biases have equal offsets
            one = max(first, second)
            found.append(start[one] + offset * size if one >= 0 else 0)
    return found


def _array(addresses):
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


def _gradients(spec: Spec, weights, wanted):
    """Tensors for the gradients of the flat weights, and the addresses in them."""
    found = [torch.empty_like(weight, memory_format=torch.contiguous_format)
             for weight in weights]
    size = weights[0].element_size()
    return found, [0 if tensor < 0 else found[tensor].data_ptr() + offset * size
                   for tensor, offset in spec.of_each[0]]


def _copy_twins(spec: Spec, found) -> None:
    """Copies the gradient of the first bias to the second."""
    for (tensor, offset), (twin, at), parameter in zip(*spec.of_each, spec.parameters):
        if twin >= 0:
            count = parameter.rows * parameter.cols
            found[twin].view(-1)[at:at + count] = found[tensor].view(-1)[offset:offset + count]


# ---- runs ---------------------------------------------------------------------------------------


def run(call, given, tangents, outputs=None, slopes=None, wanted=None) -> Result:
    """Tangents of y and the final states along tangents of x, each state, each reset state and each
    weight (None: zeros).  wanted: flags for the same to compute the gradient of <outputs, those
    tangents> + <slopes, y and the final states>.  All tensors are dense, x padded, in the run's
    type."""
    x, lengths, states, weights, _, starts, _ = given
    spec, job = call.spec, call.job
    on_gpu = not x.is_cpu
    back = wanted is not None
    outputs, slopes = outputs or [None], slopes or [None]
    plan = _plan_of(call, x)
    count, most = spec.states, spec.states + len(starts)
    weights = [_run.dense(weight) for weight in weights]
    zeros = x.new_zeros(spec.hidden) if NOWHERE in spec.of_each[0] else None
    keep: list = [zeros]
    params = [at or zeros.data_ptr() for at in _parameters(spec, weights, keep)]
    slope = _parameters(spec, tangents[1 + most:], keep)
    y, final = job.y(), [make() for make in job.final]
    dx = torch.empty_like(x) if back and wanted[0] else None
    dstates = [make() if back and want else None
               for make, want in zip(job.final * 2, wanted[1:1 + most] if back else [])]
    dweights, targets = None, None
    if back and any(wanted[1 + most:]):
        dweights, targets = _gradients(spec, weights, wanted[1 + most:])
    workspace = _run._scratch(plan.most.workspace_bytes, x.device if on_gpu else None, "tangent")
    arrays = [_array(params), _array(slope), None if targets is None else _array(targets)]
    places = [0 if array is None else ctypes.addressof(array) for array in arrays]
    along = _run.pack_io(x=tangents[0], y=y, initial=tangents[1:1 + count], final=final, params=places[1],
                         reset_state=tangents[1 + count:1 + most])
    io = _run.pack_io(lengths=lengths, x=x, initial=states, workspace=workspace, seed=call.seed,
                      stream=stream_of(job.index) if on_gpu else 0, workspace_bytes=workspace.numel(),
                      resets=call.resets, reset_state=starts, mask=call.mask, params=places[0],
                      tangent=lib.address_of(along))
    if back:
        dalong = _run.pack_gradient(outputs, [None])
        gradient = _run.pack_gradient(slopes, [dx, *dstates[:count]], dreset_state=dstates[count:],
                                      tangent=lib.address_of(dalong), dparams=places[2])
        check(library.ecornn_backward(plan.handle, job.steps, job.batch, io, gradient))
    else:
        check(library.ecornn_forward(plan.handle, job.steps, job.batch, io))
    found: list = [None] * len(weights)
    if dweights is not None:
        _copy_twins(spec, dweights)
        found = [gradient if want else None
                 for gradient, want in zip(dweights, wanted[1 + most:])]
    return Result(y, final, dx, dstates, found)
