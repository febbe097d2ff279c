"""A run of a Net as a torch operator, ``torch.ops.ecornn.net``, for graphs that are compiled or
exported.  As in _op.py what forward saves is in the storages of two empty tensors.
"""

from __future__ import annotations

import functools

import torch

from . import _derivative, _op, _run
from ._given import check_lengths
from ._spec import lines

# places: "0,2", the numbers of the states that are given.  cells: texts, joined by form feeds.
_RUN = ("Tensor x, Tensor? lengths, Tensor? resets, Tensor? mask, Tensor[] params, Tensor[]? states, str places, "
        "int input_size, str pieces, bool batch_first, str cells, str common, str saving, int memory_limit, "
        "bool draws, Tensor? seed, ")
torch.library.define("ecornn::net", f"({_RUN}bool keep) -> Tensor[]")
torch.library.define("ecornn::net_backward", "(Tensor?[] doutputs, Tensor y, Tensor reserve, "
                     f"Tensor packed, {_RUN}bool[] wanted) -> Tensor[]")


@functools.lru_cache(maxsize=128)
def net_of(*words):
    """A Net without parameters, which a mode or a transform would see; words: the operator's, from
    input_size to memory_limit."""
    from ._net import Net

    input_size, pieces, batch_first, cells, common, saving, memory_limit = words
    cells = tuple(lines(cells).split("\f") if cells else ())

    bare = type("Bare", (Net,), {"_make": lambda *_: None})
    return bare(input_size, pieces, batch_first=batch_first, cells=cells, common=common,
                saving=saving, memory_limit=memory_limit)


class _Given:
    """An operator's arguments, checked; real or fake tensors."""

    def __init__(self, *arguments):
        x, lengths, resets, mask, params, states, places, *words, self.draws, seed = arguments
        self.net = net = net_of(*words)
        net.check(x)
        self.x, self.params, self.seed = x, list(params), seed
        self.counts = lengths, resets, mask
        states = [] if states is None else list(states)
        said = [place for place in places.split(",") if place]
        self.batch, self.steps = x.shape[-3:-1] if net.batch_first else x.shape[-2:-4:-1]
        for name, given in (("resets", resets), ("mask", mask)):
            if given is not None:
                _run.expect(name, given, (*x.shape[:-3], self.steps, self.batch), torch.uint8,
                            x.device)
        net._types(x, self.params)
        shapes = net._state_shapes(self.batch)
        places = [place for place in range(len(shapes)) if str(place) in said]
        if len(params) != len(net._names) or len(states) != len(said) or (
                list(map(str, places)) != said):
            raise RuntimeError(f"{len(params)} parameters, {len(states)} states, places {said}, "
                               f"must be {len(net._names)}, and as many states as places of 0 to "
                               f"{len(shapes) - 1}, ascending")
        self.states = [None] * len(shapes)
        for place, state in zip(places, states):
            _run.expect("a state", state, shapes[place], x.dtype, x.device)
            self.states[place] = state
        self.places = places

    def plan(self, training: bool):
        return self.net._plan(self.x, self.params, self.counts, training, self.draws)

    def counted(self):
        """Lengths, resets and mask, dense on x's device."""
        lengths, *rest = self.counts
        if lengths is not None:
            lengths = check_lengths(lengths, self.steps, self.net._rows(self.x), self.x.device)
        return lengths, *map(_run.dense, rest)

    def run(self, plan):
        from ._net import Run

        return Run(self.net, plan, self.counted(), _op.seed_of(self.seed), _run.dense(self.x))

    def forward(self, run, training: bool):
        """y and final states, the reserve and packed weights."""
        return run.forward(training, [*map(_run.dense, (*self.params, *self.states))])


@torch.library.impl("ecornn::net", ("cpu", "cuda"))
def _forward(*arguments):
    *arguments, keep = arguments
    given = _Given(*arguments)
    training = keep or given.draws
    results, reserve, packed = given.forward(given.run(given.plan(training)), training)
    return [*results, *(_op.hidden(block if keep else None, given.x) for block in (reserve, packed))]


@_op.fake("net")
def _fake(*arguments):
    given = _Given(*arguments[:-1])
    net, x = given.net, given.x
    return [x.new_empty(net._y_shape(given.steps, given.batch)),
            *map(x.new_empty, net._state_shapes(given.batch)),
            *(x.new_empty(0, dtype=torch.uint8) for _ in range(2))]


@torch.library.impl("ecornn::net_backward", ("cpu", "cuda"))
def _net_backward(doutputs, y, reserve, packed, *arguments):
    *arguments, wanted = arguments
    given = _Given(*arguments)
    net, x, plan = given.net, given.x, given.plan(True)
    run = given.run(plan)
    shapes = net._y_shape(given.steps, given.batch), *net._state_shapes(given.batch)
    _op.expect_counts(doutputs, wanted, len(shapes), 1 + len(given.params) + len(given.places))
    for tensor, shape in zip((y, *doutputs), (shapes[0], *shapes)):
        _run.expect("y or the gradient of a result", tensor, shape, x.dtype, x.device)
    reserve = _op.shown(reserve, plan.most.reserve_bytes, x.device)
    packed = _op.shown(packed, plan.most.weight_bytes, x.device)
    if reserve is None or packed is None:
        (y, *_), reserve, packed = given.forward(run, True)
    dtype = given.params[0].dtype if given.params else None
    most = 1 + len(given.params)
    wants = list(wanted[:most]) + [False] * len(given.states)
    for place, want in zip(given.places, wanted[most:]):
        wants[most + place] = want
    found = run.backward((_run.dense(y), reserve, packed, *map(_run.dense, given.states)), doutputs, dtype,
                         wants)
    found = [*found[:most], *[found[most + place] for place in given.places]]
    return [x.new_empty(0) if gradient is None else gradient for gradient in found]


@_op.fake("net_backward")
def _net_backward_fake(doutputs, y, reserve, packed, *arguments):
    *arguments, wanted = arguments
    x, _, _, _, params, states, *_ = arguments
    return [x.new_empty(0) if not want else tensor.new_empty(tensor.shape)
            for tensor, want in zip((x, *params, *(states or ())), wanted)]


def _setup(ctx, inputs, output):
    x, lengths, resets, mask, params, states, *ctx.net, seed, _ = inputs
    ctx.params, ctx.given = len(params), states is not None
    ctx.save_for_backward(output[0], *output[-2:], x, lengths, resets, mask, seed, *params,
                          *(states or ()))


def _backward(ctx, need, gradients):
    y, reserve, packed, x, lengths, resets, mask, seed, *tensors = ctx.saved_tensors
    params, states = tensors[:ctx.params], tensors[ctx.params:]
    wanted = [need[0], *need[4], *(need[5] if states else ())]
    found = torch.ops.ecornn.net_backward(gradients[:-2], y, reserve, packed, x, lengths, resets, mask,
                                          params, states if ctx.given else None, *ctx.net, seed, wanted)
    found = [gradient if want else None for gradient, want in zip(found, wanted)]
    dstates = found[1 + ctx.params:] if ctx.given else None
    return (found[0], None, None, None, found[1:1 + ctx.params], dstates, *[None] * 11)


_derivative.register("net", "a net", _backward, _setup)
