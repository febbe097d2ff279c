"""What torch.utils.flop_counter counts for the operators: as for torch's own, two for each
multiplication of a product of matrices, in all steps of all rows."""

from __future__ import annotations

import math

import torch

from . import _net_op
from ._imports import when_imported
from ._spec import words_of


def _spec(weights, run):
    return words_of(*run[3:7], len(weights)).spec


def _layer(x, lengths, states, weights, *run, **_):
    dims = 2 if _spec(weights, run).models is None else 3  # of a matrix
    return 2 * x[-3] * x[-2] * sum(math.prod(one) for one in weights if len(one) == dims)


def _layer_backward(doutputs, y, reserve, packed, *run, **_):
    """As many for the gradients of what a product reads, and for those of weights."""
    x, weights, spec, wanted = run[0], run[3], _spec(run[3], run[4:]), run[-1]
    count = _layer(*run) * (1 + any(wanted[len(wanted) - len(weights):]))
    if not wanted[0] and spec.names[:1] == ["weight_ih"]:  # only they read x
        count -= 2 * x[-3] * x[-2] * sum(math.prod(weights[k * len(spec.names)]) for k in range(spec.directions))
    return count


def _net(x, *run, **_):
    params, net = run[3], _net_op.net_of(*run[6:13])
    batch, steps = x[-3:-1] if net.batch_first else x[-2:-4:-1]
    return sum(2 * batch * -(-steps // joined) * math.prod(shape)
               for joined, shape in zip(net._joins, params) if len(shape) == 2 + (net.models > 1))


def _net_backward(doutputs, y, reserve, packed, *run, **_):
    return 2 * _net(*run)


def _attention(query, keys, values, *run, **_):
    source = keys[1 if run[2] else 0]
    return 2 * query[0] * query[1] * source * (query[2] + values[2])


def _attention_backward(dcontext, dweights, reserve, *run, **_):
    return 2 * _attention(*run)


def _register(counter) -> None:
    for name, formula in (("layer", _layer), ("layer_backward", _layer_backward), ("net", _net),
                          ("net_backward", _net_backward), ("attention", _attention),
                          ("attention_backward", _attention_backward)):
        # register_flop_formula of torch 2.4 adds what its counter does not look up.
        counter.flop_registry[getattr(torch.ops.ecornn, name)] = counter.shape_wrapper(formula)


when_imported("torch.utils.flop_counter", _register)
