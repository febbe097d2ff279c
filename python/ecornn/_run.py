"""One run of a layer on arrays, and its gradient.

The addresses of all arrays are read before a run, and every array is held until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from . import _library as lib
from . import arrays
from ._errors import BadArgument
from ._library import pack_gradient, pack_io
from ._memory import Memory, address_of, wait
from ._parameters import Parameters
from ._repeat import Repeat
from ._runner import ask_of
from .arrays import INT32, View
from .results import Results

if TYPE_CHECKING:
    from .layer import Layer

_LARGEST = 2**31 - 1


def stream_of(stream: Any) -> int:
    """A cudaStream_t as a number, from a stream of torch, cupy or numba, or from a number."""
    if stream is None:
        return 0
    if isinstance(stream, int) and not isinstance(stream, bool):
        if 0 <= stream < 2**64:
            return 0 if stream == 1 else stream  # In DLPack 1 is the default stream.
        raise BadArgument(f"stream is {stream}, must be the address of a cudaStream_t, or 0")
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        return int(protocol()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    raise TypeError(f"stream is {stream!r}, must be a number or a stream of torch, cupy or numba")


def states_of(given: Any, name: str, count: int) -> list[Any]:
    """One array or None for each state; given: None, a sequence, or the array of the only state."""
    if given is None:
        return [None] * count
    if isinstance(given, (list, tuple)):
        if len(given) != count:
            raise BadArgument(f"{name} has {len(given)} states, must have the cell's {count}")
        return list(given)
    if count != 1:
        raise TypeError(f"{name} is {type(given).__name__}, must be a tuple of {count} states")
    return [given]


@dataclass(frozen=True)
class Steps:
    """Arguments of a run about single steps of rows; see Layer."""

    resets: Any = None
    reset_state: Any = None
    mask: Any = None
    repeat_padding: bool = False
    all_states: bool = False
    first: tuple[int, int] = (0, 0)

    @property
    def flags(self) -> int:
        """The plan's flags."""
        return (lib.RESETS * (self.resets is not None) | lib.MASK * (self.mask is not None)
                | lib.REPEAT_PADDING * bool(self.repeat_padding)
                | lib.ALL_STATES * bool(self.all_states))


PLAIN = Steps()


class Job:
    """The inputs of a run: arrays in the library's form, and what is asked of the plan."""

    __slots__ = ("layer", "stream", "steps", "batch", "x", "initial", "lengths", "seed", "more", "resets",
                 "starts", "mask", "lead", "ask")

    def __init__(self, layer: Layer, x, initial, lengths, training: bool, seed: int, stream,
                 more: Steps = PLAIN):
        place, type = layer._place, layer._type
        self.layer, self.seed = layer, seed
        self.stream = stream_of(stream) if place.on_gpu else 0
        major, minor = ("N", "T") if layer.batch_first else ("T", "N")
        read = arrays.read(x, "x", place, self.stream)
        self.lead = () if len(read.shape) == 3 else layer.lead
        self.x = arrays.expect(read, "x", (*self.lead, major, minor, layer.input), type)
        first, second = self.x.shape[-3:-1]
        self.steps, self.batch = (second, first) if layer.batch_first else (first, second)
        for letter, size in (("T", self.steps), ("N", self.batch)):
            if size > _LARGEST:
                raise BadArgument(f"x has {letter} = {size}, must be at most {_LARGEST}")
        self.initial = self._states(initial, "initial")
        self.more, self.resets = more, None
        if more is not PLAIN:
            self.resets, self.mask = self._bytes(more.resets, "resets"), self._bytes(more.mask, "mask")
            if more.reset_state is not None and self.resets is None:
                raise BadArgument("reset_state is given, but no resets")
            self.starts = self._states(more.reset_state, "reset_state")
        self.lengths = None if lengths is None else _lengths(
            lengths, self.steps, (*self.lead, self.batch), layer, self.stream)
        shared = lib.SHARED_INPUT * (self.lead != layer.lead and layer.lead[0] > 1)
        self.ask = ask_of(layer._handle, place.on_gpu, (self.steps, self.batch), layer._types,
                          more.flags | shared | lib.TRAINING * training)

    def _states(self, given: Any, name: str) -> list[View | None]:
        layer = self.layer
        if given is None:
            return []
        shapes = layer._state_shapes(self.batch)
        return [
            None if state is None else arrays.expect(
                arrays.read(state, f"{name}[{s}]", layer._place, self.stream), f"{name}[{s}]",
                shapes[s], layer._type)
            for s, state in enumerate(states_of(given, name, layer.cell.states))
        ]

    def _bytes(self, given: Any, name: str) -> View | None:
        """Steps of rows, in the order of x, as bytes [T,N] or [M,T,N] in device memory; or None."""
        if given is None:
            return None
        host, first = arrays.to_numpy(given, name), self.x.shape[:-1]
        if host.dtype.kind not in "biuf":
            raise BadArgument(f"{name} are {host.dtype}, must be numbers")
        if host.shape != first:
            raise BadArgument(f"{name} are {list(host.shape)}, must be {list(first)}")
        found = host != 0
        if host.dtype.kind == "f" and (found != host).any():
            raise BadArgument(f"{name} have {host[found != host][0]}, floats must be 0 or 1")
        if self.layer.batch_first:
            found = found.swapaxes(-1, -2)
        host = numpy.ascontiguousarray(found)
        return _placed(host.view(numpy.uint8), given, self.layer)

    @property
    def is_plain(self) -> bool:
        """Has the run an x, not empty, perhaps initial states, and nothing else?"""
        return self.more is PLAIN and self.lengths is None and self.steps > 0 and self.batch > 0

    def y_shape(self) -> tuple[int, ...]:
        layer = self.layer
        return (*layer.lead, *self.x.shape[-3:-1], layer.output)

    def shown_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the states of every step, if requested."""
        return [(*lead, self.steps, batch, width) for *lead, batch, width in
                self.layer._state_shapes(self.batch) if self.more.all_states]

    def io(self, **results) -> bytes:
        """ecornn_io with these addresses of results."""
        if self.more is not PLAIN:
            first = [_count32("first", number) for number in self.more.first]
            results.update(resets=self.resets, reset_state=self.starts, mask=self.mask, first_step=first[0],
                           first_row=first[1])
        return pack_io(lengths=self.lengths, x=self.x, initial=self.initial, seed=self.seed,
                       stream=self.stream, **results)


def _count32(name: str, number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{name} has {number!r}, must be a pair of ints")
    if not 0 <= number < 2**32:
        raise BadArgument(f"{name} has {number}, must be 0 to 2**32 - 1")
    return number


def _lengths(given: Any, steps: int, rows: tuple[int, ...], layer: Layer, stream: int) -> View:
    """Lengths of rows, [N] or [M,N], as int32 in device memory.  Those in host memory are checked
    and copied."""
    place = layer._place
    if place.on_gpu and arrays.is_on_gpu(given):
        view = arrays.read(given, "lengths", place, stream)
        return arrays.expect(view, "lengths", rows, INT32)
    host = arrays.to_numpy(given, "lengths")
    if host.size == 0 and rows[-1] == 0:
        host = numpy.zeros(rows, numpy.int32)
    if host.dtype.kind not in "iu":
        raise BadArgument(f"lengths are {host.dtype}, must be integers")
    if host.shape != rows:
        raise BadArgument(f"lengths are {list(host.shape)}, must be {list(rows)}")
    for place in numpy.argwhere((host < 0) | (host > steps))[:1].tolist():
        raise BadArgument(f"lengths{place} is {host[tuple(place)]}, must be 0 to {steps}")
    return _placed(numpy.array(host, numpy.int32), given, layer)


def _placed(host: numpy.ndarray, given: Any, layer: Layer) -> View:
    """A numpy array copied to device memory."""
    place, address = layer._place, address_of(host)
    type = INT32 if host.dtype == numpy.int32 else str(host.dtype)
    if not place.on_gpu:
        return View(address, host.shape, type, host, given)
    memory = Memory(place.device, host.nbytes)
    if host.size:
        memory.write(address, host.nbytes)
        wait(place.device, 0)
    return View(memory.address, host.shape, type, memory, given)


class Outputs:
    """y and final states of a job: memory for them, and afterwards the caller's arrays."""

    __slots__ = ("results", "y", "final", "shown", "addresses")

    def __init__(self, job: Job):
        layer = job.layer
        self.results = Results(job.x, layer._place, job.stream)
        self.y, y = self.results.new(job.y_shape())
        made = [self.results.new(shape) for shape in layer._state_shapes(job.batch)]
        self.final = [holder for holder, _ in made]
        shown = [self.results.new(shape) for shape in job.shown_shapes()]
        self.shown = [holder for holder, _ in shown]
        self.addresses = {"y": y, "final": [address for _, address in made],
                          "states": [address for _, address in shown]}

    def give(self) -> tuple[Any, ...]:
        """y, final states, and, if requested, those of every step, in the caller's form, once the
        run is queued."""
        give = self.results.give
        parts = [self.final, self.shown] if self.shown else [self.final]
        return give(self.y), *(tuple(map(give, part)) for part in parts)


def infer(job: Job) -> tuple[Any, ...]:
    """y and final states, and, if requested, those of every step."""
    out = Outputs(job)
    job.layer._plans.infer(job.ask, job.io(**out.addresses))
    Repeat.keep(job)
    return out.give()


class Run:
    """A forward run that kept what its backward needs.

    y: [T,N,D*P] or [N,T,D*P].  final: a tuple of the states after each row's last step, [L*D,N,P],
    later ones [L*D,N,H].  states: with all_states the states of every step, [L*D,T,N,*].  x,
    initial and, on a GPU, y must not change until the last backward.  Backward uses the weights of
    the forward run, even if the parameters have changed.
    """

    __slots__ = ("y", "final", "states", "_job", "_out", "_kept")

    def __init__(self, job: Job):
        self._job, self._out = job, Outputs(job)
        self._kept = job.layer._plans.forward(job.ask, job.io(**self._out.addresses))
        self.y, self.final, *rest = self._out.give()
        self.states = rest[0] if rest else None

    def backward(self, dy: Any = None, dfinal: Any = None, accumulate: bool | Gradients = False,
                 wanted: tuple[str, ...] = ("x", "initial", "parameters"),
                 dstates: Any = None) -> Gradients:
        """Gradients of this run, given those of y and of the final states; None is 0.

        dy: shaped as y; dfinal: a tuple as final, with None for a state without gradient; dstates:
        as states, for a run with all_states.  accumulate: adds the gradient of the parameters to
        that of the given Gradients, or, with True, of the layer's last backward, and returns the
        same arrays.  wanted: names of gradients to compute; omit one to save its work.  May be
        called again.  Raises BadArgument for shapes, types or devices other than the run's.
        """
        job, layer = self._job, self._job.layer
        unknown = set(wanted) - {"x", "initial", "parameters"}
        if isinstance(wanted, str) or unknown:
            raise BadArgument(f"wanted is {wanted!r}, must be a tuple of x, initial, parameters")
        into = layer._gradient_to_add_to(accumulate)
        if into is not None and "parameters" not in wanted:
            raise BadArgument("accumulate is given, but parameters are not wanted")
        if dstates is not None and not job.more.all_states:
            raise BadArgument("dstates is given, but the run is without all_states")
        views = self._read(dy, dfinal, dstates)
        grads = Gradients()
        if "parameters" in wanted:
            grads.parameters = layer._new_gradient() if into is None else into
        made = self._backward(views, wanted, grads.parameters, into is not None)
        layer._last = layer._last if grads.parameters is None else grads.parameters
        give = self._out.results.give
        if made["dx"] is not None:
            grads.x = give(made["dx"])
        if made["dinitial"]:
            grads.initial = tuple(give(state) for state in made["dinitial"])
        if made["dstart"]:
            grads.reset_state = tuple(give(state) for state in made["dstart"])
        return grads

    def _read(self, dy, dfinal, dstates) -> list[View | None]:
        """Views of dy, each dfinal and each of dstates."""
        job, layer = self._job, self._job.layer
        place, type = layer._place, layer._type
        shapes = [job.y_shape(), *layer._state_shapes(job.batch), *job.shown_shapes()]
        given, names = [dy], ["dy"]
        for name, each in (("dfinal", dfinal), ("dstates", dstates)):
            given += states_of(each, name, layer.cell.states)
            names += [f"{name}[{s}]" for s in range(layer.cell.states)]
        return [
            None if value is None else arrays.expect(
                arrays.read(value, name, place, job.stream), name, shape, type)
            for value, name, shape in zip(given, names, shapes)
        ]

    def _backward(self, views: list[View | None], wanted, into: Parameters | None, add: bool) -> dict[str, Any]:
        """Queues the run, and returns holders of its results but the gradient of the parameters, which goes
        into that block."""
        job, layer, new = self._job, self._job.layer, self._out.results.new
        dx, dx_at = new(job.x.shape) if "x" in wanted else (None, 0)
        shapes = layer._state_shapes(job.batch) if "initial" in wanted else []
        states, starts = list(map(new, shapes)), list(map(new, shapes * (job.resets is not None)))
        most = 1 + layer.cell.states
        gradient = pack_gradient(views[:most], [dx_at, *(at for _, at in states)],
                                 dreset_state=[at for _, at in starts], dstates=views[most:])
        # y is passed in our memory, not in the form of the caller's library.
        self._kept.backward(job.io(y=self._out.addresses["y"]), gradient,
                            address_of(into.block) if into is not None and into.block.size else 0, add)
        return {"dx": dx, "dinitial": [holder for holder, _ in states], "dstart": [holder for holder, _ in starts]}


class Gradients:
    """The results of a backward; None for what was not requested.

    x: shaped as the run's x, 0 past a row's length.  initial: a tuple as the initial states;
    reset_state: the same for a run with resets, requested together with initial.  parameters: numpy
    arrays in host memory by name, and all of them as ``parameters.block``.
    """

    __slots__ = ("x", "initial", "reset_state", "parameters")

    def __init__(self) -> None:
        self.x: Any = None
        self.initial: tuple[Any, ...] | None = None
        self.reset_state: tuple[Any, ...] | None = None
        self.parameters: Parameters | None = None
