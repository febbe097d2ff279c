"""Gradients of the parameters for each row of a batch, as differentially private training, influence
functions and natural gradients need them.

Each row becomes a model of its own in one run of several models, all with the same weights.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _transforms
from ._given import check_lengths
from ._weights import expect

_PIECES = {"cpu": 64 << 20, "cuda": 1 << 30}  # bytes of the weights of rows that are run at once


def per_row_gradients(module, input: torch.Tensor, grad_y: torch.Tensor | None, hx=None,
                      grad_final=None, *, lengths=None) -> dict[str, torch.Tensor]:
    """The gradient of each parameter for each row, [N,*], by the parameter's name; its sum over the
    rows is what backward of ``module(input, hx, lengths=lengths)`` adds to ``grad``.

    module: an LSTM, GRU or RNN of this package, or a Recurrent.  input: [T,N,I], or [N,T,I] if
    batch_first.  grad_y: gradient by y, shaped as y, or None for zeros.  hx: initial states, as the
    module takes them.  grad_final: gradients by the final states, shaped as hx; a state's may be
    None.  lengths: [N].

    The run is repeated, so dropout that draws is refused.  Rows are run in pieces, so that memory is
    little more than the result takes.  All arguments are of the parameters' type and device.
    Raises ValueError for what does not fit.

    >>> import torch, ecornn.torch
    >>> gru = ecornn.torch.GRU(3, 4)
    >>> rows = ecornn.torch.per_row_gradients(gru, torch.ones(5, 2, 3), torch.ones(5, 2, 4))
    >>> tuple(rows["weight_hh_l0"].shape)
    (2, 12, 4)
    """
    spec, weights = module._spec(), list(module._tensors())
    if spec.models is not None:
        raise ValueError("module is an Ensemble, must be of one model")
    if module.training and (spec.random or spec.dropout > 0 and spec.layers > 1):
        raise ValueError("the module draws dropout, which a second run cannot repeat: eval() ends it")
    place = 0 if module.batch_first else 1
    dtype, device = weights[0].dtype, weights[0].device
    rows = input.shape[place] if input.dim() == 3 else 0
    steps = input.shape[1 - place] if rows else 0
    if not steps or input.shape[2] != spec.input:
        raise ValueError(f"input is {list(input.shape)}, must be [T,N,{spec.input}], or "
                         f"[N,T,{spec.input}] if batch_first, and not empty")
    expect(spec, weights, device)
    shapes = [(*input.shape[:2], spec.out), *spec.state_shapes(rows)]
    states, dfinal = (list(given) if isinstance(given, (tuple, list)) else
                      [given] * spec.states if given is None else [given]
                      for given in (hx, grad_final))
    for name, given, like in (("input", [input], [input.shape]), ("grad_y", [grad_y], shapes[:1]),
                              ("hx", states, shapes[1:]), ("grad_final", dfinal, shapes[1:])):
        if len(given) != len(like):
            raise ValueError(f"{name} has {len(given)} tensors, must have {len(like)}")
        for one, shape in zip(given, like):
            if one is not None and (one.shape, one.dtype, one.device) != (shape, dtype, device):
                raise ValueError(f"{name} is {list(one.shape)}, {one.dtype} on {one.device}, must be "
                                 f"{list(shape)}, {dtype} on {device}")
    if lengths is not None:
        lengths = check_lengths(lengths, steps, (rows,), device).unsqueeze(1)

    size = sum(weight.nbytes for weight in weights)
    piece = max(torch.get_num_threads(), _PIECES[device.type] // max(3 * size, 1))

    def run(first: int):
        count = min(piece, rows - first)

        def each(one, at: int = 1):
            if one is not None:
                one = one.detach().narrow(at, first, count).movedim(at, 0).unsqueeze(at + 1)
            return one

        what = _transforms.What(spec.of_models(count), module.batch_first, _flags(input), False,
                                True, (False,) * (1 + spec.states) + (True,) * len(weights))
        return _transforms.Backward.forward(
            what, None, None if lengths is None else lengths[first:first + count], None, None,
            each(input, place), *map(each, states),
            *(weight.detach().expand(count, *weight.shape) for weight in weights),
            each(grad_y, place), *map(each, dfinal), None)[-len(weights):]

    with torch.no_grad():
        if piece >= rows:
            found = run(0)
        else:
            found = [weight.new_empty(rows, *weight.shape) for weight in weights]
            for first in range(0, rows, piece):
                for whole, part in zip(found, run(first)):
                    whole[first:first + piece] = part
    return dict(zip(module._flat_weights_names, found))


def _flags(x) -> int:
    from ._call import flags_of

    return 0 if x.is_cpu else flags_of("cuda", x.dtype)


def register_opacus(*kinds: type) -> None:
    """Lets Opacus's GradSampleModule train these classes, and LSTM, GRU, RNN and the cells of this
    package, by per_row_gradients.

    The loss may depend on y alone, not on final states, and calls take x alone, with the rows where
    GradSampleModule has them: Opacus sees no more.  Anything else is an error.
    """
    from opacus.grad_sample import register_grad_sampler

    from . import modules, recurrent

    own = [modules.LSTM, modules.GRU, modules.RNN, recurrent.Recurrent,
           *recurrent.Recurrent.__subclasses__()]

    @register_grad_sampler([*own, *kinds])
    def sample(module, activations, backprops) -> dict[Any, torch.Tensor]:
        x, *more = activations  # rows first
        if more:
            raise ValueError("Opacus: initial states are given, must be left out")
        place = 0 if module.batch_first else 1
        found = per_row_gradients(module, x.movedim(0, place), backprops.movedim(0, place))
        return {parameter: found[name] for name, parameter in module.named_parameters()
                if parameter.requires_grad}
