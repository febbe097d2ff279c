"""Layers of Keras 3, run by ecornn, on the backends torch and jax.

``LSTM``, ``GRU`` and ``SimpleRNN`` are subclasses of Keras's layers, with the same arguments, weights,
results and files.  ``Recurrent`` is such a layer of any cell, and ``replace`` changes the layers of a
model.  All that Keras does around the loop over steps is Keras's own code: weights, states, draws of
dropout, Bidirectional, files.  Only the loop, ``inner_loop``, is here.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, NamedTuple

import keras
from keras import ops

from ._errors import BadArgument, Unsupported
from .cell import Cell, cells, expected
from .layer import Layer

BACKEND = keras.config.backend()
if BACKEND not in ("torch", "jax"):
    raise Unsupported(f"Keras's backend is {BACKEND}, ecornn.keras needs torch or jax: set KERAS_BACKEND "
                      "before keras is imported")

# Keras's activations in the language of cells.  Gradients at corners are Keras's, too.
_SOFTPLUS = "max({}, log(1 + exp(min({}, 30))))"
_HARD = "min(max({} / 6 + 0.5, 0), 1)"
_ELU = "select({}, {}, exp(select({}, 0, {})) - 1)"
_ACTIVATIONS = {
    "tanh": "tanh({})", "sigmoid": "sigmoid({})", "relu": "relu({})", "linear": "{}",
    "hard_sigmoid": _HARD, "hard_silu": "{} * " + _HARD, "hard_tanh": "min(max({}, -1), 1)",
    "exponential": "exp({})", "softplus": _SOFTPLUS, "softsign": "{} / (1 + abs({}))",
    "silu": "{} * sigmoid({})", "mish": "{} * tanh(" + _SOFTPLUS + ")", "elu": _ELU,
    "selu": "select({}, 1.05070098 * {}, 1.75809934 * (exp(select({}, 0, {})) - 1))",
    "relu6": "min(relu({}), 6)", "leaky_relu": "select({}, {}, 0.2 * {})",
}
# On torch its own functions, because Keras's take a long time to call them.
_split, _join = ops.split, ops.concatenate
if BACKEND == "torch":
    from torch import cat as _join, chunk as _split
_kind = functools.lru_cache(maxsize=64)(keras.backend.standardize_dtype)  # of a dtype
_NAME_OF = {getattr(of, name): name for of in (ops, keras.activations) for name in _ACTIVATIONS
            if hasattr(of, name)}
_TYPES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}


# ---- texts of Keras's cells --------------------------------------------------------------------


def _activation(of: str, function: Any) -> str:
    """The name of one of Keras's activations that a text can have."""
    if function in _NAME_OF:
        return _NAME_OF[function]
    raise BadArgument(f"{of} is {getattr(function, '__name__', function)}, must be one of "
                      f"{', '.join(_ACTIVATIONS)}; ecornn.keras.Recurrent takes the text of any cell")


def _apply(activation: str, to: str) -> str:
    return _ACTIVATIONS[activation].replace("{}", to)


def _gate(name: str, sum: str, activation: str) -> list[str]:
    """Lines that assign a gate.  A sum that is read once has no line, which would be kept for backward."""
    if _ACTIVATIONS[activation] in ("{}", f"{activation}({{}})"):
        return [f"{name} = {_apply(activation, sum)}"]
    own = "a" + name.rstrip("'")
    return [f"{own} = {sum}", f"{name} = {_apply(activation, own)}"]


def _kept(gates: str, scale: float | None) -> tuple[list[str], dict[str, str]]:
    """Lines that compute h as each gate reads it.  With recurrent dropout a state m has a bit for each
    gate, whether it keeps a unit in this sequence."""
    if scale is None:
        return [], dict.fromkeys(gates, "h")
    lines, rest = [], "m"
    for bit, gate in reversed(list(enumerate(gates))):
        lines.append(f"k{gate} = select({rest} - {2 ** bit - 0.5}, 1, 0)")
        if bit:
            lines.append(f"m{gate} = {rest} - {2 ** bit} * k{gate}")
            rest = f"m{gate}"
    return [*lines, *(f"h{gate} = {scale!r} * k{gate} * h" for gate in gates), "m' = m"], {
        gate: f"h{gate}" for gate in gates}


def _lstm(act: str, gate: str, b: str, h: dict[str, str]) -> list[str]:
    lines = [_gate(name, f"W x + R {h[name]}{b}", act if name == "g" else gate) for name in "ifgo"]
    return [*sum(lines, []), "c' = f * c + i * g", "h' = o * " + _apply(act, "c'")]


def _gru(act: str, gate: str, b: str, h: dict[str, str], after: bool) -> list[str]:
    lines = [line for name in "zr" for line in _gate(name, f"W x + R {h[name]}{b}", gate)]
    last = f"W x{b} + r * q" if after else f"W x + R (r * {h['n']}){b}"
    return [*lines, *[f"q = R {h['n']}{b}"] * after, *_gate("n", last, act), "h' = z * h + (1 - z) * n"]


# Texts that layers have needed; built-in cells have kernels of their own.
_texts: dict[tuple, str] = {(kind, act, gate, bias, None): cell for bias in (True, False) for kind, act, gate, cell in (
    ("lstm", "tanh", "sigmoid", "lstm"), ("gru-after", "tanh", "sigmoid", "gru"),
    ("gru-before", "tanh", "sigmoid", "gru-reset-first"), ("simple", "tanh", "tanh", "rnn-tanh"),
    ("simple", "relu", "relu", "rnn-relu"))}


def _text(kind: str, act: str, gate: str, bias: bool, scale: float | None) -> str:
    """The text of a cell of Keras; scale: of what recurrent dropout keeps."""
    b = " + b" if bias else ""
    states = ("h, c" if kind == "lstm" else "h") + (", m" if scale is not None else "")
    lines, h = _kept({"lstm": "ifgo", "simple": "h"}.get(kind, "zrn"), scale)
    lines += (_lstm(act, gate, b, h) if kind == "lstm" else _gate("h'", f"W x + R {h['h']}{b}", act)
              if kind == "simple" else _gru(act, gate, b, h, kind == "gru-after"))
    return "\n".join([f"cell keras-{kind}({states})", *lines, ""])


# ---- the run ------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """x: [N,T,I].  states: [N,H] each.  weights: [I,*], [H,*] and vectors, side by side in the text's order,
    all b may be missing.  kept: the tensor with which ecornn.torch keeps memory.  mask: [N,T] or None.
    seed: of the text's draws, two numbers, or None: what is expected of them."""

    x: Any
    states: list
    weights: list
    kept: Any
    mask: Any = None
    seed: Any = None


def _run(cell: tuple, given: _Given):
    """y [N,T,H] and the final states [N,H].  cell: text, I, H, heads and whether W reads a head's input."""
    kind = _kind(given.x.dtype)
    if kind not in _TYPES:
        raise BadArgument(f"the compute dtype is {kind}, must be one of {', '.join(_TYPES)}")
    place = _place(given.x)
    wide = "float32" if place == "cpu" and kind == "float16" else kind
    y, final = _by_backend((cell, wide, place), given._replace(
        x=_cast(given.x, wide), states=[_cast(state, wide)[None] for state in given.states],
        weights=[_cast(each, wide) for each in given.weights]))
    return _cast(y, kind), [_cast(state[0], kind) for state in final]


def _cast(tensor, kind: str):
    return tensor if _kind(tensor.dtype) == kind else ops.cast(tensor, kind)


def _place(x) -> str:
    """Where a layer on x runs, in the library's words; torch itself knows which GPU."""
    if BACKEND == "torch":
        return "cpu" if x.device.type in ("cpu", "meta") else "cuda"
    import jax

    device = jax.config.jax_default_device
    if not isinstance(x, jax.core.Tracer):
        device = next(iter(x.devices()))
    if (getattr(device, "platform", device) or jax.default_backend()) == "cpu":
        return "cpu"
    return f"cuda:{getattr(device, 'local_hardware_id', None) or 0}"


def _by_torch(of: tuple, given: _Given):
    import torch

    from .torch import _call, _kept, _spec, _watched
    from .torch._given import check_steps
    from .torch._run import Given

    x, states, weights, kept, mask, seed = given
    (text, *sizes, heads, grouped), *_ = of
    biases = sum([each.ndim == 1 for each in weights])
    layers = _spec.Layers(text, *sizes, 1, biases > 0, heads=heads, grouped_input=grouped)
    weights = [each.T.contiguous() if each.ndim > 1 else each for each in weights]
    if biases == 1 and text in _spec.GATES:  # torch's cells have two
        *matrices, whole = weights
        b, zeros = whole.split(sizes[1]), torch.zeros_like(whole)
        weights = [*matrices, *([torch.cat([*b[:2], b[3]]), torch.cat([zeros[:2 * sizes[1]], b[2]])]
                                if text == "gru" else [whole, zeros])]
    if torch.compiler.is_compiling() or x.is_meta or seed is not None:
        if seed is not None:
            high, low = seed.to("cpu", torch.int64).split(1)
            seed = high % 2 ** 31 * 2 ** 32 + low  # low counts calls
        y, *final = torch.ops.ecornn.layer(
            x, None, states, weights, None, None, mask, _spec.one_line(text),
            _spec.problem_of(layers[1:-2], True, 0), "", 0.0, seed is not None, seed,
            _watched.keeps([x, *states, *weights]))[:-2]
        return y, final
    _kept.keep_with(kept, weights)
    out = _call.layer(_spec.spec_of(layers), Given(
        x, None, states, weights, None, None, check_steps("mask", mask, x, True)), True, False)
    if out is None:
        raise Unsupported(f"x is {x.dtype} on {x.device}, which ecornn does not support")
    return out[0], out[1:]


@functools.lru_cache(maxsize=128)
def _layer(cell: tuple, dtype: str, device: str) -> Layer:
    text, input, hidden, heads, grouped = cell
    return Layer(text, input, hidden, heads=heads, grouped_input=grouped, batch_first=True,
                 dtype=_TYPES[dtype], device=device)


def _by_jax(of: tuple, given: _Given):
    from .jax import run

    x, states, weights, _, mask, seed = given
    (text, *sizes), *where = of
    layer = _layer((text if seed is not None else expected(text), *sizes), *where)
    kinds = [[name for name in layer.parameters if name.split(".")[2] == kind] for kind in "WRbp"]
    parameters = {name: part.T if part.ndim > 1 else part for names, whole in zip(filter(None, kinds), weights)
                  for name, part in zip(names, _split(whole, len(names), -1))}
    for name, value in layer.parameters.items():  # b of a layer without bias
        parameters.setdefault(name, ops.zeros(value.shape, x.dtype))
    return run(layer, parameters, x, tuple(states), mask=mask, seed=seed)


_by_backend = _by_torch if BACKEND == "torch" else _by_jax


class _Steps:
    """The loop over steps of a layer of Keras.  Classes have _kind."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._check()

    def _check(self) -> None:
        """Refuses what the layer cannot do; Keras's own layers in a model are checked, too."""
        self._of(None)
        for name in ("dropout", "recurrent_dropout"):
            if getattr(self, name) >= 1:
                raise BadArgument(f"{name} is {getattr(self, name)}, must be below 1")
        if getattr(self, "use_cudnn", None) is True:
            raise BadArgument("use_cudnn is True, must be False or 'auto': ecornn runs these layers")
        self.use_cudnn = False  # so that Bidirectional calls both layers

    def _maybe_reset_dropout_masks(self, cell) -> None:
        if cell.dropout or getattr(cell, "recurrent_dropout", 0):  # else it takes as long as a small run
            super()._maybe_reset_dropout_masks(cell)

    def _weights(self) -> list:
        cell = self.cell
        return [ops.convert_to_tensor(each) for each in (cell.kernel, cell.recurrent_kernel, cell.bias)
                if each is not None]

    def _ordered(self, text: str, weights: list) -> list:
        """The weights in the order of that text's lines."""
        return weights

    def _of(self, scale: float | None) -> str:
        gate = self.recurrent_activation if self._kind != "simple" else self.activation
        what = (self._kind, _activation("activation", self.activation),
                _activation("recurrent_activation", gate), self.use_bias, scale)
        if what not in _texts:
            _texts[what] = _text(*what)
        return _texts[what]

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """The last output [N,H], all outputs [N,T,H] and the final states [N,H]."""
        cell, x, states = self.cell, _cast(sequences, self.compute_dtype), list(initial_state)
        weights, scale = self._weights(), None
        if training and cell.dropout:
            kept = cell.get_dropout_mask(sequences[:, 0, :])
            x, weights[0] = _drop(x, kept, weights[0])
        if training and cell.recurrent_dropout:
            kept = cell.get_recurrent_dropout_mask(states[0])
            kept, scale = kept if isinstance(kept, list) else [kept], 1 / (1 - cell.recurrent_dropout)
            states.append(sum(2 ** bit * ops.cast(each > 0, x.dtype) for bit, each in enumerate(kept)))
        text = self._of(scale)
        weights = self._ordered(text, weights)
        return self._loop((text, x.shape[-1], cell.units, 1, False), (x, states, weights), mask)

    def _loop(self, cell: tuple, given: tuple, mask, seed=None):
        x, states, weights = given
        if isinstance(mask, (list, tuple)):
            mask = mask[0]
        if mask is not None:
            mask = ops.cast(mask if mask.ndim == 2 else ops.any(mask, -1), "bool")
        if self.stateful and BACKEND == "torch":  # RNN.call writes over them, and backward reads them
            states = [ops.copy(state) for state in states]
        if self.go_backwards:
            x, mask = ops.flip(x, 1), mask if mask is None else ops.flip(mask, 1)
        kept = self.cell.weights[0].value if weights else None
        y, final = _run(cell, _Given(x, states, weights, kept, mask, seed))
        if mask is not None and self.zero_output_for_mask:
            y = ops.where(mask[..., None], y, ops.zeros_like(y))
        elif mask is not None and BACKEND == "jax" and not self.unroll:
            begun = ops.cumsum(ops.cast(mask, "int32"), 1) > 0  # before it, Keras gives the initial state
            y = ops.where(begun[..., None], y, states[0][:, None])
        return y[:, -1], y, final[:len(self.state_size)]


def _drop(x, kept, weight):
    """x with dropout, and W for it.  kept: what a sequence keeps, [N,I], one for all gates or a list
    with one for each; then x has a part for each gate, and W is 0 elsewhere."""
    if not isinstance(kept, list):
        return x * kept[:, None], weight
    gates, columns = len(kept), _split(weight, len(kept), 1)
    whole = [_join([each if k == gate else ops.zeros_like(each) for k in range(gates)])
             for gate, each in enumerate(columns)]
    return _join([x * each[:, None] for each in kept], -1), _join(whole, 1)


def _swapped(weight, units: int, axis: int):
    """A weight with its first two gates exchanged."""
    first, second, *rest = _split(weight, weight.shape[axis] // units, axis)
    return _join([second, first, *rest], axis)


_register = keras.saving.register_keras_serializable(package="ecornn")


@_register
class LSTM(_Steps, keras.layers.LSTM):
    """keras.layers.LSTM, run by ecornn: the same arguments, weights, results, states and files.

    ``unroll``, ``implementation`` and ``use_cudnn`` do not change results.  Raises BadArgument, a
    ValueError, for an activation that the language of cells lacks, and for dropout of 1.

    >>> import numpy as np, ecornn.keras
    >>> y, h, c = ecornn.keras.LSTM(4, return_state=True)(np.zeros((2, 5, 3), "float32"))
    >>> tuple(y.shape), tuple(c.shape)
    ((2, 4), (2, 4))
    """

    _kind = "lstm"


@_register
class GRU(_Steps, keras.layers.GRU):
    """keras.layers.GRU, run by ecornn, with ``reset_after`` or without; see LSTM."""

    @property
    def _kind(self) -> str:
        return "gru-after" if self.reset_after else "gru-before"

    def _ordered(self, text: str, weights: list) -> list:
        if text.startswith("gru"):  # built in, with r before z
            # Matrices are copied once, to how ecornn.torch reads them.
            weights = [*(_swapped(each.T, self.units, 0).T for each in weights[:2]),
                       *(_swapped(each, self.units, -1) for each in weights[2:])]
        if not (self.use_bias and self.reset_after):
            return weights
        *matrices, (first, second) = weights
        if text == "gru" and BACKEND == "torch":  # torch's cell has the two as they are
            return [*matrices, first, second]
        units = 2 * self.units
        return [*matrices, _join([first[:units] + second[:units], second[units:], first[units:]])]


@_register
class SimpleRNN(_Steps, keras.layers.SimpleRNN):
    """keras.layers.SimpleRNN, run by ecornn; see LSTM."""

    _kind = "simple"


# ---- any cell -----------------------------------------------------------------------------------


@_register
class TextCell(keras.layers.Layer):
    """The weights of a Recurrent, which runs them: its ``cell``."""

    def __init__(self, units: int, text: str, heads: int = 1, grouped_input: bool = False,
                 dropout: float = 0.0, seed: int | None = None, **more: Any) -> None:
        given = {name: more.pop(name, None) for name in _OF_WEIGHTS}
        super().__init__(**more)
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            raise BadArgument(f"units is {units!r}, must be an int of at least 1")
        if not 0 <= dropout < 1:
            raise BadArgument(f"dropout is {dropout}, must be 0 to less than 1")
        self.units, self.text, self.heads = units, cells.get(text, text), heads
        self.grouped_input, self.dropout, self.seed = bool(grouped_input), float(dropout), seed
        self.starts = Cell(text).starts
        if Cell(text).has_matrix:
            raise Unsupported(f"cell {Cell(text).name} has a matrix state, which ecornn.keras does not support")
        if Cell(text).outputs > 1:
            raise Unsupported(f"y of the cell has {Cell(text).outputs} states, must be 1")
        self.state_size, self.output_size = [units] * len(self.starts), units
        for name, value in given.items():
            get = getattr(keras, name.rpartition("_")[2] + "s").get
            setattr(self, name, get(_INITIAL.get(name) if value is None else value))
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.drop = keras.layers.Dropout(dropout, (None, 1, None), seed, dtype=self.dtype_policy)

    def build(self, input_shape) -> None:
        counts: dict[str, int] = {}
        for kind, _ in Cell(self.text).parameters:
            counts[kind] = counts.get(kind, 0) + 1
        of_head = self.heads if self.grouped_input else 1
        parts = sum(size or self.units for _, size in Cell(self.text).parts)
        width = input_shape[-1] - parts
        if width < 0:
            raise BadArgument(f"the input's width is {input_shape[-1]}, must be at least {parts}, that of the "
                              "text's parts of x")
        for heads, name, size in ((self.heads, "units", self.units),
                                  (of_head, "with grouped_input the input's width without parts", width)):
            if size % heads:
                raise BadArgument(f"heads is {heads}, must divide {name}, which is {size}")
        first = {"W": (width // of_head,), "R": (self.units // self.heads,)}
        self.kinds = [kind for kind in _NAMES if kind in counts]
        for kind, name in _NAMES.items():
            setattr(self, name, None if kind not in counts else self.add_weight(
                (*first.get(kind, ()), counts[kind] * self.units), name=name,
                **{rest: getattr(self, f"{name.removesuffix('_kernel')}_{rest}")
                   for rest in ("initializer", "regularizer", "constraint")}))

    def get_initial_state(self, batch_size=None) -> list:
        return [ops.full((batch_size, self.units), start, dtype=self.compute_dtype)
                for start in self.starts]

    def get_config(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in
               ("units", "text", "heads", "grouped_input", "dropout", "seed")}
        for name in _OF_WEIGHTS:
            own[name] = getattr(keras, name.rpartition("_")[2] + "s").serialize(getattr(self, name))
        return {**super().get_config(), **own}


_NAMES = {"W": "kernel", "R": "recurrent_kernel", "b": "bias", "p": "factor"}
_OF_WEIGHTS = [f"{name}_{rest}" for name in ("kernel", "recurrent", "bias", "factor")
               for rest in ("initializer", "regularizer", "constraint")]
_INITIAL = {"kernel_initializer": "glorot_uniform", "recurrent_initializer": "orthogonal",
            "bias_initializer": "zeros", "factor_initializer": "ones"}


@_register
class Recurrent(_Steps, keras.layers.RNN):
    """A layer of any cell, as a text (doc/cells.md) or by a name: a built-in one, or of ecornn.cells.

    units: H.  cell: the text.  heads, grouped_input: as ecornn.Layer's.  dropout: of the input, with one
    draw for a sequence, from seed, as ``bernoulli`` of the text, which draws in training.  Initializers,
    regularizers and constraints of ``kernel`` [I,count*H], the text's W in its order, I without the parts
    of x; ``recurrent_kernel`` [H,count*H]; ``bias`` and ``factor`` [count*H], its b and p; and the
    arguments of keras.layers.RNN.  With heads=K ``recurrent_kernel`` is [H/K,count*H], with
    grouped_input ``kernel`` [I/K,count*H].

    >>> import numpy as np, ecornn.keras
    >>> tuple(ecornn.keras.Recurrent(4, "mgu", return_sequences=True)(np.zeros((2, 5, 3), "float32")).shape)
    (2, 5, 4)
    """

    _OF_RNN = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll",
               "zero_output_for_mask", "activity_regularizer", "name")

    def __init__(self, units: int, cell: str, **more: Any) -> None:
        of_rnn = {name: more.pop(name) for name in self._OF_RNN if name in more}
        both = {name: more[name] for name in ("dtype", "trainable") if name in more}
        keras.layers.RNN.__init__(self, TextCell(units, cell, name="cell", **more), **of_rnn, **both)
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def inner_loop(self, sequences, initial_state, mask, training=False):
        cell, x, states = self.cell, _cast(sequences, self.compute_dtype), list(initial_state)
        draws = training and "bernoulli" in cell.text
        weights = [ops.convert_to_tensor(getattr(cell, _NAMES[kind])) for kind in cell.kinds]
        x = cell.drop(x, training=bool(training))
        return self._loop((cell.text, x.shape[-1], cell.units, cell.heads, cell.grouped_input),
                          (x, states, weights), mask, cell.seed_generator.next() if draws else None)

    def reset_state(self) -> None:
        for state, start in zip(self.states or (), self.cell.starts):
            state.assign(ops.full(state.shape, start, state.dtype))

    def get_config(self) -> dict[str, Any]:
        config, of_cell = super().get_config(), self.cell.get_config()
        del config["cell"]
        of_cell["cell"] = of_cell.pop("text")
        return {**of_cell, **config}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Recurrent:
        return cls(**config)


# ---- models -------------------------------------------------------------------------------------

_OURS = {keras.layers.LSTM: LSTM, keras.layers.GRU: GRU, keras.layers.SimpleRNN: SimpleRNN}


def replace(model: keras.Model) -> keras.Model:
    """Makes ecornn run every keras.layers.LSTM, GRU and SimpleRNN inside a model, in place.

    Weights, optimizer and files' names are the same.  A warning names recurrent layers that stay, and why.
    """
    left = []
    for layer in model._flatten_layers():
        was = type(layer)
        if was not in _OURS:
            if isinstance(layer, keras.layers.RNN) and not isinstance(layer, _Steps):
                left.append(f"{layer.name}: its class is {type(layer).__name__}")
            continue
        layer.__class__ = _OURS[was]
        try:
            layer._check()
        except BadArgument as error:
            layer.__class__ = was
            left.append(f"{layer.name}: {error}")
    # Compiled ones would run the old layers.
    model.train_function = model.test_function = model.predict_function = None
    if left:
        warnings.warn("ecornn.keras.replace left what Keras runs: " + "; ".join(left), stacklevel=2)
    return model


__all__ = ["GRU", "LSTM", "Recurrent", "SimpleRNN", "replace"]
