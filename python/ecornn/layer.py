"""Recurrent layers on arrays of any library: numpy, and libraries with DLPack or CUDA's protocol."""

from __future__ import annotations

import inspect
import math
import operator
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy

from . import _library as lib
from . import _exchange, _run, arrays
from ._errors import BadArgument
from ._locks import make_lock
from ._memory import address_of
from ._parameters import Parameters, convert
from ._plan import Plan, Plans, Shape, device as handle_of, limit_of, saving_of
from ._repeat import Repeat
from ._run import Gradients, Run
from .cell import Cell

_DIRECTIONS = {"forward": 0, "reverse": lib.REVERSE, "both": lib.BIDIRECTIONAL}
_TYPES = {"f32": lib.F32, "f64": lib.F64, "bf16": lib.BF16, "f16": lib.F16}
# Weights: flags and type.
_WEIGHTS = {name: (0, number) for name, number in _TYPES.items()}
_WEIGHTS |= {"int8": (lib.INT8, 0), "int8-weights": (0, lib.S8)}
_LARGEST = 2**31 - 1


def _one_of(name: str, value: Any, table: dict[str, Any]) -> Any:
    found = table.get(value) if isinstance(value, str) else None
    if found is None:
        raise BadArgument(f"{name} is {value!r}, must be one of {', '.join(table)}")
    return found


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(None if isinstance(value, bool) else value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, must be a whole number") from None


def _count(name: str, value: Any, least: int) -> int:
    number = _whole(name, value)
    if not least <= number <= _LARGEST:
        raise BadArgument(f"{name} is {number}, must be {least} to {_LARGEST}")
    return number


def _seed(value: Any) -> int:
    number = _whole("seed", value)
    if not 0 <= number < 2**64:
        raise BadArgument(f"seed is {number}, must be 0 to 2**64 - 1")
    return number


class Layer:
    """A stack of recurrent layers with parameters in host memory, run on one device.

    cell: a Cell, a name of a built-in one or of one of ``ecornn.cells``, or a text.  input I, hidden H, proj P (0: none, and P
    is H), layers L.  bidirectional: D is 2; direction: forward or reverse, if not bidirectional.
    batch_first: x and y are [N,T,*].
    dropout: on the input of layers 1 to L-1, in training.  dtype of arrays: f32, f64, bf16 or f16.
    device: cpu, cpu:K with K threads, cuda:K, reference (slow, double), None: the fastest.
    weights: the type of packed matrices, None: dtype; bf16 halves the bytes read with f32.  int8:
    f32 inference on a CPU by products of 8 bits; int8-weights: only matrices have 8 bits.
    fast_math, row_invariant: as in ecornn.h.  seed: for the initial parameters.
    saving: what forward saves for backward: all, states, or every:K; the rest is recomputed.  auto:
    all, or under a memory_limit whatever is fastest of what fits.
    memory_limit: limit in bytes on what a training run saves and uses as scratch, 0: none.
    heads: K; each R has a matrix [H/K,H/K] for each head, stacked: R is [H,H/K].  A cell with a matrix
    state has one [K,V] of each head, as a state [1,N,heads*K*V]: H is heads*V, and I, the sum of the
    parts of x, determines K.
    grouped_input: W also reads only its head's part of the input, [H,I/K].
    models: M sets of weights in one run; parameters, states, x and y have [M] first.  If x is
    [T,N,I], all models read it, as well as lengths, resets and mask; its gradient is then their
    sum.  A model has the bits of a layer of its own; in training its seed is the run's for model 0,
    and hashed from the run's seed and m for model m.  None: one model, no [M].

    All arguments are also read-only attributes.
    Parameters are float32 (float64 with f64), uniform in +-1/sqrt(H).  Any thread may run a layer,
    several at a time.  Raises BadArgument or TypeError for a wrong value, BadCell for a text,
    NoDevice, and Unsupported for what the device cannot do.

    >>> import numpy as np
    >>> layer = Layer("lstm", 3, 4, device="cpu")
    >>> y, (h, c) = layer(np.ones((5, 2, 3), np.float32))
    >>> y.shape, h.shape, c.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    >>> bool((y[-1] == h[0]).all())
    True
    """

    def __init__(self, cell: Cell | str, input: int, hidden: int, *, layers: int = 1,
                 direction: str = "forward", proj: int = 0, batch_first: bool = False,
                 dropout: float = 0.0, dtype: str = "f32", device: str | None = "cpu",
                 weights: str | None = None, fast_math: bool = False, row_invariant: bool = False,
                 seed: int = 0, saving: str = "auto", memory_limit: int = 0, heads: int = 1,
                 grouped_input: bool = False, models: int | None = None,
                 bidirectional: bool = False) -> None:
        self.cell = cell if isinstance(cell, Cell) else Cell(cell)
        self.input, self.hidden = _count("input", input, 1), _count("hidden", hidden, 1)
        self.layers, self.proj = _count("layers", layers, 1), _count("proj", proj, 0)
        self.heads, self.grouped_input = _count("heads", heads, 1), bool(grouped_input)
        self.models = None if models is None else _count("models", models, 1)
        self.lead = () if self.models is None else (self.models,)  # leading axes of arrays
        self.direction, self.bidirectional = direction, bool(bidirectional)
        self.batch_first = bool(batch_first)
        self.dtype, self.weights = dtype, weights
        self.fast_math, self.row_invariant = bool(fast_math), bool(row_invariant)
        self.saving, self.memory_limit = saving, limit_of(memory_limit)
        self.dropout = float(dropout)
        if not 0.0 <= self.dropout < 1.0:
            raise BadArgument(f"dropout is {self.dropout}, must be 0 to less than 1")
        if self.dropout > 0 and self.layers == 1:
            warnings.warn(f"dropout is {self.dropout}, but goes between layers, of which there is "
                          "one", stacklevel=2)
        if self.bidirectional and direction == "reverse":
            raise BadArgument("direction is 'reverse', must be 'forward' with bidirectional")
        self._type = _one_of("dtype", dtype, _TYPES)
        self.device = arrays.device_name(device)
        more_flags, weight_type = self._weight_type(weights)
        shape = Shape(
            self.cell.text, self.input, self.hidden, self.proj, self.layers,
            _one_of("direction", "both" if self.bidirectional else direction, _DIRECTIONS),
            self.batch_first, self.dropout if self.layers > 1 else 0.0,
            lib.FAST_MATH * self.fast_math | lib.ROW_INVARIANT * self.row_invariant |
            lib.GROUPED_INPUT * self.grouped_input | more_flags, weight_type, *saving_of(saving),
            self.memory_limit, self.heads, self.models or 1)
        self.directions, self.width, self.output = shape.directions, shape.width, shape.output
        self._param_type = lib.F64 if self._type == lib.F64 else lib.F32
        self._types = self._type, self._param_type
        self._plans = Plans(shape)
        self._plans_of_one = self._plans if shape.models == 1 else Plans(replace(shape, models=1))
        first = self._plans.get(self.device, (1, 1), self._types, False)
        self._widths, types = zip(*first.states())
        if set(types) != {self._type}:
            raise BadArgument(f"dtype is {dtype}, must be f32 or f64 of a cell with a matrix state")
        self._place, self._handle = arrays.Place(self.device), handle_of(self.device)
        self._table = first.parameters()
        self._lock = make_lock()
        self._last: Parameters | None = None
        self._take_block(self._initial(_seed(seed), first.most.param_elements))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ARGUMENTS and "_last" in self.__dict__:  # after construction
            raise AttributeError(f"{name} of a layer cannot be changed: make another one")
        super().__setattr__(name, value)

    def _weight_type(self, weights: Any) -> tuple[int, int]:
        if weights in (None, self.dtype):
            return 0, 0
        found = _one_of("weights", weights, _WEIGHTS)
        if found == (0, lib.F32):
            raise BadArgument(f"weights are f32, must be {self.dtype} like dtype, or bf16 or f16")
        return found

    def _initial(self, seed: int, count: int) -> numpy.ndarray:
        bound = 1 / math.sqrt(self.hidden)
        kind = numpy.float64 if self._param_type == lib.F64 else numpy.float32
        drawn = numpy.random.default_rng(seed).uniform(-bound, bound, count)
        return drawn.astype(kind)

    def _take_block(self, block: numpy.ndarray) -> None:
        self._block = Parameters(block, self._table, self.lead)
        self._freeze(False)

    def _freeze(self, frozen: bool) -> None:
        block = self._block.block
        self._frozen, self._repeats = frozen, {}  # runs like earlier ones, by the shape of x
        self._plans.take(address_of(block), block.nbytes, frozen)

    def _state_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """Shape of each state: [L*D,N,P], later ones [L*D,N,H]; with models [M] first."""
        return [(*self.lead, self.layers * self.directions, batch, width) for width in self._widths]

    # ---- parameters -----------------------------------------------------------------------

    @property
    def parameters(self) -> Parameters:
        """The parameters by name, views of one block in host memory.  They may be written at any
        time: the next run uses the new values.  A matrix is [H,I], [H,P] or [P,H], a vector [H]."""
        return self._block

    def freeze_weights(self) -> None:
        """Makes inference use the parameters as they are now, without checking for changes, which
        takes as long as reading all of them; until unfreeze_weights or load."""
        self._freeze(True)

    def unfreeze_weights(self) -> None:
        """Ends freeze_weights."""
        self._freeze(False)

    def changed(self) -> None:
        """Does nothing, because each run detects changes; for programs that call it."""

    def _part_of(self, model: Any) -> numpy.ndarray:
        """One model's part of the block."""
        if self.models is None:
            if model is not None:
                raise BadArgument(f"model is {model!r}, must be None of a layer without models")
            return self._block.block
        if model not in range(self.models):
            raise BadArgument(f"model is {model!r}, must be 0 to {self.models - 1}")
        return self._block.block.reshape(self.models, -1)[int(model)]

    def load(self, source: Any, given: Any = None, model: int | None = None, *,
             prefix: str | None = None) -> None:
        """Loads weights of torch, keras, flax, onnx, cudnn or ecornn itself (layer.parameters).

            layer.load("model.safetensors", prefix="encoder.lstm")
            layer.load("torch", module.state_dict())

        source: a file (.safetensors, .npz, .pt, .ckpt, .bin, .h5, .keras, .onnx) or a dict of arrays by name,
        also nested; its names say which system it is.  Or the system, and given: such a file or
        dict, or the arrays in the system's order, as a list or as one concatenated array.  prefix:
        takes only what is below that path, or the ONNX node of that name.  model: with several
        models, the one to load.  doc/guide/weights.md has names and shapes.
        With weights="int8" the integers of a DynamicQuantizeLSTM in a file .onnx, or of a layer of
        torch.ao.nn.quantized.dynamic as source, stay as they are, if their zero is 0.
        Raises BadArgument for names, shapes or a number of elements that do not match the layer,
        Unsupported if that system has no such cell; the parameters then do not change.
        """
        system = None if given is None else source
        given = source if given is None else given
        if hasattr(given, "get_weight") and hasattr(given, "get_bias"):
            given = _exchange.dequantised(given)
        if isinstance(given, (Mapping, str, os.PathLike)):
            system, given = _exchange.arrays_of(self, system, given, prefix)
        elif system is None or prefix is not None:
            raise BadArgument(f"source is {type(given).__name__}, must be a file or a dict of "
                              "arrays by name, without a system or with prefix")
        parts = list(given) if isinstance(given, (list, tuple)) or (
            isinstance(given, Iterable) and not hasattr(given, "shape")) else [given]
        flat = [arrays.to_numpy(part, f"given[{k}]") for k, part in enumerate(parts)]
        flat = [numpy.ravel(part) for part in _exchange.with_biases(self, system, flat)]
        whole = numpy.concatenate(flat) if flat else numpy.zeros(0, numpy.float32)
        if whole.dtype.kind not in "fiu":
            raise BadArgument(f"given is {whole.dtype}, must be numbers")
        kind = numpy.float64 if whole.dtype.itemsize > 4 else numpy.float32
        with self._lock:
            part = self._part_of(model)
            if system == "ecornn":
                if whole.size != part.size:  # numpy would repeat a single number
                    raise BadArgument(f"given has {whole.size} elements, must have {part.size}")
                part[:] = whole
            else:
                convert(self._plan_of_one(), system, part, numpy.ascontiguousarray(whole, kind))
        self.unfreeze_weights()

    def save(self, system: str = "ecornn", model: int | None = None, *,
             path: Any = None) -> dict[str, Any] | numpy.ndarray:
        """The weights as arrays of a system by name, in its order, nested for flax; for cudnn, which
        has no names, one concatenated array.  With several models those of one.  path: also writes
        them to that .safetensors or .npz file."""
        return _exchange.saved(self, system, model, path)

    def _plan_of_one(self) -> Plan:
        return self._plans_of_one.get(self.device, (1, 1), self._types, False)

    def plan(self, steps: int, batch: int, training: bool = False) -> Plan:
        """The plan for runs of this T and N, which is that of their bucket; str(plan) shows the
        choices and the reasons."""
        size = _count("steps", steps, 1), _count("batch", batch, 1)
        return self._plans.get(self.device, size, self._types, bool(training))

    # ---- runs -----------------------------------------------------------------------------

    def __call__(self, x: Any, initial: Any = None, lengths: Any = None, *,
                 stream: Any = None, **more: Any) -> tuple[Any, ...]:
        """Inference: returns y and a tuple of final states, in arrays of x's library.

        x: [T,N,I], or [N,T,I] with batch_first.  y: the same with D*P.  initial: a tuple of states,
        [L*D,N,P] and later ones [L*D,N,H]; None: the cell's start values.  lengths: [N] integers
        from 0 to T; None: all T; y is 0 past a row's length.  stream: on a GPU; None: the default
        one.

        more: resets, [T,N] or [N,T] as x: where nonzero, a row's states are replaced before that
        step by reset_state, which is shaped as initial.  mask, shaped as resets: where 0, the step
        does not count, and y repeats.  Both are in host memory.  repeat_padding=True: y also
        repeats past lengths. all_states=True: adds a third result, the states of every step,
        [L*D,T,N,*].  first=(step, row): position of this run in a larger one.
        doc/guide/sequences.md has the details.
        """
        if type(x) is numpy.ndarray and lengths is None and not more:
            repeat: Repeat | None = self._repeats.get(x.shape)
            if repeat is not None and repeat.takes(x, initial):
                return repeat(x, initial)
        return _run.infer(_run.Job(self, x, initial, lengths, False, 0, stream,
                                   _run.Steps(**more) if more else _run.PLAIN))

    def forward(self, x: Any, initial: Any = None, lengths: Any = None, *, seed: int = 0,
                stream: Any = None, **more: Any) -> Run:
        """A training run.  Arguments as for inference; seed: for dropout and bernoulli.  With
        all_states the run has states, and its backward takes dstates.

        >>> import numpy as np
        >>> layer = Layer("gru", 3, 4)
        >>> run = layer.forward(np.ones((5, 2, 3), np.float32))
        >>> grads = run.backward(dy=np.ones_like(run.y))
        >>> grads.x.shape, grads.parameters["0.fwd.R.q"].shape
        ((5, 2, 3), (4, 4))
        """
        return Run(_run.Job(self, x, initial, lengths, True, _seed(seed), stream,
                            _run.Steps(**more) if more else _run.PLAIN))

    def _new_gradient(self) -> Parameters:
        block = self._block.block
        return Parameters(numpy.empty(block.shape, block.dtype), self._table, self.lead)

    def _gradient_to_add_to(self, accumulate: Any) -> Parameters | None:
        if accumulate is False:
            return None
        found = self._last if accumulate is True else getattr(accumulate, "parameters", None)
        if isinstance(found, Parameters) and found.block.shape == self._block.block.shape and (
                found.block.dtype == self._block.block.dtype and found.block.flags.carray):
            return found
        raise BadArgument(f"accumulate is {accumulate!r}, must be Gradients of this layer's "
                          "parameters, or True after a backward")

    # ---- copies ---------------------------------------------------------------------------

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _ARGUMENTS}

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments(), "block": self._block.block.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict) or set(state) != {"arguments", "block"} or (
                not isinstance(state["arguments"], dict)):
            raise BadArgument("the state of a layer must be a dict of its arguments, a dict, and "
                              "its block")
        arguments, block = dict(state["arguments"]), state["block"]
        if isinstance(arguments.get("cell"), Cell):
            arguments["cell"] = Cell(arguments["cell"].text)
        made = type(self)(**arguments)
        ours = made._block.block
        if not isinstance(block, numpy.ndarray) or block.dtype != ours.dtype or (
                block.shape != ours.shape or not block.flags.c_contiguous):
            form = (f"{block.dtype.str} {list(block.shape)} with strides {list(block.strides)}"
                    if isinstance(block, numpy.ndarray) else type(block).__name__)
            raise BadArgument(f"the block of a layer is {form}, must be an array {ours.dtype.str} "
                              f"{list(ours.shape)}, dense")
        self.__dict__.update(made.__dict__)
        # Memory-mapped blocks may be read-only.
        self._take_block(numpy.require(block, requirements="CAWE"))

    def __repr__(self) -> str:
        said = [repr(self.cell.name), str(self.input), str(self.hidden)]
        said += [f"{name}={value!r}" for name, value in self._arguments().items()
                 if name not in ("cell", "input", "hidden")
                 and (name in ("dtype", "device") or value != _ARGUMENTS[name])]
        return f"Layer({', '.join(said)})"


# Arguments of a layer, all but its seed, and their defaults.  Plans and arrays depend on them: changing
# one later would have no effect.
_ARGUMENTS = {name: each.default for name, each in inspect.signature(Layer).parameters.items() if name != "seed"}


__all__ = ["Gradients", "Layer", "Parameters", "Run"]
