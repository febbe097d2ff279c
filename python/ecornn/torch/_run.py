"""Runs of the library on torch tensors: forward and backward, without autograd.

Memory comes from torch's allocator, and runs are queued on the current stream.
"""

from __future__ import annotations

import functools
import math
import threading
from typing import NamedTuple

import torch

from .. import _library as lib
from .._library import check, library, packers
from .._locks import make_lock
from . import _kept, _native, _weights
from ._spec import Spec
from ._weights import dense
from ._stream import capturing, stream_of

TYPES = {torch.float32: lib.F32, torch.float64: lib.F64, torch.bfloat16: lib.BF16,
         torch.float16: lib.F16}
pack_io, pack_gradient = packers(torch.Tensor.data_ptr)
_local = threading.local()
_lock = make_lock()
_SMALL = 4096  # elements; a job keeps one tensor of smaller results
_JOBS = 256    # jobs that a stack of layers keeps
_SCRATCH = 64 << 20  # bytes of each scratch that a CPU thread keeps


def device_name(device: torch.device) -> str:
    """The library's name of a device; a CPU has as many threads as torch would use."""
    return f"cpu:{torch.get_num_threads()}" if device.type == "cpu" else f"cuda:{device.index}"


class Kind(NamedTuple):
    """What runs of a stack differ in but for device, T and N; flags: of the plan."""

    dtype: torch.dtype  # of rows and states
    params: torch.dtype
    batch_major: bool
    training: bool
    drop: bool
    flags: int
    apart: bool = False  # no two gradients of weights share memory


class Given(NamedTuple):
    """The tensors that a run reads, dense unless the run goes another way.

    x: [T,N,I] or [N,T,I].  lengths: [N] int32 on x's device.  states: a tensor [L*D,N,*] each, or
    None; starts: reset states, shaped as states.  resets, mask: [T,N] bytes on x's device.  With
    several models all have [M] first, except x, lengths, resets and mask if they are shared.
    """

    x: torch.Tensor
    lengths: torch.Tensor | None
    states: list
    weights: list
    resets: torch.Tensor | None = None
    starts: list | tuple = ()
    mask: torch.Tensor | None = None


def expect(name: str, tensor, shape, dtype: torch.dtype, device: torch.device) -> None:
    """Refuses a tensor that the library would misread; None is accepted."""
    if tensor is not None and (tuple(tensor.shape), tensor.dtype, tensor.device) != (
            tuple(shape), dtype, device):
        raise RuntimeError(f"{name} is {list(tensor.shape)}, {tensor.dtype} on {tensor.device}, "
                           f"must be {list(shape)}, {dtype} on {device}")


class Job:
    """What all runs of one shape share: the plan, and the shapes of results."""

    __slots__ = ("spec", "kind", "plan", "steps", "batch", "workspace", "reserve", "y", "final",
                 "on_gpu", "reads_y", "shows", "device", "index", "native", "handle")

    def __init__(self, spec: Spec, x, first, kind: Kind):
        dtype, params, batch_major, training, drop, flags = kind[:6]
        steps, batch = (first[1], first[0]) if batch_major else first
        self.spec, self.kind, self.shows = spec, kind, bool(flags & lib.ALL_STATES)
        self.on_gpu, self.device, self.index = not x.is_cpu, x.device, x.device.index
        self.reads_y = self.on_gpu or spec.replays  # backward does
        self.plan = spec.plans[bool(drop)].get(
            device_name(x.device), (max(steps, 1), max(batch, 1)), (TYPES[dtype], TYPES[params]), training,
            flags | lib.BATCH_MAJOR * batch_major)
        if spec.matrix and dtype in (torch.bfloat16, torch.float16):  # states are F32, those here x's
            raise ValueError(f"x is {dtype}, must be float32 or float64: the cell has a matrix state")
        self.steps, self.batch = steps, batch
        self.workspace, self.reserve = self.plan.sizes(steps, batch)
        shapes = [(*spec.lead, *first, spec.out), *spec.state_shapes(batch)]
        makers = [_maker(shape, dtype, x.device) for shape in shapes]
        self.y, self.final = makers[0], makers[1:]
        self.handle = _native.handle(spec, self)
        self.native = self.handle.number if self.handle else 0


def _maker(shape, dtype: torch.dtype, device):
    """A function that makes tensors of that shape.  Small ones are made like a kept one, which
    takes two thirds of the time."""
    if math.prod(shape) <= _SMALL:
        with torch.inference_mode(False):
            return functools.partial(torch.empty_like, torch.empty(
                shape, dtype=dtype, device=device))
    return functools.partial(torch.empty, shape, dtype=dtype, device=device)


def job_of(spec: Spec, x, first, kind: Kind) -> Job:
    """The job for runs of that kind, on x's device, with [T,N] or [N,T] = first."""
    key = first, kind, torch.get_num_threads() if x.is_cpu else x.device
    job = spec.jobs.get(key)
    if job is None:
        job = Job(spec, x, first, kind)
        with _lock:
            if len(spec.jobs) >= _JOBS:
                del spec.jobs[next(iter(spec.jobs))]
            spec.jobs[key] = job
    return job


def _scratch(bytes: int, device, name: str) -> torch.Tensor:
    """[bytes] for one call; device None: the CPU thread's own, whose pages are mapped already."""
    if device is not None or bytes > _SCRATCH:
        return torch.empty(bytes, dtype=torch.uint8, device=device or "cpu")
    kept = _local.__dict__.get(name)
    if kept is None or kept.numel() < bytes:
        with torch.inference_mode(False):
            kept = _local.__dict__[name] = torch.empty(bytes, dtype=torch.uint8,
                                                       device="cpu")
    return kept


def forward(job: Job, given: Given, keep: bool, seed: int, cached: bool):
    """y, final states, reserve (None unless keep) and packed weights; with ALL_STATES the states of
    every step follow the final states.  cached: packed weights may be kept for other runs."""
    x, lengths, states, weights, resets, starts, mask = given
    plan, stream, device = job.plan, 0, None
    if job.on_gpu:
        device, stream = x.device, stream_of(job.index)
        if capturing():  # a graph packs the parameters' values at the time of replay
            cached, weights = False, getattr(weights, "of", weights)
            given = x, lengths, states, weights, resets, starts, mask
    runs = job.steps > 0 and job.batch > 0
    lent = keep and not job.on_gpu and job.reserve >= _kept.LARGE
    natively = job.native and resets is None and mask is None and not job.shows and not lent
    packed = _kept.peek(plan, weights, stream) if natively and cached else None
    if packed is not None:
        made = _forward_native(job, given, keep, seed, packed, type(weights) is not _kept.Frozen)
        if made is not None:
            return made
    packed = None  # an outdated one, whose memory can be lent again
    if runs and cached:
        packed = _kept.packed(job, weights, stream, True)
    if natively:
        made = _forward_native(job, given, keep, seed, packed, False)
        if made is not None:
            return made
    x, states, starts = dense(x), [dense(s) for s in states], [dense(s) for s in starts]
    y, final = job.y(), [make() for make in job.final]
    spec = job.spec
    shown = [torch.empty((*spec.lead, spec.pairs, job.steps, job.batch, width), dtype=y.dtype,
                         device=y.device) for width in spec.widths if job.shows]
    if packed is None and runs:
        packed = _kept.packed(job, weights, stream, False)
    reserve = None
    if keep:
        reserve = (torch.empty(job.reserve, dtype=torch.uint8, device=device) if job.on_gpu else
                   _kept.lend(weights, job.reserve))
    workspace = _scratch(job.workspace, device, "workspace")
    io = pack_io(lengths=lengths, x=x, y=y, initial=states, final=final, weights=packed, workspace=workspace,
                 workspace_bytes=workspace.numel(), reserve=reserve, reserve_bytes=job.reserve if keep else 0,
                 seed=seed, stream=stream, resets=resets, reset_state=starts, mask=mask, states=shown)
    check(library.ecornn_forward(plan.handle, job.steps, job.batch, io))
    return y, final + shown, reserve, packed


def _add(tensors: list, bit: int, some) -> int:
    """Adds those that are there; returns their bits, from that one on."""
    bits = 0
    for tensor in some:
        if tensor is not None:
            bits |= bit
            tensors.append(tensor)
        bit += bit
    return bits


def _forward_native(job: Job, given: Given, keep: bool, seed: int, packed, compare: bool):
    """forward by the C operator; None if it does not support the run.  compare: the packed weights
    may belong to other weights, and must then not be used."""
    x, lengths, states, weights, _, _, _ = given
    bits, tensors = _native.RESERVE if keep else 0, [x]
    if lengths is not None:
        bits |= _native.LENGTHS
        tensors.append(lengths)
    bit = _native.STATE
    for state in states:  # as _add, whose call would take as long
        if state is not None:
            bits |= bit
            tensors.append(state)
        bit += bit
    if packed is not None:
        bits |= _native.PACKED
        tensors.append(packed)
    if packed is None or compare:
        bits |= _native.WEIGHTS
        tensors += weights
    made = _native.forward(job.native, bits, tensors, seed)
    if not made:
        return None
    if packed is None:
        packed = made.pop()
    return made[0], made[1:1 + len(states)], made[-1] if keep else None, packed


def _backward_native(job: Job, given: Given, kept, seed: int, outputs, wanted):
    """backward by the C operator; None if it does not support the run."""
    x, lengths, states, weights, _, _, _ = given
    y, reserve, packed = kept
    tensors, count = [x, reserve, packed], len(states)
    of_weights = wanted[1 + count:]
    bits = (_native.PACKED | _add(tensors, _native.Y, (y,))
            | _add(tensors, _native.LENGTHS, (lengths,)) | _add(tensors, _native.STATE, states)
            | _add(tensors, _native.DY, outputs[:1]) | _add(tensors, _native.DFINAL, outputs[1:])
            | _native.DX * wanted[0] | _native.DWEIGHTS * any(of_weights)
            | _native.TOGETHER * (not job.kind.apart))
    bit = _native.DSTATE
    for want in wanted[1:1 + count]:
        if want:
            bits |= bit
        bit += bit
    # Gradients of 16-bit weights are summed in F32, so no gradient can be a part of the block.
    if (job.plan.dweights >= _kept.LARGE and not (job.on_gpu or job.kind.apart) and any(of_weights)
            and weights[0].element_size() > 2):
        tensors.append(_kept.lend_gradients(weights, job.plan.dweights))
    made = _native.backward(job.native, bits, tensors, seed)
    if not made:
        return None
    found = iter(made)
    dx = next(found) if wanted[0] else None
    dstates = [next(found) if want else None for want in wanted[1:1 + count]]
    # If any gradient of a weight is wanted, all are there.
    return dx, dstates, [one if want else None for one, want in zip(list(found) or weights, of_weights)]


def backward(job: Job, given: Given, kept, seed: int, outputs, wanted):
    """dx, dstates (then those of reset states) and dweights of one forward; None for gradients that
    are not wanted.

    kept: y, its reserve and packed weights.  outputs: the gradients of y, the final states, and
    those of every step, dense, or None each.  wanted: a flag for x, each state, each reset state and
    each weight.
    """
    (x, lengths, states, weights, resets, starts, mask), (y, reserve, packed) = given, kept
    plan, spec, stream, device = job.plan, job.spec, 0, None
    count = spec.states + len(starts)
    if job.on_gpu:
        device, stream = x.device, stream_of(job.index)
    want_weights = wanted[1 + count:]
    asked = want_weights.count(True)
    plain = resets is None and mask is None and not job.shows and packed is not None
    if job.native and plain and True in wanted:
        made = _backward_native(job, given, kept, seed, outputs, wanted)
        if made is not None:
            return made
    x, states, starts = dense(x), [dense(s) for s in states], [dense(s) for s in starts]
    outputs, most = [dense(d) for d in outputs], 1 + spec.states
    dx = torch.empty_like(x) if wanted[0] else None
    dstates = [make() if want else None for want, make in zip(wanted[1:1 + count], job.final * 2)]
    some = asked > 0
    dweights = _scratch(plan.dweights, device, "dweights") if some else None
    workspace = _scratch(job.workspace, device, "workspace")
    io = pack_io(lengths=lengths, x=x, y=y, initial=states, weights=packed, workspace=workspace,
                 workspace_bytes=workspace.numel(), reserve=reserve, reserve_bytes=reserve.numel(), seed=seed,
                 stream=stream, resets=resets, reset_state=starts, mask=mask)
    gradient = pack_gradient(outputs[:most], [dx, *dstates[:spec.states]], dstates=outputs[most:],
                             dweights=dweights if plan.dweights else None, dreset_state=dstates[spec.states:])
    check(library.ecornn_backward(plan.handle, job.steps, job.batch, io, gradient))
    del workspace  # its memory may be reused: on a GPU by work queued after the run
    found = [None] * len(weights)
    if some and job.steps and job.batch:
        found = _weights.gradients(job, dweights, weights, want_weights, stream)
    elif some:
        found = [torch.zeros_like(weight) if want else None
                 for weight, want in zip(weights, want_weights)]
    return dx, dstates, found
