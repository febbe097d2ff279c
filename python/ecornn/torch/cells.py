"""torch.nn's cells, under the same names: one step of LSTM, GRU or RNN.  The texts of cells that any
layer can have are ``ecornn.cells``.

In F32 on a CPU an operator in C runs a step on torch's own weights, so that nothing is packed.
Everything else is torch's own code.
"""

from __future__ import annotations

import torch

from . import _call, _fallbacks, _graph, _native, _operators
from ._forward import Forward
from ._spec import CELLS
from ._watched import PLAIN, anything, derived, traced
from ._weights import dense as _dense

# aten's operators; the position is the operator's number of the cell, as in python/native/points.h.
NAMES = ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
_GATES = (4, 3, 1, 1)
# Bits of `given`, as in python/native/cell.h.
_BIAS, _KEEP, _DH, _DC, _WANT_DX, _WANT_DH, _WANT_DWEIGHTS = (1 << k for k in range(7))

_forward, _backward = (None, None) if _native._module is None else (
    getattr(torch.ops.ecornn_native, name).default._op for name in ("cell", "cell_backward"))


def original(kind: int, x, states, weights):
    """The new states by torch's own code, whatever ``enabled`` has registered."""
    op = getattr(torch.ops.aten, NAMES[kind]).default
    found = op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, x,
                      states if kind == 0 else states[0], *weights)
    return found if kind == 0 else (found,)


def _made(run, kind: int, given: int, tensors):
    """The results of that operator; an empty list if it does not support these tensors."""
    return run(kind, given, tensors) or run(
        kind, given, [tensor.contiguous() for tensor in tensors])


class Step(torch.autograd.Function):
    """The new states from x, states and weights; None each if torch's own code should run."""

    @staticmethod
    def forward(ctx, kind: int, count: int, *tensors):
        made = _made(_forward, kind, _KEEP | _BIAS * (len(tensors) > count + 2), list(tensors))
        if not made:
            return (None,) * (count - 1)
        ctx.set_materialize_grads(False)
        ctx.kind, ctx.count = kind, count
        states, gates = (made, []) if kind > 1 else (made[:-1], made[-1:])
        ctx.save_for_backward(*tensors, states[-1], *gates)
        return tuple(states)

    @staticmethod
    def backward(ctx, *outputs):
        kind, count = ctx.kind, ctx.count
        *tensors, now, gates = ctx.saved_tensors if kind < 2 else (*ctx.saved_tensors, None)
        wanted = ctx.needs_input_grad[2:]
        if derived(outputs):
            return (None, None, *_again(kind, count, tensors, outputs, wanted))
        given = _BIAS * (len(tensors) > count + 2)
        for bit, asked in ((_WANT_DX, wanted[:1]), (_WANT_DH, wanted[1:count]),
                           (_WANT_DWEIGHTS, wanted[count:])):
            given |= bit * any(asked)
        given |= _DH * (outputs[0] is not None) | _DC * (outputs[-1] is not None and kind == 0)
        made = _made(_backward, kind, given, [*tensors, now, *([] if gates is None else [gates]), *[
            _dense(d) for d in outputs if d is not None]])
        if not made:
            raise RuntimeError("ecornn: no memory for the gradient of a cell")
        found = iter(made)
        groups = [[next(found) if given & bit else None for _ in range(size)]
                  for bit, size in ((_WANT_DX, 1), (_WANT_DH, count - 1),
                                    (_WANT_DWEIGHTS, len(tensors) - count))]
        return (None, None, *[d if want else None for d, want in zip(sum(groups, []), wanted)])


def _again(kind: int, count: int, tensors, outputs, wanted):
    """Gradients that can be differentiated and batched, through torch's own code."""
    with torch.enable_grad():
        results = original(kind, tensors[0], tensors[1:count], tensors[count:])
        pairs = [(out, d) for out, d in zip(results, outputs) if d is not None]
        found = iter(torch.autograd.grad(
            [out for out, _ in pairs], [t for t, want in zip(tensors, wanted) if want],
            [d for _, d in pairs], create_graph=torch.is_grad_enabled(), allow_unused=True))
    return [next(found) if want else None for want in wanted]


def _by_operators(kind: int, x, states, weights):
    """The new states under transforms of torch.func, which torch's LSTMCell does not support, and
    under modes: selective checkpointing forbids the writes in place of torch's."""
    w, r, bias_x, bias_h = weights
    if any(t.dim() != 2 for t in (x, *states)) or (
            x.shape[1] != w.shape[1] or any(s.shape != (x.shape[0], r.shape[1]) for s in states)):
        return None
    cell = CELLS[("LSTM", "GRU", "RNN_TANH", "RNN_RELU")[kind]]
    return _operators._STEPS[cell](torch.nn.functional.linear(x, w, bias_x), tuple(states),
                                   {"hh": (r, bias_h), "hr": None})


# torch's own apply searches all arguments for tensors of torch.func; here there are none.
_apply = super(torch.autograd.Function, Step).apply


def reason(x, weights, states) -> str:
    """Why torch runs a cell."""
    if isinstance(x, torch.Tensor) and (x.device.type, x.dtype) != ("cpu", torch.float32):
        return f"a cell of {x.dtype} on {x.device.type}"
    weights = [weight for weight in weights if weight is not None]
    return "a cell: " + _fallbacks.reason(x, weights, states, plain=True)


def run(kind: int, x, states, weights):
    """The new states, or None if torch's own code should run or say what is wrong.

    x: [N,I].  states: [N,H] each.  weights: weight_ih, weight_hh, bias_ih, bias_hh, as aten takes
    them; biases may be None.
    """
    if anything():
        found = None if traced() else _by_operators(kind, x, states, weights)
        if found is not None:
            _fallbacks.count("a cell: a transform or a mode that sees operators")
        return found
    if _forward is None or not x.is_cpu or _call._autocast():
        return None
    if weights[3] is None:
        if weights[2] is not None:
            return None
        weights = weights[:2]
    tensors, gradient = [x, *states, *weights], torch.is_grad_enabled()
    wanted = False
    for tensor in tensors:
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return None
        wanted = wanted or gradient and tensor.requires_grad
    if wanted:
        made = _apply(kind, 1 + len(states), *tensors)
        return None if made[0] is None else made
    return _made(_forward, kind, _BIAS * (len(weights) > 2), tensors) or None


def layer(module, x, hx):
    """A module's call of one step, as a cell's, in the form of torch.nn's layers: y and the final
    states.  None if it is not such a call.

    It reads the weights once, where a run of the layer compares them with their packed form.
    """
    kind = {"LSTM": 0, "GRU": 1, "RNN_TANH": 2, "RNN_RELU": 3}.get(module.mode)
    dim = 1 if module.batch_first else 0
    if (kind is None or type(x) not in PLAIN or x.dim() != 3 or x.shape[dim] != 1
            or not x.is_cpu or module.num_layers != 1 or module.bidirectional or module.proj_size
            or "_frozen" in module.__dict__):
        return None
    row = x.squeeze(dim)
    if hx is None:
        states = [x.new_zeros(row.shape[0], module.hidden_size)] * (1 + (kind == 0))
    else:
        states = list(hx) if kind == 0 else [hx]
        if len(states) != 1 + (kind == 0) or any(
                type(s) not in PLAIN or s.dim() != 3 or s.shape[0] != 1 for s in states):
            return None
        states = [state.squeeze(0) for state in states]
    weights = (*module._tensors(), None, None)[:4]
    out = run(kind, row, states, weights)
    if out is None:
        return None
    final = [state.unsqueeze(0) for state in out]
    y = out[0].unsqueeze(dim).clone()  # the caller may write to either
    return y, tuple(final) if kind == 0 else final[0]


# ---- modules ------------------------------------------------------------------------------------


class _Cell:
    """The common part of the cells.  Constructor, parameters, state_dict and errors are torch's."""

    _torch: type  # torch.nn's class, which runs what ecornn does not support
    _number: int  # of NAMES

    def forward(self, input, hx=None):
        """The new state, of an LSTM the pair (h, c), in the form of torch.nn's cell.

        input: [N,I] or [I].  hx: the state or states, [N,H] or [H]; None: zeros.
        """
        if torch.compiler.is_compiling():
            return self._torch.forward(self, input, hx)
        out = self._step(input, hx) if type(input) in PLAIN else None
        if out is None and (node := _graph.node(self, (input, hx))) is not None:
            return node
        if out is None:
            out = self._torch.forward(self, input, hx)
            states = hx if isinstance(hx, (tuple, list)) else [hx]
            _fallbacks.count(reason(input, list(self.parameters()), states))
        return out

    def _step(self, x, hx):
        kind, dim = self._number, x.dim()
        if kind < 0:
            return None
        if hx is None:
            if dim not in (1, 2):
                return None
            zeros = x.new_zeros((*x.shape[:-1], self.hidden_size))
            states = (zeros, zeros) if kind == 0 else (zeros,)
        else:
            states = hx if kind == 0 else (hx,)
            if type(states) not in (tuple, list):
                return None
        if dim == 1:
            for state in states:
                if not isinstance(state, torch.Tensor) or state.dim() != 1:
                    return None
            x, states = x.unsqueeze(0), [state.unsqueeze(0) for state in states]
        own = self._parameters
        try:
            weights = own["weight_ih"], own["weight_hh"], own["bias_ih"], own["bias_hh"]
        except KeyError:  # parametrised
            weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        out = run(kind, x, states, weights)
        if out is None:
            return None
        if dim == 1:
            out = [state.squeeze(0) for state in out]
        return tuple(out) if kind == 0 else out[0]

    def __prepare_scriptable__(self):
        """TorchScript compiles torch's own module, with these parameters."""
        from .modules import to_torch

        return to_torch(self)

    _get_name = Forward._get_name


class LSTMCell(_Cell, torch.nn.LSTMCell):
    """torch.nn.LSTMCell: the same arguments, parameters, results and errors.

    F32 on a CPU runs by ecornn, which reads the parameters where they are; all else by torch.

    >>> import torch, ecornn.torch
    >>> h, c = ecornn.torch.LSTMCell(3, 4)(torch.zeros(2, 3))
    >>> tuple(h.shape), tuple(c.shape)
    ((2, 4), (2, 4))
    """

    _torch, _number = torch.nn.LSTMCell, 0


class GRUCell(_Cell, torch.nn.GRUCell):
    """torch.nn.GRUCell: the same arguments, parameters, results and errors; see LSTMCell.

    >>> import torch, ecornn.torch
    >>> tuple(ecornn.torch.GRUCell(3, 4)(torch.zeros(3)).shape)
    (4,)
    """

    _torch, _number = torch.nn.GRUCell, 1


class RNNCell(_Cell, torch.nn.RNNCell):
    """torch.nn.RNNCell: the same arguments, parameters, results and errors; see LSTMCell.

    >>> import torch, ecornn.torch
    >>> tuple(ecornn.torch.RNNCell(3, 4, nonlinearity="relu")(torch.zeros(2, 3)).shape)
    (2, 4)
    """

    _torch = torch.nn.RNNCell

    @property
    def _number(self) -> int:
        return {"tanh": 2, "relu": 3}.get(self.nonlinearity, -1)
