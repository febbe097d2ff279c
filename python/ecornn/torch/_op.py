"""A run as a torch operator, ``torch.ops.ecornn.layer``, for torch.compile, torch.export, fake
tensors and other users of operators.  _graph.py calls it.

Eager calls of modules do not use it: an autograd.Function around the same run is faster.

Its last two results, what forward saves for backward, are empty tensors with the bytes in their
storages, because no formula gives their sizes for any T and N.  If they come back without these bytes
(the graph kept none, or copied the tensors), backward repeats forward.
"""

from __future__ import annotations

import importlib

import torch

from .. import _library as lib
from . import _call, _derivative, _run, _transforms, _weights
from ._given import check_steps
from ._imports import when_imported
from ._spec import words_of

_RUN = ("Tensor[] weights, Tensor? resets, Tensor[]? starts, Tensor? mask, str cell, str problem, "
        "str training, float dropout, bool drop, Tensor? seed, ")
if not hasattr(torch.ops.ecornn, "layer"):  # ecornn-torch.so defines it, too (layer.h)
    torch.library.define(
        "ecornn::layer",
        f"(Tensor x, Tensor? lengths, Tensor[]? states, {_RUN}bool keep) -> Tensor[]")
# x is not read, but torch's checkpoints need an input.
torch.library.define("ecornn::draw", "(Tensor x) -> Tensor",
                     tags=(torch.Tag.nondeterministic_seeded,))
torch.library.define(
    "ecornn::layer_backward",
    "(Tensor?[] doutputs, Tensor? y, Tensor reserve, Tensor packed, Tensor x, Tensor? lengths, "
    f"Tensor[]? states, {_RUN}bool[] wanted) -> Tensor[]")


class _Given:
    """An operator's arguments, checked, in the form of _run.py; real or fake tensors."""

    def __init__(self, *arguments):
        (self.x, self.lengths, self.states, self.weights, self.resets, self.starts, self.mask,
         *words, self.drop, self.seed) = arguments
        self.spec, self.batch_major, self.flags = words_of(*words, len(self.weights))
        self._check()
        count = self.spec.pairs * len(self.spec.names)
        if len(self.weights) != count:
            raise RuntimeError(f"{len(self.weights)} weights, must be {count}")

    def _check(self) -> None:
        """Refuses tensors that the library would misread; weights are checked when they are packed."""
        spec, x = self.spec, self.x
        alone = self.flags & lib.SHARED_INPUT or x.dim() == 3 and spec.models == 1
        lead = () if alone else spec.lead
        if (x.dim() != 3 + len(lead) or x.shape[-1] != spec.input or x.dtype not in _run.TYPES
                or lead and x.shape[0] != spec.models):
            raise RuntimeError(f"x is {list(x.shape)}, {x.dtype}, must be "
                               f"[{'M,' * len(lead)}T,N,{spec.input}] of floats")
        if self.weights and self.weights[0].dtype != x.dtype and (
                self.weights[0].dtype != torch.float32 or x.dtype == torch.float64):
            raise RuntimeError(f"weights are {self.weights[0].dtype}, must be {x.dtype} as x, or "
                               "float32 with a 16-bit x")
        self.steps, self.batch = x.shape[-3:-1][::-1] if self.batch_major else x.shape[-3:-1]
        if self.steps < 1:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        if (self.starts is not None) > (self.resets is not None):
            raise RuntimeError("reset states without resets")
        for name, given in (("an initial state", self.states), ("a reset state", self.starts)):
            if not given:
                continue
            if len(given) != spec.states:
                raise RuntimeError(f"{len(given)} of {name}, must be 0 or {spec.states}")
            for state, shape in zip(given, spec.state_shapes(self.batch)):
                _run.expect(name, state, shape, x.dtype, x.device)
        _run.expect("lengths", self.lengths, (*x.shape[:-3], self.batch), torch.int32, x.device)
        for name, given in (("resets", self.resets), ("mask", self.mask)):
            if given is not None:
                _run.expect(name, given, x.shape[:-1], given.dtype, x.device)

    @property
    def result_shapes(self) -> list[tuple]:
        """Shapes of y, the final states, and with ALL_STATES the states of every step."""
        spec = self.spec
        shown = [(*spec.lead, spec.pairs, self.steps, self.batch, width) for width in spec.widths]
        return [(*spec.lead, *self.x.shape[-3:-1], spec.out), *spec.state_shapes(self.batch),
                *shown * bool(self.flags & lib.ALL_STATES)]

    def job(self, training: bool):
        flags, params = self.flags, self.weights[0].dtype if self.weights else self.x.dtype
        flags |= 0 if self.x.is_cpu else _call.flags_of("cuda", self.x.dtype)
        flags |= lib.RESETS * (self.resets is not None) | lib.MASK * (self.mask is not None)
        return _run.job_of(self.spec, self.x, self.x.shape[-3:-1], _run.Kind(
            self.x.dtype, params, self.batch_major, training, self.drop, flags, True))

    def tensors(self) -> _run.Given:
        """All dense but the weights, states None each where none are."""
        none = [None] * self.spec.states
        states = [_run.dense(state) for state in self.states or none]
        starts = [_run.dense(state) for state in self.starts or none] if (
            self.resets is not None) else []
        resets, mask = (None if given is None else check_steps(name, given, self.x, self.batch_major)
                        for name, given in (("resets", self.resets), ("mask", self.mask)))
        return _run.Given(_run.dense(self.x), _run.dense(self.lengths), states, self.weights, resets,
                          starts, mask)

    def forward(self, job, keep: bool):
        # The caller owns an operator's results: with keep, weights are packed for this run alone.
        return _run.forward(job, self.tensors(), keep or self.drop, seed_of(self.seed), not keep)


def seed_of(seed) -> int:
    """An operator's seed as a number; None: 0."""
    if seed is None:
        return 0
    if seed.numel() != 1 or seed.dtype != torch.int64 or int(seed) < 0:
        raise RuntimeError(f"seed is {seed.tolist()}, {seed.dtype}, must be one number of int64, at least 0")
    return int(seed)


@torch.library.impl("ecornn::draw", ("cpu", "cuda"))
def _draw(x):
    return torch.randint(0, 2 ** 62, (1,), device="cpu")


def fake(name: str):
    """Registers a rule for fake and meta tensors.  It is refused if real tensors are among them, for
    which torch calls it too, because nothing would write its results.  The seed, the last argument
    but one, is always on a CPU."""
    def register(rule):
        def checked(*arguments):
            given = torch.utils._pytree.tree_leaves(arguments[:-2] + arguments[-1:])
            if len({tensor.device.type == "meta" for tensor in given if torch.is_tensor(tensor)}) > 1:
                raise RuntimeError(f"ecornn::{name}: some of the tensors are on the meta device")
            return rule(*arguments)

        torch.library.register_fake(f"ecornn::{name}")(checked)
    return register


@torch.library.register_fake("ecornn::draw")
def _draw_fake(x):
    return torch.empty(1, dtype=torch.int64, device="cpu")


def hidden(block, x):
    """An empty tensor with these bytes in its storage."""
    return x.new_empty(0, dtype=torch.uint8) if block is None else block[:0]


_ALIGNED = 64  # bytes, of the library's blocks


def shown(tensor, bytes: int, device):
    """The bytes in the storage of such a tensor; None where they are not there, on this device."""
    storage = tensor.untyped_storage()
    if tensor.device != device or tensor.storage_offset() or storage.nbytes() < bytes or (
            storage.data_ptr() % _ALIGNED):
        return None
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (bytes,))


def expect_counts(doutputs, wanted, results: int, inputs: int) -> None:
    if (len(doutputs), len(wanted)) != (results, inputs):
        raise RuntimeError(f"{len(doutputs)} gradients of results and {len(wanted)} wanted, must "
                           f"be {results} and {inputs}")


@torch.library.impl("ecornn::layer", ("cpu", "cuda"))
def _layer(*arguments):
    *arguments, keep = arguments
    given = _Given(*arguments)
    y, final, reserve, packed = given.forward(given.job(keep or given.drop), keep)
    return [y, *final, *(hidden(block if keep else None, given.x) for block in (reserve, packed))]


@fake("layer")
def _layer_fake(*arguments):
    given = _Given(*arguments[:-1])
    return [*map(given.x.new_empty, given.result_shapes),
            *(given.x.new_empty(0, dtype=torch.uint8) for _ in range(2))]


@torch.library.impl("ecornn::layer_backward", ("cpu", "cuda"))
def _layer_backward(doutputs, y, reserve, packed, *arguments):
    *arguments, wanted = arguments
    given = _Given(*arguments)
    spec, x, weights, shapes = given.spec, given.x, given.weights, given.result_shapes
    job, tensors = given.job(True), given.tensors()
    _weights.expect(spec, weights, x.device)
    counts = len(shapes), 1 + spec.states + len(tensors.starts) + len(weights)
    expect_counts(doutputs, wanted, *counts)
    for tensor, shape in zip((y, *doutputs), (shapes[0], *shapes)):
        _run.expect("y or the gradient of a result", tensor, shape, x.dtype, x.device)
    reserve = shown(reserve, job.reserve, x.device)
    packed = shown(packed, job.plan.weights if job.batch else 0, x.device)
    if reserve is None or packed is None or y is None:
        y, _, reserve, packed = given.forward(job, True)
    dx, dstates, dweights = _run.backward(
        job, tensors, (_run.dense(y), reserve, packed), seed_of(given.seed),
        [_run.dense(d) for d in doutputs], wanted)
    found, seen = [], set()
    for gradient in (dx, *dstates, *dweights):
        if gradient is not None and id(gradient) in seen:
            gradient = gradient.clone()  # results of an operator share no memory
        seen.add(id(gradient))
        found.append(x.new_empty(0) if gradient is None else gradient)
    return found


@fake("layer_backward")
def _layer_backward_fake(doutputs, y, reserve, packed, *arguments):
    *arguments, wanted = arguments
    given, x = _Given(*arguments), arguments[0]
    shapes = given.spec.state_shapes(given.batch) * (1 + (given.resets is not None))
    like = [torch.empty_like(x, memory_format=torch.contiguous_format), *map(x.new_empty, shapes),
            *(torch.empty_like(w, memory_format=torch.contiguous_format) for w in given.weights)]
    return [tensor if want else x.new_empty(0) for tensor, want in zip(like, wanted)]


def _setup(ctx, inputs, output):
    x, lengths, states, weights, resets, starts, mask, *ctx.stack, seed, _ = inputs
    y, reserve, packed = output[0], *output[-2:]
    ctx.given = [None if given is None else len(given) for given in (states, starts)]
    ctx.save_for_backward(y, reserve, packed, x, lengths, resets, mask, seed, *(states or ()),
                          *(starts or ()), *weights)


def _backward(ctx, need, gradients):
    y, reserve, packed, x, lengths, resets, mask, seed, *rest = ctx.saved_tensors
    count = words_of(*ctx.stack[:4], len(need[3])).spec.states
    lists, wanted = [], [need[0]]
    for number, given in enumerate(ctx.given):
        lists.append(None if given is None else [rest.pop(0) for _ in range(given)])
        if number == 0 or resets is not None:
            wanted += need[(2, 5)[number]] if given else [False] * count
    wanted += need[3]
    found = torch.ops.ecornn.layer_backward(
        gradients[:-2], y, reserve, packed, x, lengths, lists[0], rest, resets, lists[1], mask,
        *ctx.stack, seed, wanted)
    found = iter([gradient if want else None for gradient, want in zip(found, wanted)])
    dx, dlists = next(found), []
    for number, given in enumerate(ctx.given):
        taken = [next(found) for _ in range(count) if number == 0 or resets is not None]
        dlists.append(taken if given else None if given is None else [])
    return (dx, None, dlists[0], list(found), None, dlists[1], *[None] * 8)


_derivative.register("layer", "a layer's operator", _backward, _setup, _transforms.second)
when_imported("onnxscript.function_libs.torch_lib.ops",
              lambda _: importlib.import_module(__package__ + "._onnx"))
