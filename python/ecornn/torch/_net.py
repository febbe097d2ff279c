"""Layers of different sizes, cells and directions as one module: ``Net`` (doc/guide/nets.md)."""

from __future__ import annotations

import ctypes
import math
import re

import torch

from .. import _library as lib
from .._library import check, library
from .._plan import limit_of, saving_of
from ..cell import Cell, cells as published, expected
from . import _graph, _kept, _net_op, _run, _watched  # noqa: F401
from ._freezing import Freezing
from ._given import check_lengths, check_steps, integers
from ._net_plan import Plan, fit_saving, number, plan_of, plan_within, with_words
from ._spec import one_line
from ._stream import capturing, stream_of

_WORDS = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16"}


def _layers(counts, pack, **tensors):
    """io.layers or gradient.layers; tensors: for fields of states those of all layers, concatenated.
    Keeps what it points to."""
    made, first = [], 0
    for count in counts:
        made.append(pack(**{name: given[first:first + count] for name, given in tensors.items()}))
        first += count
    array = lib.layers_of(made)
    array.keeps = made
    return array


class Run:
    """One run.  counts: lengths, resets and mask, or None each; these and x are dense."""

    def __init__(self, net, plan, counts, seed, x):
        self.net, self.plan, self.counts, self.seed, self.x = net, plan, counts, seed, x
        self.batch, self.steps = x.shape[-3:-1] if net.batch_first else x.shape[-2:-4:-1]
        self.stream, self.device = (stream_of(x.device.index), x.device) if x.is_cuda else (0, None)

    def _pack(self, params, frozen):
        """Packed weights, those that frozen keeps if it is not None."""
        kept = {} if frozen is None else frozen.of_net
        weights = kept.get((self.plan, self.stream))
        if weights is None:
            weights = _kept.fresh(self.plan.most.weight_bytes, self.x.device)
            check(library.ecornn_pack(self.plan.handle, self.net._places(params), None,
                                      weights.data_ptr(), self.stream))
            kept[self.plan, self.stream] = weights
        return weights

    def _io(self, y, reserve, weights, layers) -> bytes:
        sizes = self.plan.most
        self.workspace = _run._scratch(sizes.workspace_bytes, self.device, "net")
        lengths, resets, mask = self.counts
        return _run.pack_io(
            lengths=lengths, x=self.x, y=y, weights=weights, workspace=self.workspace, reserve=reserve,
            workspace_bytes=sizes.workspace_bytes, reserve_bytes=0 if reserve is None else sizes.reserve_bytes,
            seed=self.seed, stream=self.stream, resets=resets, mask=mask, layers=ctypes.addressof(layers))

    def forward(self, training: bool, tensors, frozen=None):
        """y and final states, the reserve or None, and packed weights.  tensors: parameters, then initial
        states or None each; all dense.  frozen: keeps the packed parameters; or None."""
        net, plan, x, count = self.net, self.plan, self.x, len(self.net._names)
        y = x.new_empty(net._y_shape(self.steps, self.batch))
        final = [x.new_empty(shape) for shape in net._state_shapes(self.batch)]
        reserve, bytes = None, plan.most.reserve_bytes
        if training:
            reserve = _kept.fresh(bytes, self.device) if self.device else _kept.lend(tensors[:count], bytes)
        weights = self._pack(tensors[:count], frozen)
        layers = _layers(net._counts, _run.pack_io, initial=tensors[count:], final=final)
        check(library.ecornn_forward(plan.handle, self.steps, self.batch, self._io(y, reserve, weights, layers)))
        return (y, *final), reserve, weights

    def backward(self, kept, outputs, dtype, wants):
        """Gradients of x, parameters of that type and initial states, None each where not wanted; kept: y,
        reserve, packed weights and initial states; outputs: gradients of the results."""
        net, plan, x, (y, reserve, weights, *initial) = self.net, self.plan, self.x, kept
        count, outputs = len(net._names), [*map(_run.dense, outputs)]
        dx = torch.empty_like(x) if wants[0] else None
        dparams = [x.new_empty(shape, dtype=dtype) if want else None
                   for shape, want in zip(net._shapes, wants[1:])]
        dstates = [torch.empty_like(state) if want and state is not None else None
                   for state, want in zip(initial, wants[1 + count:])]
        some = any(tensor is not None for tensor in dparams)
        dweights = _run._scratch(plan.most.dweight_bytes, self.device, "dweights") if some else None
        layers = _layers(net._counts, _run.pack_io, initial=initial)
        dlayers = _layers(net._counts, lambda results, inputs: _run.pack_gradient([None, *results], [None, *inputs]),
                          results=outputs[1:], inputs=dstates)
        gradient = _run.pack_gradient(outputs[:1], [dx], dweights=dweights, layers=ctypes.addressof(dlayers))
        check(library.ecornn_backward(plan.handle, self.steps, self.batch,
                                      self._io(y, reserve, weights, layers), gradient))
        if some:
            check(library.ecornn_unpack(plan.handle, dweights.data_ptr(), net._places(dparams), 0, self.stream))
        return dx, *dparams, *dstates


class _Function(torch.autograd.Function):
    """y and all final states from x, parameters and initial states; of: Run's arguments but x."""

    @staticmethod
    def forward(ctx, of, training, frozen, x, *tensors):
        ctx.set_materialize_grads(False)
        x, *tensors = map(_run.dense, (x, *tensors))
        results, reserve, packed = Run(*of, x).forward(training, tensors, frozen)
        if training:
            (net, plan, counts, seed), count = of, len(of[0]._names)
            ctx.call = net, plan, seed, tensors[0].dtype if count else None
            ctx.save_for_backward(x, results[0] if plan.most.reads_y else None, reserve,
                                  *counts, packed, *tensors[count:])
            ctx.params = _watched.Weights(tensors[:count])
        return results

    @staticmethod
    def backward(ctx, *outputs):
        net, plan, seed, dtype = ctx.call
        need, saved = ctx.needs_input_grad[3:], ctx.saved_tensors
        if _watched.derived(outputs):
            if not torch.compiler.is_compiling():
                ctx.params.check()
            found = net._gradients(outputs, seed, saved, ctx.params.tensors, need)
        else:
            x, y, reserve, *counts = saved[:6]
            found = Run(net, plan, counts, seed, x).backward((y, reserve, *saved[6:]), outputs, dtype, need)
        return (None, None, None, *found)


class Net(Freezing, torch.nn.Module):
    """Layers of a text (doc/guide/nets.md): ``y, final = net(x, lengths, initial)``.

    input_size: I.  pieces: "lstm/H256/bi; join:2; gru/H256 + lif/H128/rev".  cells: texts of the own
    cells that it names, if any are neither built in nor of the library ``ecornn.cells``.  common:
    parts of a problem string for all layers, such as "fast".

    x: [T,N,I], or [N,T,I] with batch_first.  y: [U,N,output] with U = ceil(T / joined); its lengths
    are rounded up the same way, see output_lengths.  initial, final: a list with a tuple of states
    for each layer, [L*D,N,P] and later ones [L*D,N,H]; in initial a layer or a state may be None:
    the cell's start value.  Parameter 0.fwd.W.i of layer k is called lk_0_fwd_W_i.  Under autocast
    x has the lower type.

    resets, mask: booleans [T,N], or [N,T] with batch_first, as for the layers.  Where resets is true
    an episode begins, so states start again between that step and the one before; where mask is
    false the step does not count.  A joined step counts if any of its steps does, and begins an
    episode if any of those does; in it, steps that do not count are zeros.  A piece "dropout:0.1"
    drops elements of what is between two layers, in training.

    With "models:M" in common all of them have M first, and so do parameters; with "shared-x" x,
    lengths, resets and mask do not.

    saving, memory_limit: what forward saves for backward in layers without a ``save:`` of their own,
    and the net's limit in bytes, as ecornn.Layer's.  Both may be set at any time.

    >>> import torch, ecornn.torch
    >>> net = ecornn.torch.Net(3, "lstm/H4/bi; join:2; gru/H5")
    >>> y, final = net(torch.zeros(7, 2, 3))
    >>> tuple(y.shape), [len(states) for states in final]
    ((4, 2, 5), [2, 1])
    """

    def __init__(self, input_size: int, pieces: str, *, batch_first: bool = False, cells=(),
                 common: str = "", device: torch.device | str | int | None = None,
                 dtype: torch.dtype | None = None, saving: str = "auto",
                 memory_limit: int = 0) -> None:
        super().__init__()
        saving_of(saving)
        self.saving, self.memory_limit = saving, limit_of(memory_limit)
        self.input_size, self.pieces, self.batch_first = input_size, pieces, batch_first
        own, named = {Cell(text).name for text in cells}, re.findall(r"(?:^|[;+])\s*([\w-]+)", pieces)
        self.cells = (*cells, *(published[name] for name in dict.fromkeys(named)
                                if name in published and name not in own))
        self.common = common
        self._draws = ("dropout:" in pieces + common
                       or any("bernoulli" in text for text in self.cells))
        first = plan_of("reference", self._text("f32", 1, 1, False, True), self.cells)
        self.joined, self.output_size = first.most.joined, first.most.output
        own = {Cell(text).name: text for text in self.cells}
        layers, joins, joined = [], [], 1  # joined: steps of x in one of a layer
        for piece in map(str.strip, pieces.split(";")):
            if piece.startswith("join:"):
                joined *= int(piece[5:])
            elif not piece.startswith("dropout:"):
                layers += map(str.strip, piece.split("+"))
                joins += [joined] * (len(layers) - len(joins))
        said = re.search(r"(?:^|/)models:(\d+)", common)
        self.models = int(said.group(1)) if said else 1
        self._shared = self.models > 1 and "shared-x" in common.split("/")
        self._counts, self._widths, self._bounds, self._groups = [], [], [], []
        self._names, self._shapes = [], []
        self._joins: list[int] = []  # of each parameter
        for index, layer in enumerate(layers):
            self._add_layer(index, layer, own, first.parameters(first.layers[index]))
            self._joins += [joins[index]] * (len(self._names) - len(self._joins))
        self._make(device, dtype)

    def _make(self, device, dtype) -> None:
        """Makes the parameters."""
        for name, shape in zip(self._names, self._shapes):
            self.register_parameter(name, torch.nn.Parameter(
                torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _add_layer(self, index, layer, own, parameters) -> None:
        name, words = layer.split("/")[0], f"{layer}/{self.common}"
        hidden = number(words, "H", 0)
        pairs = number(words, "L", 1) * (1 + ("bi" in words.split("/")))
        count = Cell(own.get(name, name)).states
        self._counts.append(count)
        self._widths += [(pairs, hidden if s else number(words, "P", hidden)) for s in range(count)]
        self._groups.append(len(parameters) // self.models)
        for param in parameters[:self._groups[-1]]:
            plain = param.name.split(":")[-1]  # that of model 0
            self._bounds.append(1 / math.sqrt(hidden))
            self._names.append(f"l{index}_{plain.replace('.', '_')}")
            self._shapes.append(self._of_models(*param.shape))

    def _of_models(self, *shape) -> tuple[int, ...]:
        """The shape with that of the models, if there are several."""
        return (self.models, *shape) if self.models > 1 else shape

    def _places(self, tensors):
        """Addresses of parameters, or 0, as the library takes them: layer by layer, in each model by
        model."""
        found, rest = [], iter(tensors)
        for count in self._groups:
            group = [(0, 0) if one is None else (
                one.data_ptr(), one.numel() // self.models * one.element_size())
                for _, one in zip(range(count), rest)]
            found += [first + model * size for model in range(self.models) for first, size in group]
        return (ctypes.c_void_p * max(len(found), 1))(*found)

    def _text(self, words: str, steps: int, batch: int, training: bool, draws: bool) -> str:
        """The library's text of a net, without words that only matter for training or draws."""
        said = [words, self.common, "train" if training else "",
                "batch-major" if self.batch_first else "", f"T{steps}", f"N{batch}",
                f"I{self.input_size}"]
        text = "/".join(word for word in said if word) + "; " + self.pieces
        saving_of(self.saving)
        if self.saving != "auto" and training:
            text = with_words(text, "save", f"save:{self.saving}")
        first, _, pieces = text.partition("; ")
        text = f"{fit_saving(first, steps)}; {fit_saving(pieces, steps)}"
        if not training:
            text = re.sub(r"/(save:|bf16-save|f16-save)[^/;+]*", "", text)
        return text if draws else re.sub(r"/dropout:[^/;+]*|;\s*dropout:[^;]*", "", text)

    def _plan(self, x, params, counts, training: bool, draws: bool) -> Plan:
        batch, steps = x.shape[-3:-1] if self.batch_first else x.shape[-2:-4:-1]
        words = self._types(x, params)
        for word, given in zip(("resets", "mask"), counts[1:]):
            if given is not None and word not in self.common.split("/"):
                words += f"/{word}"
        text = self._text(words, max(steps, 1), max(batch, 1), training, draws)
        cells = self.cells if draws else tuple(map(expected, self.cells))  # every reserve draws
        on, limit = _run.device_name(x.device), limit_of(self.memory_limit)
        return plan_within(on, text, cells, limit) if limit and training else plan_of(
            on, text, cells)

    def reset_parameters(self) -> None:
        """Uniform within 1 / sqrt(H) of the layer, as in torch.nn."""
        for name, bound in zip(self._names, self._bounds):
            torch.nn.init.uniform_(getattr(self, name), -bound, bound)

    def output_lengths(self, lengths):
        """The number of steps of y for rows with this number of steps of x."""
        return (integers("lengths", lengths) + self.joined - 1) // self.joined

    def _y_shape(self, steps: int, batch: int) -> tuple[int, int, int]:
        steps = -(-steps // self.joined)
        return self._of_models(*((batch, steps) if self.batch_first else (steps, batch)),
                               self.output_size)

    def _state_shapes(self, batch: int) -> list[tuple[int, int, int]]:
        return [self._of_models(pairs, batch, width) for pairs, width in self._widths]

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

    def check(self, x) -> None:
        """Refuses an x of another shape."""
        first = (self.models,) if self.models > 1 and not self._shared else ()
        if x.dim() != 3 + len(first) or (*x.shape[:-3], x.shape[-1]) != (*first, self.input_size):
            many = f"four dimensions, the first {self.models}" if first else "three dimensions"
            raise ValueError(f"x is {list(x.shape)}, must have {many}, the last {self.input_size}")

    def _rows(self, x) -> tuple[int, ...]:
        """The shape of lengths."""
        return (*x.shape[:-3], x.shape[-3 if self.batch_first else -2])

    def forward(self, x, lengths=None, initial=None, *, resets=None, mask=None):
        if not torch.compiler.is_compiling():
            node = _graph.node(self, (x, lengths, initial), {"resets": resets, "mask": mask})
            if node is not None:
                return node
        self.check(x)
        kind = x.device.type
        if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind) and (
                x.dtype is not torch.float64):
            x = x.to(torch.get_autocast_dtype(kind))
        params = [getattr(self, name).contiguous() for name in self._names]
        states = self._initial(initial, x, x.shape[-3 if self.batch_first else -2])
        draws = self.training and self._draws
        counts = (lengths, check_steps("resets", resets, x, self.batch_first),
                  check_steps("mask", mask, x, self.batch_first))
        seen = torch.compiler.is_compiling() or _watched.transformed() or _watched.by_operator(
            (x, *counts), params, states)
        run = self._in_graph if seen else self._eagerly
        y, *final = run(x, counts, params, states, draws)
        found, first = [], 0
        for count in self._counts:
            found.append(tuple(final[first:first + count]))
            first += count
        return y, tuple(found) if _watched.traced() else found  # TorchScript's lists have one type

    def _in_graph(self, x, counts, params, states, draws: bool):
        lengths, resets, mask = counts
        if lengths is not None:
            lengths = integers("lengths", lengths).to(x.device)
        return torch.ops.ecornn.net(
            *self._arguments((x, lengths, resets, mask, params, states), draws,
                             _graph.drawn(x) if draws else None),
            _watched.keeps([x, *params, *states]))[:-2]

    def _gradients(self, outputs, seed: int, saved, params, need):
        """backward's results by the operator, which autograd, modes and batched gradients see."""
        x, y, reserve, lengths, resets, mask, packed, *states = saved
        places = [place for place, state in enumerate(states) if state is not None]
        most = 1 + len(params)
        wanted = [*need[:most], *[need[most + place] for place in places]]
        batch, steps = x.shape[-3:-1] if self.batch_first else x.shape[-2:-4:-1]
        y = x.new_empty(self._y_shape(steps, batch)) if y is None else y  # then it is not read
        found = torch.ops.ecornn.net_backward(
            outputs, y, reserve, packed,
            *self._arguments((x, lengths, resets, mask, params, states), seed != 0,
                             torch.tensor([seed], device="cpu") if seed else None), wanted)
        found = [gradient if want else None for gradient, want in zip(found, wanted)]
        given = dict(zip(places, found[most:]))
        return (*found[:most], *[given.get(place) for place in range(len(states))])

    def _arguments(self, tensors, draws: bool, seed):
        """Those that the operator and its gradient have in common."""
        *counted, params, states = tensors
        places = [place for place, state in enumerate(states) if state is not None]
        return (*counted, list(params),
                [states[place] for place in places] or None, ",".join(map(str, places)),
                self.input_size, self.pieces, self.batch_first, one_line("\f".join(self.cells)),
                self.common, self.saving, self.memory_limit, draws, seed)

    def _eagerly(self, x, counts, params, states, draws: bool):
        lengths, *rest = counts
        training = draws or torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in (x, *params, *states))
        plan = self._plan(x, params, counts, training, draws)
        seed = int(torch.randint(2**62, (), device="cpu")) if draws else 0
        if lengths is not None:
            steps = x.shape[-2 if self.batch_first else -3]
            lengths = check_lengths(lengths, steps, self._rows(x), x.device)
        frozen = self._tensors()
        if type(frozen) is not _kept.Frozen or x.is_cuda and capturing():
            frozen = None  # a graph packs the values at the time of replay
        return _Function.apply((self, plan, (lengths, *rest), seed), training, frozen, x.contiguous(),
                               *(frozen or params), *states)

    def _tensors(self) -> list:
        return self._serving([getattr(self, name) for name in self._names])

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.pieces!r}" + ", batch_first=True" * self.batch_first
