"""Models of guitar amplifiers: files .nam of Neural Amp Modeler (LSTM), and .json of RTNeural and
AIDA-X (LSTM or GRU), each with a dense layer at the end."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy

from ._errors import BadArgument, Unsupported, quoted
from ._files import contents
from .export import Head, export
from .layer import Layer

_MOST_BYTES = 64 << 20  # of a file
_MOST_SIZE = 4096  # of inputs, units and outputs
_MOST_NUMBER = float(numpy.finfo(numpy.float32).max)


class Amp:
    """A stream through a model, from load_amp: each call continues where the last one ended.

    layer: its recurrent layers.  head: the dense layer and the gains.  sample_rate in Hz, None if the
    file does not say it.  Not for several threads at a time.
    """

    def __init__(self, layer: Layer, head: Head, sample_rate: float | None):
        self.layer, self.head, self.sample_rate = layer, head, sample_rate
        self.reset()

    def reset(self) -> None:
        """Begins the stream again."""
        self._states = self.head.initial

    def __call__(self, x: Any) -> numpy.ndarray:
        """The next samples: x [T], or [T,I] if the model has several inputs, the first of which is
        sound; the others are settings.  Returns y [T], or [T,O]."""
        x = numpy.asarray(x, numpy.float32)
        rows = x[:, None] if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != self.layer.input:
            raise BadArgument(f"x is {list(x.shape)}, must be [T] or [T,{self.layer.input}]")
        rows = rows * numpy.float32([self.head.in_gain, *[1] * (rows.shape[1] - 1)])
        states = self._states and tuple(state[:, None] for state in self._states)
        h, after = self.layer(rows[:, None], states)
        self._states = tuple(state[:, 0] for state in after)
        y = h[:, 0] @ self.head.weight.T + self.head.bias
        if self.head.skip:
            y = y + rows[:, :1]
        y = y * numpy.float32(self.head.out_gain)
        return y[:, 0] if y.shape[1] == 1 else y

    def export(self, path: str | os.PathLike) -> None:
        """Writes the model as a C file and its header: ``ecornn.export.export``."""
        export(self.layer, path, self.head)


def load_amp(path: str | os.PathLike, device: str = "cpu:1") -> Amp:
    """Loads a model for a device.  Raises BadArgument for a file that is not of these formats, and
    Unsupported for one with other layers.

        amp = ecornn.load_amp("clean.nam")
        for block in blocks:  # [64]
            play(amp(block))
    """
    path = os.fsdecode(path)
    text = contents(path, _MOST_BYTES)
    try:
        model = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadArgument(f"{path!r} is not JSON: {error}") from None
    if not isinstance(model, dict):
        raise BadArgument(f"{path!r} holds {type(model).__name__}, must hold an object")
    try:
        return (_nam if "architecture" in model else _rtneural)(model, device)
    except (BadArgument, Unsupported) as error:
        raise type(error)(f"{path!r}: {error}") from None


# ---- parts of a file ---------------------------------------------------------------------------

def _at(place: Any, key: str, kind: type, default: Any = None) -> Any:
    """An object's member of a type."""
    found = place.get(key, default) if isinstance(place, dict) else default
    if not isinstance(found, kind) or isinstance(found, bool):
        raise BadArgument(f"{key} is {quoted(found)}, must be {kind.__name__}")
    return found


def _size(value: Any, name: str) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_SIZE:
        raise BadArgument(f"{name} is {quoted(value)}, must be 1 to {_MOST_SIZE}")
    return value


def _numbers(value: Any, shape: tuple[int, ...], name: str) -> numpy.ndarray:
    """An array of floats of this shape."""
    rows = [value]
    for count in shape:
        for row in rows:
            if not isinstance(row, list) or len(row) != count:
                said = f"{len(row)} items" if isinstance(row, list) else quoted(row)
                raise BadArgument(f"{name} has {said} where {count} must be, must be {list(shape)}")
        rows = [each for row in rows for each in row]
    for each in rows:
        if type(each) not in (int, float) or not abs(each) <= _MOST_NUMBER:
            raise BadArgument(f"{name} has {quoted(each)}, must have finite numbers")
    return numpy.array(rows, numpy.float32).reshape(shape)


def _rate(value: Any) -> float | None:
    try:
        rate = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return rate if 0 < rate < 1e9 else None


def _gain(model: dict, key: str) -> float:
    """A factor from decibels."""
    decibels = model.get(key, 0)
    if type(decibels) not in (int, float) or not abs(decibels) <= 200:
        raise BadArgument(f"{key} is {quoted(decibels)}, must be -200 to 200 dB")
    return float(10 ** (decibels / 20))


# ---- formats -----------------------------------------------------------------------------------

def _nam(model: dict, device: str) -> Amp:
    """Each layer has its matrix [4H,I+H], biases [4H], and initial h and c [H]; then the head's
    matrix [O,H] and biases [O]; all in one list."""
    if model["architecture"] != "LSTM":
        raise Unsupported(f"architecture is {quoted(model['architecture'])}, must be 'LSTM'")
    config = _at(model, "config", dict)
    I, H = (_size(config.get(key, default), key)
            for key, default in (("input_size", 1), ("hidden_size", None)))
    L = _size(config.get("num_layers"), "num_layers")
    O = _size(config.get("out_channels", 1), "out_channels")
    counts = [4 * H * ((H if layer else I) + H) + 6 * H for layer in range(L)]
    flat = _numbers(_at(model, "weights", list), (sum(counts) + O * H + O,), "weights")
    weights, initial = {}, numpy.zeros((2, L, H), numpy.float32)
    for layer, part in enumerate(numpy.split(flat, numpy.cumsum(counts))[:L]):
        matrix, bias, initial[0, layer], initial[1, layer] = numpy.split(
            part, numpy.cumsum([counts[layer] - 6 * H, 4 * H, H]))
        matrix = matrix.reshape(4 * H, -1)
        weights |= {f"weight_ih_l{layer}": matrix[:, :-H], f"weight_hh_l{layer}": matrix[:, -H:],
                    f"bias_ih_l{layer}": bias, f"bias_hh_l{layer}": numpy.zeros_like(bias)}
    made = Layer("lstm", I, H, layers=L, device=device)
    made.load("torch", weights)
    tail = flat[sum(counts):]
    return Amp(made, Head(tail[:O * H].reshape(O, H), tail[O * H:], initial=tuple(initial)),
               _rate(model.get("sample_rate")))


def _rtneural(model: dict, device: str) -> Amp:
    """Layers with Keras's arrays; AIDA-X adds gains, and the input to the output."""
    layers = _at(model, "layers", list)
    kinds = [_at(each, "type", str) for each in layers]
    *recurrent, last = kinds or [""]
    if last not in ("dense", "time-distributed-dense") or set(recurrent) not in ({"lstm"}, {"gru"}):
        raise Unsupported(f"layers are {quoted(', '.join(kinds))}, must be lstm or gru, then dense")
    activation = layers[-1].get("activation", "")
    if activation not in ("", "linear"):
        raise Unsupported(f"the dense layer has activation {quoted(activation)}, must have none")
    def width(place: Any, key: str) -> int:
        return _size((_at(place, key, list) or [None])[-1], key)

    I, O, sizes = width(model, "in_shape"), width(layers[-1], "shape"), {
        width(each, "shape") for each in layers[:-1]}
    if len(sizes) > 1:
        raise Unsupported(f"layers have {', '.join(map(str, sorted(sizes)))} units, must have equal "
                          "numbers")
    H, gates = sizes.pop(), 4 if recurrent[0] == "lstm" else 3
    weights = {}
    for k, each in enumerate(layers[:-1]):
        kernel, again, bias = _members(each, 3)
        end = f"_l{k}" if len(recurrent) > 1 else ""
        weights |= {f"kernel{end}": _numbers(kernel, (H if k else I, gates * H), "kernel"),
                    f"recurrent_kernel{end}": _numbers(again, (H, gates * H), "recurrent kernel"),
                    f"bias{end}": _numbers(bias, (gates * H,) if gates == 4 else (2, gates * H), "bias")}
    made = Layer(recurrent[0], I, H, layers=len(recurrent), device=device)
    made.load("keras", weights)
    kernel, bias = _members(layers[-1], 2)
    skip = model.get("in_skip", 0)
    if skip not in (0, 1):
        raise Unsupported(f"in_skip is {quoted(skip)}, must be 0 or 1")
    head = Head(numpy.ascontiguousarray(_numbers(kernel, (H, O), "dense kernel").T),
                _numbers(bias, (O,), "dense bias"), _gain(model, "in_gain"), bool(skip),
                _gain(model, "out_gain"))
    about = model.get("metadata")
    rate = about.get("samplerate") if isinstance(about, dict) else None
    return Amp(made, head, _rate(rate if rate is not None else model.get("samplerate")))


def _members(layer: dict, count: int) -> list:
    weights = _at(layer, "weights", list)
    if len(weights) != count:
        raise BadArgument(f"a layer {layer['type']} has {len(weights)} arrays, must have {count}")
    return weights


__all__ = ["Amp", "load_amp"]
