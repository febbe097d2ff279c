"""Devices, cells and plans of the library as objects, each created once and kept.

Handles of devices and cells are never freed, because there are few.  A stack of layers keeps its plans
(_runner.py).
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from . import _library as lib
from . import _runner
from ._library import check, library
from ._locks import make_lock

_lock = make_lock()
_devices: dict[str, int] = {}
_cells: dict[str, int] = {}


def device(name: str) -> int:
    """The handle of a device such as ``cpu:2`` or ``cuda:0``, opened on first use."""
    handle = _devices.get(name)
    if handle is None:
        with _lock:
            if name not in _devices:
                opened = ctypes.c_void_p()
                check(library.ecornn_device_open(ctypes.byref(opened), name.encode()))
                _devices[name] = opened.value
            handle = _devices[name]
    return handle


def device_info(name: str) -> dict[str, object]:
    """Name, backend, variant, threads and bytes of memory of a device."""
    info = lib.DeviceInfo()
    check(library.ecornn_device_query(device(name), ctypes.byref(info)))
    return {
        "name": info.name.decode("utf-8", "replace"),
        "backend": info.backend.decode(),
        "variant": info.variant.decode(),
        "threads": info.threads,
        "memory_bytes": info.memory_bytes,
    }


def cell(text: str) -> int:
    """The handle of a built-in cell by its name, or of a cell by its text."""
    handle = _cells.get(text)
    if handle is None:
        with _lock:
            handle = _cells.get(text) or _find_cell(text)
            _cells[text] = handle
    return handle


def _find_cell(text: str) -> int:
    if "\n" not in text.strip() and text not in cell_names():
        names = ", ".join(cell_names())
        raise lib.BY_STATUS[1](f"cell is {text!r}, must be one of {names}, one of ecornn.cells, or a "
                               "cell's text")
    parsed = ctypes.c_void_p()
    check(library.ecornn_cell_parse(ctypes.byref(parsed), text.encode()))
    return parsed.value


class Item(NamedTuple):
    """An item of a compiled cell: ecornn_cell_item."""

    word: str
    name: str
    stage: int
    index: int
    arguments: tuple[int, ...]
    value: float


@lru_cache(1024)
def items(handle: int) -> tuple[Item, ...]:
    """What a cell was compiled to: its head, and its step forward."""
    found, item = [], lib.CellItem()
    while library.ecornn_cell_item_get(handle, len(found), ctypes.byref(item)) == 0:
        found.append(Item(item.word.decode(), item.name.decode(), item.stage, item.index,
                          tuple(item.argument), item.value))
    return tuple(found)


def items_of(handle: int, word: str) -> list[Item]:
    """Those with this word."""
    return [item for item in items(handle) if item.word == word]


@lru_cache(1024)
def outputs(text: str) -> int:
    """How many of a cell's states y has, side by side: the first ones."""
    return sum(state.arguments[0] for state in items_of(cell(text), "state"))


@lru_cache(1024)
def parts(text: str) -> tuple[tuple[str, str], ...]:
    """Name and size of each part of x of a cell, as its text writes them: 1, H, or K or V of a head."""
    return tuple((part.name, chr(part.arguments[0])) for part in items_of(cell(text), "part"))


def key_of(text: str, input: int, hidden: int, heads: int) -> int:
    """K of a cell with a matrix state, from the width of x, which is all parts; 0 of other cells."""
    sizes = [size for _, size in parts(text)]
    if "K" not in sizes:
        return 0
    key, left = divmod(input - sizes.count("V") * hidden - sizes.count("1") * heads, sizes.count("K") * heads)
    if left or key < 1:
        widths = " + ".join({"1": "heads", "K": "heads*K", "V": "hidden"}[size] for size in sizes)
        raise lib.BY_STATUS[1](f"the width of x is {input}, must be {widths}, of hidden {hidden} and heads {heads}")
    return key


def cell_names() -> list[str]:
    """The names of the built-in cells."""
    names, name = [], ctypes.c_char_p()
    while library.ecornn_cell_name(len(names), ctypes.byref(name)) == 0:
        names.append(name.value.decode())
    return names


def library_cells() -> dict[str, str]:
    """The texts of the library of cells, by name."""
    texts: dict[str, str] = {}
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    while library.ecornn_cell_library(len(texts), ctypes.byref(name), ctypes.byref(text)) == 0:
        texts[name.value.decode()] = text.value.decode()
    return texts


def saving_of(saving: object) -> tuple[int, int]:
    """What training saves, in the form of ecornn_desc: a flag, 0: auto, and the K of ``every:K``,
    else 0."""
    flags = {"auto": 0, "all": lib.SAVE_ALL, "states": lib.SAVE_STATES}
    if isinstance(saving, str) and saving in flags:
        return flags[saving], 0
    name, _, number = saving.partition(":") if isinstance(saving, str) else ("", "", "")
    if name == "every" and number.isdecimal() and 1 <= int(number) < 2**31:
        return 0, int(number)
    raise lib.BY_STATUS[1](f"saving is {saving!r}, must be auto, all, states, or every:K with K at least 1")


def limit_of(bytes: object) -> int:
    """A memory limit in bytes, checked; 0: none."""
    if not isinstance(bytes, int) or isinstance(bytes, bool):
        raise TypeError(f"memory_limit is {bytes!r}, must be an int")
    if not 0 <= bytes < 2**64:
        raise lib.BY_STATUS[1](f"memory_limit is {bytes}, must be 0 to 2**64 - 1")
    return bytes


@dataclass(frozen=True)
class Shape:
    """A stack of layers, independent of device and size of runs; see ecornn_desc for the fields."""

    cell: str
    input: int
    hidden: int
    proj: int = 0
    layers: int = 1
    direction: int = 0  # lib.REVERSE or lib.BIDIRECTIONAL
    batch_major: bool = False
    dropout: float = 0.0
    flags: int = 0
    weight_type: int = 0
    save: int = 0  # lib.SAVE_ALL or SAVE_STATES
    save_every: int = 0
    memory_limit: int = 0
    heads: int = 1
    models: int = 1

    @property
    def directions(self) -> int:
        return 2 if self.direction == lib.BIDIRECTIONAL else 1

    @property
    def width(self) -> int:
        """P: width of the first state."""
        return self.proj or self.hidden

    @property
    def output(self) -> int:
        """Width of y: in each direction P, or H for each state that y has."""
        return self.directions * self.width * outputs(self.cell)

    def desc(self) -> lib.Desc:
        """Of a stack, without T, N and types."""
        return lib.Desc(
            cell=cell(self.cell), input=self.input, hidden=self.hidden, proj=self.proj, layers=self.layers,
            weight_type=self.weight_type, heads=self.heads, models=self.models,
            key=key_of(self.cell, self.input, self.hidden, self.heads), dropout=self.dropout,
            flags=self.flags | self.direction | lib.BATCH_MAJOR * self.batch_major | self.save,
            save_every=self.save_every, memory_limit=self.memory_limit)


@dataclass(frozen=True)
class Parameter:
    """One parameter of the block: ``0.fwd.W.i`` [rows,cols] at an offset in elements."""

    name: str
    offset: int
    rows: int
    cols: int

    @property
    def shape(self) -> tuple[int, ...]:
        """[rows] of b and p, [rows,cols] of others."""
        vector = self.name.rpartition(":")[2].split(".")[2] in ("b", "p")
        return (self.rows,) if vector else (self.rows, self.cols)


class Printed:
    """What plans have in common.  handle: the library's; most: ecornn_sizes of its largest run."""

    __slots__ = ()

    def _find_sizes(self) -> lib.Sizes:
        sizes = lib.Sizes()
        check(library.ecornn_plan_sizes(self.handle, ctypes.byref(sizes)))
        return sizes

    def parameters(self, of: lib.Sizes | None = None) -> list[Parameter]:
        """Names and offsets of all parameters, in the order of the block; of: sizes of the layer whose
        parameters they are, at offsets in its own block."""
        of, found, param = of or self.most, [], lib.Param()
        for index in range(of.first_param, of.first_param + of.param_count):
            check(library.ecornn_param_get(self.handle, index, ctypes.byref(param)))
            found.append(Parameter(param.name.decode(), param.offset - of.param_offset, param.rows,
                                   param.cols))
        return found

    def __str__(self) -> str:
        """The plan in words: the choices, and the reasons."""
        size = library.ecornn_plan_print(self.handle, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        library.ecornn_plan_print(self.handle, text, size)
        return text.value.decode("utf-8", "replace")


class Made(Printed):
    """A plan of a text and the cells that it names, or of a description, freed with the object."""

    __slots__ = ("handle", "most")

    def __init__(self, on: str, what: lib.Desc | str, cells: tuple[str, ...] = ()):
        handle = ctypes.c_void_p()
        if isinstance(what, str):
            own = (ctypes.c_void_p * (len(cells) + 1))(*map(cell, cells), None)
            check(library.ecornn_plan_create(ctypes.byref(handle), device(on), what.encode(), own))
        else:
            check(library.ecornn_plan_create_desc(ctypes.byref(handle), device(on), ctypes.byref(what)))
        self.handle: int = handle.value
        self.most = self._find_sizes()

    def __del__(self, free=library.ecornn_plan_free):
        free(getattr(self, "handle", None))


class Plan(_runner.Held, Printed):
    """A plan of a stack, for runs of up to steps and batch.  Bytes of such a run: weights and dweights, packed
    weights and their gradient, workspace, reserve."""

    __slots__ = ("most", "weights", "dweights", "steps", "batch", "workspace", "reserve", "_fits", "__weakref__")

    def __init__(self, stack: _runner.Stack, ask: Callable[[float], bytes], measure: Callable[[], float]):
        super().__init__(stack, ask, measure)
        self.most = most = self._find_sizes()
        self.weights, self.dweights = most.weight_bytes, most.dweight_bytes
        self.steps, self.batch = most.steps, most.batch
        self.workspace, self.reserve = most.workspace_bytes, most.reserve_bytes
        self._fits = weakref.ref(self), True  # the last answer

    def sizes(self, steps: int, batch: int) -> tuple[int, int]:
        """Bytes of workspace and reserve for a run of T and N; an empty run counts as one step or
        row."""
        sizes = lib.Sizes()
        check(library.ecornn_run_sizes(self.handle, max(steps, 1), max(batch, 1), ctypes.byref(sizes)))
        return sizes.workspace_bytes, sizes.reserve_bytes

    def states(self) -> list[tuple[int, int]]:
        """Numbers of each state of a row, and their type."""
        elements, type, found = ctypes.c_size_t(), ctypes.c_int(), []
        for s in range(len(items_of(self.desc.cell, "state"))):
            check(library.ecornn_plan_state(self.handle, s, ctypes.byref(elements), ctypes.byref(type)))
            found.append((elements.value, type.value))
        return found

    def takes(self, packed: Plan) -> bool:
        """Can runs of this plan take weights that were packed for that one?"""
        known, fits = self._fits
        if known() is not packed:  # a handle may be that of a plan freed since
            fits = library.ecornn_weights_fit(packed.handle, self.handle) == 0
            self._fits = weakref.ref(packed), fits
        return fits


class Plans(_runner.Stack):
    """The plans of one shape, created on demand; those that were not used for longest are dropped first.

    A plan serves all runs in a bucket of T and N (ecornn_bucket).  So results do not depend on
    earlier sizes, and changing sizes do not each need a plan.
    """

    __slots__ = ("shape", "_measure")

    def __init__(self, shape: Shape, measure: Callable[[str], float] = lambda on: 0.0):
        """measure: gives the seconds for measuring a new plan on a device."""
        super().__init__(shape.desc())
        self.shape, self._measure = shape, measure

    def get(self, on: str, size: tuple[int, int], types: tuple[int, int], training: bool,
            flags: int = 0) -> Plan:
        """A plan for runs of up to T and N on a device, with types of arrays and of parameters; flags: in
        addition to the shape's."""
        return Plan(self, partial(_runner.ask_of, device(on), on.startswith("cuda"), size, types,
                                  flags | lib.TRAINING * training), partial(self._measure, on))
