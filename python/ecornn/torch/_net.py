"""Layers of different sizes, cells and directions as one module: ``Net`` (doc/guide/nets.md)."""

from __future__ import annotations

import ctypes
import functools
import math
import re

import torch

from .. import _library as lib
from .._library import check, library, pack_gradient, pack_io
from .._plan import Parameter, cell, limit_of, saving_of
from .._plan import device as library_device
from ..cell import Cell, expected
from . import _reserve, _run
from ._eager import eager
from ._given import check_lengths, integers
from ._stream import stream_of

_WORDS = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16",
          torch.float16: "f16"}
_NONE = (0, 0, 0, 0)


class _Plan:
    """A plan of the library for runs of one shape, with data about its layers."""

    def __init__(self, on: str, text: str, cells: tuple[str, ...]):
        own = (ctypes.c_void_p * (len(cells) + 1))(*(cell(text) for text in cells), None)
        handle = ctypes.c_void_p()
        check(library.ecornn_net_plan_create(ctypes.byref(handle), library_device(on),
                                             text.encode(), own))
        self.handle, self.sizes, self.text = handle.value, lib.NetSizes(), text
        library.ecornn_net_plan_sizes(self.handle, ctypes.byref(self.sizes))
        self.layers = [self._layer(index) for index in range(self.sizes.layers)]

    def _layer(self, index: int) -> lib.NetLayer:
        layer = lib.NetLayer()
        check(library.ecornn_net_layer_get(self.handle, index, ctypes.byref(layer)))
        return layer

    def parameters(self, index: int) -> list[Parameter]:
        found, param, plan = [], lib.Param(), self.layers[index].plan
        for k in range(library.ecornn_param_count(plan)):
            check(library.ecornn_param_get(plan, k, ctypes.byref(param)))
            found.append(Parameter(param.name.decode(), param.offset, param.rows, param.cols))
        return found

    def __str__(self) -> str:
        size = library.ecornn_net_plan_print(self.handle, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        library.ecornn_net_plan_print(self.handle, text, size)
        return text.value.decode("utf-8", "replace")

    def __del__(self, free=library.ecornn_net_plan_free):
        if getattr(self, "handle", None) is not None:
            free(self.handle)


_plan = functools.lru_cache(maxsize=128)(_Plan)


@functools.lru_cache(maxsize=128)
def _plan_within(on: str, text: str, cells: tuple[str, ...], limit: int) -> _Plan:
    """The plan of a net whose reserve and workspace fit a limit.  The text's memory: limits each
    layer alone, so this searches for the largest such limit that fits."""
    few, many, found, least = 0, limit + 1, None, None
    while many - few > max(limit >> 8, 1):
        each = limit if many > limit else (few + many) // 2
        try:
            plan = _plan(on, _with_words(text, "memory", f"memory:{each}"), cells)
        except lib.BY_STATUS[1]:
            few = each
            if each == limit:
                raise
            continue
        took = plan.sizes.blocks.reserve + plan.sizes.blocks.workspace
        least = took if least is None else min(least, took)
        if took > limit:
            many = each
        else:
            few, found = each, plan
            if each == limit:
                break
    if found is None:
        raise lib.BY_STATUS[1](f"memory_limit is {limit}, must be at least about {least} for "
                               f"this net: {text}")
    return found


def _addresses(tensors):
    return (ctypes.c_void_p * max(len(tensors), 1))(
        *(None if tensor is None else tensor.data_ptr() for tensor in tensors))


class _Run:
    """One run: its plan and its tensors, all dense; lengths and weights may be None."""

    def __init__(self, plan, x, lengths, weights, batch_first, seed):
        self.plan, self.x, self.lengths, self.weights = plan, x, lengths, weights
        self.batch, self.steps = x.shape[:2] if batch_first else x.shape[1::-1]
        self.seed, self.stream = seed, stream_of(x.device.index) if x.is_cuda else 0

    def bytes(self, count: int):
        return torch.empty(count, dtype=torch.uint8, device=self.x.device)

    def reserve(self, params):
        """Memory for backward."""
        count = self.plan.sizes.blocks.reserve
        return self.bytes(count) if self.x.is_cuda else _reserve.lend(params, count)

    def pack(self, params) -> None:
        self.weights = self.bytes(self.plan.sizes.blocks.weights)
        check(library.ecornn_net_pack(self.plan.handle, _addresses(params),
                                      self.weights.data_ptr(), self.stream))

    def io(self, y, reserve) -> bytes:
        x, blocks = self.x, self.plan.sizes.blocks
        self.workspace = _run._scratch(blocks.workspace, x.device if x.is_cuda else None, "net")
        address = _run._address
        sizes = (self.steps, self.batch) if self.steps or self.batch else (lib.ALL, 0)
        return pack_io(*sizes, address(self.lengths), x.data_ptr(), address(y), *_NONE, *_NONE,
                       self.weights.data_ptr(), self.workspace.data_ptr(), address(reserve),
                       self.seed, self.stream, blocks.workspace,
                       0 if reserve is None else blocks.reserve)


def _states(counts, **tensors):
    """An array of ecornn_net_states; tensors: for each field those of all layers, concatenated."""
    array, first = (lib.NetStates * len(counts))(), 0
    for layer, count in zip(array, counts):
        for name, given in tensors.items():
            for s, state in enumerate(given[first:first + count]):
                getattr(layer, name)[s] = None if state is None else state.data_ptr()
        first += count
    return array


class _Function(torch.autograd.Function):
    """y and all final states from x, parameters and initial states."""

    @staticmethod
    def forward(ctx, net, plan, training, lengths, seed, x, *tensors):
        ctx.set_materialize_grads(False)
        count = plan.sizes.params
        x, *tensors = map(_run.dense, (x, *tensors))
        run = _Run(plan, x, lengths, None, net.batch_first, seed)
        y = x.new_empty(net._y_shape(plan, run.steps, run.batch))
        final = [x.new_empty(shape) for shape in net._state_shapes(run.batch)]
        reserve = run.reserve(tensors[:count]) if training else None
        run.pack(tensors[:count])
        states = _states(net._counts, initial=tensors[count:], final=final)
        check(library.ecornn_net_forward(plan.handle, run.io(y, reserve), states))
        if training:
            ctx.call = net, plan, seed, tensors[0].dtype if count else None
            ctx.save_for_backward(x, y if net._reads_y(x, plan) else None, reserve, lengths,
                                  run.weights, *tensors[count:])
        return (y, *final)

    @staticmethod
    def backward(ctx, dy, *dfinal):
        if torch.is_grad_enabled():
            raise NotImplementedError("ecornn: no gradient of a gradient (create_graph=True) of "
                                      "a net")
        x, y, reserve, lengths, weights, *initial = ctx.saved_tensors
        net, plan, seed, dtype = ctx.call
        run = _Run(plan, x, lengths, weights, net.batch_first, seed)
        count, wants = plan.sizes.params, ctx.needs_input_grad[5:]
        dx = torch.empty_like(x) if wants[0] else None
        dparams = [x.new_empty(shape, dtype=dtype) if want else None
                   for shape, want in zip(net._shapes, wants[1:])]
        dinitial = [torch.empty_like(state) if want and state is not None else None
                    for state, want in zip(initial, wants[1 + count:])]
        some = any(tensor is not None for tensor in dparams)
        dweights = run.bytes(plan.sizes.blocks.dweights) if some else None
        dy, dfinal = _run.dense(dy), [_run.dense(tensor) for tensor in dfinal]
        states = _states(net._counts, initial=initial, dfinal=dfinal, dinitial=dinitial)
        gradient = pack_gradient(_run._address(dy), *_NONE, _run._address(dx), *_NONE,
                                 _run._address(dweights), 0)
        check(library.ecornn_net_backward(plan.handle, run.io(y, reserve), gradient, states))
        if some:
            check(library.ecornn_net_unpack(plan.handle, dweights.data_ptr(), _addresses(dparams),
                                            0, run.stream))
        return (*(None,) * 5, dx, *dparams, *dinitial)


def _number(words: str, letter: str, default: int) -> int:
    found = re.search(rf"/{letter}(\d+)(?:/|$)", words)
    return int(found.group(1)) if found else default


def _with_words(text: str, name: str, words: str) -> str:
    """A net's text with these words added to each layer that has none of its own."""
    first, *pieces = text.split(";")

    def layer(piece: str) -> str:
        if piece.strip().startswith("join:") or re.search(rf"/{name}:", piece):
            return piece
        return f"{piece.rstrip()}/{words}"

    if re.search(rf"/{name}:", first):
        return text
    return ";".join([first, *("+".join(map(layer, piece.split("+"))) for piece in pieces)])


def _fit_saving(pieces: str, steps: int) -> str:
    """save:every:K with K limited to the layer's number of steps, as Layer does."""
    done = []
    for piece in pieces.split(";"):
        join = re.fullmatch(r"\s*join:(\d+)\s*", piece)
        steps = -(-steps // int(join.group(1))) if join else steps
        done.append(re.sub(r"(?<=/save:every:)\d+",
                           lambda every, most=steps: str(min(int(every.group()), most)), piece))
    return ";".join(done)


class Net(torch.nn.Module):
    """Layers of a text (doc/guide/nets.md): ``y, final = net(x, lengths, initial)``.

    input_size: I.  pieces: "lstm/H256/bi; join:2; gru/H256 + lstm/H128/rev".  cells: texts of the
    own cells that it names.  common: parts of a problem string for all layers, such as "fast".

    x: [T,N,I], or [N,T,I] with batch_first.  y: [U,N,output] with U = ceil(T / joined); its lengths
    are rounded up the same way, see output_lengths.  initial, final: a list with a tuple of states
    for each layer, [L*D,N,P] and later ones [L*D,N,H]; in initial a layer or a state may be None:
    the cell's start value.  Parameter 0.fwd.W.i of layer k is called lk_0_fwd_W_i.  Under autocast
    x has the lower type.

    saving: what forward saves for backward, ``all``, ``states`` or ``every:K``, in layers without a
    ``save:`` of their own.  memory_limit: limit in bytes on what a training run saves and uses as
    scratch, 0: none.  Both may be set at any time.

    >>> import torch, ecornn.torch
    >>> net = ecornn.torch.Net(3, "lstm/H4/bi; join:2; gru/H5")
    >>> y, final = net(torch.zeros(7, 2, 3))
    >>> tuple(y.shape), [len(states) for states in final]
    ((4, 2, 5), [2, 1])
    """

    def __init__(self, input_size: int, pieces: str, *, batch_first: bool = False, cells=(),
                 common: str = "", device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, saving: str = "all",
                 memory_limit: int = 0) -> None:
        super().__init__()
        saving_of(saving)
        self.saving, self.memory_limit = saving, limit_of(memory_limit)
        self.input_size, self.pieces, self.batch_first = input_size, pieces, batch_first
        self.cells, self.common = tuple(cells), common
        self._draws = ("dropout:" in pieces + common
                       or any("bernoulli" in text for text in self.cells))
        first = _plan("cpu:1", self._text("f32", 1, 1, False, True), self.cells)
        self.joined, self.output_size = first.sizes.joined, first.sizes.output
        own = {Cell(text).name: text for text in self.cells}
        layers = [layer.strip() for piece in pieces.split(";")
                  if not piece.strip().startswith("join:") for layer in piece.split("+")]
        self._counts, self._widths, self._bounds = [], [], []
        self._names, self._shapes = [], []
        for index, layer in enumerate(layers):
            self._add_layer(index, layer, own, first.parameters(index), device, dtype)
        self.reset_parameters()

    def _add_layer(self, index, layer, own, parameters, device, dtype) -> None:
        name, words = layer.split("/")[0], f"{layer}/{self.common}"
        hidden = _number(words, "H", 0)
        pairs = _number(words, "L", 1) * (1 + ("bi" in words.split("/")))
        count = Cell(own.get(name, name)).states
        self._counts.append(count)
        self._widths += [(pairs, hidden if s else _number(words, "P", hidden))
                         for s in range(count)]
        for param in parameters:
            vector = param.name.split(".")[2] in ("b", "p")
            shape = (param.rows,) if vector else (param.rows, param.cols)
            tensor = torch.nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            self._bounds.append(1 / math.sqrt(hidden))
            self._names.append(f"l{index}_{param.name.replace('.', '_')}")
            self._shapes.append(shape)
            self.register_parameter(self._names[-1], tensor)

    def _text(self, words: str, steps: int, batch: int, training: bool, draws: bool) -> str:
        """The library's text of a net, without words that only matter for training or draws."""
        said = [words, self.common, "train" if training else "",
                "batch-major" if self.batch_first else "", f"T{steps}", f"N{batch}",
                f"I{self.input_size}"]
        text = "/".join(word for word in said if word) + "; " + self.pieces
        saving_of(self.saving)
        if self.saving != "all" and training:
            text = _with_words(text, "save", f"save:{self.saving}")
        first, _, pieces = text.partition("; ")
        text = f"{_fit_saving(first, steps)}; {_fit_saving(pieces, steps)}"
        if not training:
            text = re.sub(r"/(save:|bf16-save|f16-save)[^/;+]*", "", text)
        return text if draws else re.sub(r"/dropout:[^/;+]*", "", text)

    def _reads_y(self, x, plan) -> bool:
        """Does backward read y?"""
        return x.is_cuda or bool(re.search(r"save|memory:", plan.text))

    def _plan(self, x, steps: int, batch: int, params, training: bool, draws: bool) -> _Plan:
        text = self._text(self._types(x, params), max(steps, 1), max(batch, 1), training, draws)
        cells = self.cells if draws else tuple(map(expected, self.cells))  # every reserve draws
        on, limit = _run.device_name(x.device), limit_of(self.memory_limit)
        return _plan_within(on, text, cells, limit) if limit and training else _plan(
            on, text, cells)

    def reset_parameters(self) -> None:
        """Uniform within 1 / sqrt(H) of the layer, as in torch.nn."""
        for name, bound in zip(self._names, self._bounds):
            torch.nn.init.uniform_(getattr(self, name), -bound, bound)

    def output_lengths(self, lengths):
        """The number of steps of y for rows with this number of steps of x."""
        return (integers("lengths", lengths) + self.joined - 1) // self.joined

    def _y_shape(self, plan, steps: int, batch: int) -> tuple[int, int, int]:
        steps = -(-steps // self.joined)
        return (*((batch, steps) if self.batch_first else (steps, batch)), self.output_size)

    def _state_shapes(self, batch: int) -> list[tuple[int, int, int]]:
        return [(pairs, batch, width) for pairs, width in self._widths]

    def _types(self, x, params) -> str:
        """The words for x's type and that of the parameters."""
        dtype = params[0].dtype if params else torch.float32
        for name, param, shape in zip(self._names, params, self._shapes):
            if param.shape != shape:
                raise ValueError(f"{name} is {list(param.shape)}, must be {list(shape)}")
            if param.device != x.device or param.dtype is not dtype:
                raise ValueError(f"{name} is {param.dtype} on {param.device}, must be {dtype} on "
                                 f"{x.device}, as the others and x")
        wide = torch.float64 if x.dtype is torch.float64 else torch.float32
        if x.dtype not in _WORDS or dtype not in (wide, x.dtype) or not (x.is_cpu or x.is_cuda):
            raise ValueError(f"x is {x.dtype} on {x.device}, parameters are {dtype}: must be floats"
                             " of one type on a CPU or a CUDA device, or float32 parameters")
        return _WORDS[x.dtype] + (f"/{_WORDS[dtype]}-params" if dtype is not wide else "")

    def _initial(self, initial, x, batch: int) -> list:
        """All states concatenated, dense and of x's type, or None."""
        if initial is None:
            return [None] * len(self._widths)
        shapes, states = self._state_shapes(batch), []
        for layer, count in zip(initial, self._counts):
            states += [None] * count if layer is None else layer
        found = [None if state is None else tuple(state.shape) for state in states]
        if len(initial) != len(self._counts) or len(found) != len(shapes) or any(
                shape not in (None, must) for shape, must in zip(found, shapes)):
            raise ValueError(f"initial has {len(initial)} layers with the shapes {found}, must have"
                             f" {len(self._counts)} with {shapes}")
        for state in states:
            if state is not None and state.device != x.device:
                raise ValueError(f"a state of initial is on {state.device}, must be on {x.device}")
        return [None if state is None else state.to(x.dtype).contiguous() for state in states]

    @eager
    def forward(self, x, lengths=None, initial=None):
        if x.dim() != 3 or x.shape[2] != self.input_size:
            raise ValueError(f"x is {list(x.shape)}, must have three dimensions, the last "
                             f"{self.input_size}")
        kind = x.device.type
        if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind) and (
                x.dtype is not torch.float64):
            x = x.to(torch.get_autocast_dtype(kind))
        batch, steps = x.shape[:2] if self.batch_first else x.shape[1::-1]
        params = [getattr(self, name).contiguous() for name in self._names]
        states = self._initial(initial, x, batch)
        draws = self.training and self._draws
        training = draws or torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in (x, *params, *states))
        plan = self._plan(x, steps, batch, params, training, draws)
        seed = int(torch.randint(2**62, (), device="cpu")) if draws else 0
        if lengths is not None:
            lengths = check_lengths(lengths, steps, (batch,), x.device)
        y, *final = _Function.apply(self, plan, training, lengths, seed, x.contiguous(), *params,
                                    *states)
        found = iter(final)
        return y, [tuple(next(found) for _ in range(count)) for count in self._counts]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.pieces!r}" + ", batch_first=True" * self.batch_first
