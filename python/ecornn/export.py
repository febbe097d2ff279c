"""``python -m ecornn export``: a trained stack of layers as one C file and its header.

The file is C11 without allocation and without the C library (sqrtf apart, if the text of a cell has
sqrt), for systems that the library is not built for.  It computes what the library's instruction set
`plain` does, in the same order (doc/numerics.md), so with -ffp-contract=off it has the same bits,
denormals apart.  doc/guide/export.md is its manual.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NoReturn

import numpy

from . import _c_words, _files, _names, _onnx_nodes, _plan
from ._errors import BadArgument, Error, Unsupported, printable, quoted
from ._library import version
from .cell import Cell, cells
from .layer import Layer

# ---- the compiled cell -------------------------------------------------------------------------

_TERMS = {"bias", "copy", "input", "product"}


class Compiled:
    """A cell's step forward: what is added to accumulators, and the instructions of each stage."""

    def __init__(self, cell: Cell):
        items = [item for item in _plan.items(_plan.cell(cell.text)) if item.stage >= 0]
        self.terms = [item for item in items if item.word in _TERMS]
        stages = groupby((item for item in items if item.word not in _TERMS), attrgetter("stage"))
        self.stages = [list(stage) for _, stage in stages]
        self.accumulators = 1 + max((term.index for term in self.terms), default=-1)
        self.operands = 1 + max((term.arguments[2] for term in self.terms), default=-1)

    def named(self, word: str) -> dict[int, str]:
        """Names of the terms with this word, by accumulator."""
        return {term.index: term.name for term in self.terms if term.word == word}


# ---- one stage ---------------------------------------------------------------------------------

def _number(value: float) -> str:
    """A float that C reads back exactly."""
    single = numpy.float32(value)
    if numpy.isfinite(single):
        return re.sub(r"\.?0*p", "p", float(single).hex(), count=1) + "f"
    return f"v_float(0x{int(single.view(numpy.uint32)):08x}u)"


class _Stage:
    """One stage as a C function: a loop over units."""

    def __init__(self, instructions: list[_plan.Item], vectors: list[str], in_place: set[int]):
        """in_place: states that it may overwrite."""
        self._vectors, self._in_place = vectors, in_place
        self.functions: set[str] = set()
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.means = [item.index for item in instructions if item.word == "store_mean"]
        if self.means:
            self.functions.add("mean_of")
            self.writes.add("mean")
        self._used: set[int] = set()  # values
        lines = [self._line(item) for item in reversed(instructions)]
        self._lines = "".join(f"        {line}\n" for line in reversed(lines) if line)

    @property
    def arrays(self) -> list[str]:
        return sorted(self.reads | self.writes)

    def _line(self, item: _plan.Item) -> str:
        """An instruction in C; "" if nothing uses it."""
        index, value = item.index, f"v{item.arguments[0]}"
        if item.word == "store_save":
            return ""
        if not item.word.startswith("store_"):
            return f"const float v{index} = {self._value(item)};" if index in self._used else ""
        self._used.add(item.arguments[0])
        if item.word == "store_mean":
            return f"sum{index}[u % 16] += (double){value};"
        if item.word == "store_operand":
            return f"{self._at(self.writes, 'operand', index)} = {value};"
        return f"{self._at(self.writes, f'state{index}' if index in self._in_place else f'next{index}')} = {value};"

    @staticmethod
    def _at(arrays: set[str], array: str, index: int = 0) -> str:
        arrays.add(array)
        return f"{array}[{f'{index} * HIDDEN + ' if index else ''}u]"

    def _value(self, item: _plan.Item) -> str:
        first = item.arguments[0]
        if item.word == "load_acc":
            return self._at(self.reads, "acc", first)
        if item.word == "load_state":
            return self._at(self.reads, f"state{first}")
        if item.word == "load_vector":
            return self._at(self.reads, "vector", self._vectors.index(item.name))
        if item.word == "load_mean":
            self.reads.add("mean")
            return f"mean[{first}]"
        if item.word in ("const", "bernoulli"):  # which has its expectation, as out of training
            if not numpy.isfinite(numpy.float32(item.value)):
                self.functions.add("v_float")
            return _number(item.value)
        values = [value for value in item.arguments if value >= 0]
        self._used.update(values)
        words = [f"v{value}" for value in values]
        if item.word in _c_words.EXPRESSIONS:
            return _c_words.EXPRESSIONS[item.word].format(*words)
        self.functions.add(f"v_{item.word}")
        return f"v_{item.word}({', '.join(words)})"

    def text(self, number: int, hidden: int) -> str:
        """The function."""
        arguments = [f"{'' if name in self.writes else 'const '}float *restrict {name}" for name in self.arrays]
        before = "".join(f"    double sum{m}[16];\n    for (int k = 0; k < 16; k++)\n"
                         f"        sum{m}[k] = 0;\n" for m in self.means)
        after = "".join(f"    mean[{m}] = mean_of(sum{m});\n" for m in self.means)
        # Whole vectors first: compilers make scalar code for what is left of a loop, and vectors for a
        # loop of four. Sums for means stay in one loop.
        whole = 0 if self.means else hidden // 8 * 8
        loops = "".join(f"    for (int u = {begin}; u < {end}; u++) {{\n{self._lines}    }}\n"
                        for begin, end in ((0, whole), (whole, hidden)) if begin < end)
        return f"static void stage_{number}({', '.join(arguments)})\n{{\n{before}{loops}{after}}}\n"


# ---- the file ----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Head:
    """A dense layer after the others, y = weight h + bias, and what models of amplifiers add to it."""

    weight: numpy.ndarray  # [O,P]
    bias: numpy.ndarray  # [O]
    in_gain: float = 1.0  # a factor of x's first number, which is sound
    skip: bool = False  # this number, with its gain, is added to y
    out_gain: float = 1.0  # a factor of y
    initial: tuple[numpy.ndarray, ...] | None = None  # states [L,P], then [L,H], at the beginning


def _scale(row: numpy.ndarray) -> float:
    """The scale of a row of weights as integers, as common/quantise.c chooses it."""
    most = float(numpy.max(numpy.abs(row)))
    if most == 0:
        return 0.0
    parts = numpy.arange(1, 129)
    quotients = row.astype(float) / (most / parts)[:, None]
    whole = numpy.rint(quotients)
    fit = (abs(quotients - whole) <= 2**-15).all(1) & (whole.max(1) <= 127)
    return most / (parts[fit.argmax()] if fit.any() else 127)


def _after(array: str, count: int) -> str:
    return f"{array} + {count}" if count else array


class _Writer:
    """The C text of one stack of layers."""

    def __init__(self, layer: Layer, head: Head | None):
        self.layer, self.head = layer, head
        self.made = Compiled(layer.cell)
        self.vectors = [f"{kind}.{line}" for kind, line in layer.cell.parameters if kind in "bp"]
        self.states = range(layer.cell.states)
        # A state is overwritten, unless a later stage reads it or the projection makes it.
        early = any(item.word == "store_next" for stage in self.made.stages[:-1] for item in stage)
        self.in_place = set() if early else {s for s in self.states if s > 0 or not layer.proj}
        self.stages = [_Stage(stage, self.vectors, self.in_place) for stage in self.made.stages]
        self.constants: list[str] = []
        self.products: set[tuple[str, int]] = set()  # types of weights, units at a time
        self.most_columns = 0
        self.weight_bytes = 0
        self.widths = [layer.width, *[layer.hidden] * (layer.cell.states - 1)]
        self.offsets = [sum(self.widths[:s]) for s in self.states]
        self.layer_floats = sum(self.widths)

    def constant(self, name: str, values: Any) -> str:
        """Adds an array of weights; returns its name."""
        flat = numpy.ravel(values).astype(numpy.float32)
        return self._array("float", name, flat, [_number(value) for value in flat], 6)

    def _array(self, kind: str, name: str, flat: numpy.ndarray, words: list[str], row: int) -> str:
        self.weight_bytes += flat.nbytes
        lines = ",\n    ".join(", ".join(words[k:k + row]) for k in range(0, len(words), row))
        self.constants.append(f"static const {kind} {name}[{len(words)}] = {{\n    {lines}}};\n")
        return name

    def _product(self, name: str, matrix: numpy.ndarray, to: str, start: str, by: str,
                 kind: str) -> list[str]:
        """Adds weights [units,columns] of a type; returns the calls of to = start + their product
        by a row."""
        units, columns = matrix.shape
        scale = ""
        if kind == "f32":
            self.constant(name, matrix.T)
        else:
            scales = numpy.float32([_scale(row) for row in matrix])
            with numpy.errstate(divide="ignore", invalid="ignore"):
                whole = numpy.where(scales > 0, numpy.rint(matrix.T / scales), 0).astype(numpy.int8).ravel()
            self._array("int8_t", name, whole, [*map(str, whole)], 20)
            scale = self.constant(f"{name}_scale", scales)
        calls, at = [], 0
        for some, n in _c_words.tiles(units):
            self.products.add((kind, n))
            self.most_columns = max(self.most_columns, columns)
            words = [_after(to, at), _after(start, at), by,
                     *(_after(each, at) for each in (name, scale) if each)]
            calls.append(f"{_c_words.product(kind, n)[0]}({', '.join(words)}, {columns}, {units}, {some});")
            at += some
        return calls

    def _parameter(self, layer: int, name: str) -> numpy.ndarray:
        return self.layer.parameters[f"{layer}.fwd.{name}"]

    def _products(self, layer: int, names: dict[int, str], what: str, started: set[int]) -> list[str]:
        """A matrix for some accumulators times a vector, for each run of neighbours.  The first product
        of an accumulator begins with its bias.  what: x, stateK or operandK."""
        by = f"operand + {what[7:]} * HIDDEN" if what.startswith("operand") else what
        runs = [list(run) for _, run in groupby(names, key=lambda a: a - list(names).index(a))]
        calls = []
        for run in runs:
            late = [f"for (int u = 0; u < HIDDEN; u++)\n        acc[{a} * HIDDEN + u] = "
                    f"bias{layer}[{a} * HIDDEN + u];" for a in run if a not in started]
            some = 0 < len(late) < len(run)
            start = f"bias{layer}" if len(late) == len(run) else "acc"
            matrix = numpy.concatenate([self._parameter(layer, names[a]) for a in run])
            at = run[0] * self.layer.hidden
            calls += late * some + self._product(
                f"{names[run[0]][0]}{layer}_{what}_{run[0]}", matrix, _after("acc", at),
                _after(start, at), by, self.layer.weights or "f32")
        started |= set(names)
        return calls

    def _stage_products(self, layer: int, stage: int, started: set[int]) -> list[str]:
        groups: dict[str, dict[int, str]] = {}  # by what they multiply
        for term in self.made.terms:
            if term.stage == stage and term.word in ("input", "product"):
                _, state, operand = term.arguments
                what = "x" if term.word == "input" else f"state{state}" if state >= 0 else f"operand{operand}"
                groups.setdefault(what, {})[term.index] = term.name
        return [call for what, names in groups.items() for call in self._products(layer, names, what, started)]

    def layer_text(self, layer: int) -> str:
        """The function of one layer's step."""
        made, shape = self.made, self.layer
        biases, copies = made.named("bias"), made.named("copy")
        if made.named("input") or made.named("product"):
            self.constant(f"bias{layer}", [self._parameter(layer, biases[a]) if a in biases else
                                           numpy.zeros(shape.hidden) for a in range(made.accumulators)])
        if any("vector" in stage.reads for stage in self.stages):
            self.constant(f"vector{layer}", [self._parameter(layer, name) for name in self.vectors])
        first = {"x": "u"}  # a row of x ends with its parts
        columns = shape.input - sum(size or shape.hidden for _, size in shape.cell.parts)
        for part, size in shape.cell.parts:
            first[part] = str(columns) if size else f"{columns} + u"
            columns += size or shape.hidden
        started = set(copies)
        lines = [f"for (int u = 0; u < HIDDEN; u++)\n        acc[{a} * HIDDEN + u] = x[{first[name]}];"
                 for a, name in copies.items()]
        for k, stage in enumerate(self.stages):
            lines += self._stage_products(layer, k, started)
            words = [f"vector{layer}" if name == "vector" else name for name in stage.arrays]
            lines.append(f"stage_{k}({', '.join(words)});")
        if shape.proj:
            zero = self.constant(f"zero{layer}", numpy.zeros(shape.proj))
            lines += self._product(f"P{layer}", self._parameter(layer, "proj"), "state0", zero, "next0",
                                   self.layer.weights or "f32")
        lines += [f"for (int u = 0; u < HIDDEN; u++)\n        state{s}[u] = next{s}[u];"
                  for s in self.states if s not in self.in_place and (s > 0 or not shape.proj)]
        body = "\n".join(lines)
        sizes = {"acc": f"{made.accumulators} * HIDDEN", "mean": "MEANS", "operand": f"{made.operands} * HIDDEN",
                 **{f"next{s}": "HIDDEN" for s in self.states}}
        own = [f"float *const state{s} = state + {self.offsets[s]};" for s in self.states
               if f"state{s}" in body]
        own += [f"float {name}[{size}];" for name, size in sizes.items()
                if re.search(rf"\b{name}\b", body)]
        inside = "\n    ".join([*own, *lines])
        return f"static void layer_{layer}(float *state, const float *x)\n{{\n    {inside}\n}}\n"

    def run_text(self, name: str) -> str:
        """The public functions."""
        shape, head, size = self.layer, self.head, self.layer_floats
        gained = head is not None and head.in_gain != 1
        source = "in" if gained else "x"
        inside = ["float in[INPUT];\n        for (int i = 0; i < INPUT; i++)\n            in[i] = x[i];\n"
                  f"        in[0] *= {_number(head.in_gain)};"] if gained else []
        for k in range(shape.layers):
            inside.append(f"layer_{k}(net->state + {k * size}, "
                          f"{source if k == 0 else f'net->state + {(k - 1) * size}'});")
        h = f"net->state + {(shape.layers - 1) * size}"
        if head is None:
            inside.append(f"for (int o = 0; o < OUTPUT; o++)\n            y[o] = ({h})[o];")
        else:
            inside += self._product("head", head.weight, "y", self.constant("head_bias", head.bias), h,
                                    "f32")
            end = f" + {source}[0]" * head.skip
            if end or head.out_gain != 1:
                gain = "" if head.out_gain == 1 else f" * {_number(head.out_gain)}"
                inside.append("for (int o = 0; o < OUTPUT; o++)\n            "
                              f"y[o] = (y[o]{end}){gain};")
        steps = "\n        ".join(inside)
        return _RUN.format(name=name, steps=steps, floats=shape.layers * size, start=self._start())

    def _start(self) -> str:
        """Number i of the initial states."""
        shape = self.layer
        starts = self.head.initial if self.head and self.head.initial else [
            numpy.full((shape.layers, width), start)
            for start, width in zip(shape.cell.starts, self.widths)]
        flat = numpy.concatenate(starts, axis=1).ravel()
        return f"{self.constant('start', flat)}[i]" if flat.any() else "0"


_RUN = """\
void {name}_reset(struct {name} *net)
{{
    for (int i = 0; i < {floats}; i++)
        net->state[i] = {start};
}}

void {name}_run(struct {name} *net, const float *x, float *y, int steps)
{{
    for (int t = 0; t < steps; t++, x += INPUT, y += OUTPUT) {{
        {steps}
    }}
}}

struct {name}_sizes {name}_sizes(void)
{{
    return (struct {name}_sizes){{INPUT, OUTPUT, (int)sizeof(struct {name}), WEIGHTS}};
}}
"""
_HEADER = """\
/* {about} */
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

/* The states of one stream.  Several may run at the same time, each with its own. */
struct {name} {{
    float state[{floats}];
}};
/* Numbers in a step of x and y; bytes of struct {name}, and of the weights, which are constant. */
struct {name}_sizes {{
    int input, output, state_bytes, weight_bytes;
}};

/* Begins a stream: must be called before the first run. */
void {name}_reset(struct {name} *net);
/* Runs the next steps of a stream: x [steps,{input}], y [steps,{output}], which must not overlap. */
void {name}_run(struct {name} *net, const float *x, float *y, int steps);
struct {name}_sizes {name}_sizes(void);

#ifdef __cplusplus
}}
#endif

#endif
"""


def check_finite(arrays: Mapping[str, numpy.ndarray]) -> None:
    """Raises BadArgument that names an array with NaN or an infinity, and the first of them."""
    for name, array in arrays.items():
        for place in numpy.argwhere(~numpy.isfinite(array))[:1].tolist():
            raise BadArgument(f"{name} has {array[tuple(place)]} at {place}, must be finite")


def _check(layer: Layer, name: str, head: Head | None) -> None:
    refused = {
        "runs forward only": layer.bidirectional or layer.direction != "forward",
        "has a cell whose y is its first state": layer.output != layer.directions * layer.width,
        "has a cell without a matrix state": layer.cell.has_matrix,
        "has heads=1": layer.heads > 1 or layer.grouped_input,
        "has one model": layer.models is not None,
        "has dtype='f32' and weights None, 'int8' or 'int8-weights'":
            layer.dtype != "f32" or layer.weights not in (None, "f32", "int8", "int8-weights")}
    for need, missing in refused.items():
        if missing:
            raise Unsupported(f"the layer is {layer!r}: a C file needs one that {need}")
    if not re.fullmatch(r"[A-Za-z]\w*(?<!_t|_C)(?<!_MIN|_MAX)(?<!_WIDTH)", name, re.ASCII) or (
            name in _c_words.TAKEN):
        raise BadArgument(f"name is {quoted(name)}, must be a name of C that no word, type, macro or header of "
                          "C or C++ has: letters, digits and _")
    check_finite(layer.parameters)
    if head is None:
        return
    states = {f"the head's initial[{s}]": state for s, state in enumerate(head.initial or ())}
    check_finite({"the head's weight": head.weight, "the head's bias": head.bias, "the head's gains":
                  numpy.array([head.in_gain, head.out_gain]), **states})
    if head.weight.ndim != 2 or head.weight.shape[1] != layer.width or (
            head.bias.shape != head.weight.shape[:1]):
        raise BadArgument(f"the head has weights {list(head.weight.shape)} and biases "
                          f"{list(head.bias.shape)}, must have [O,{layer.width}] and [O]")


def source(layer: Layer, name: str = "net", head: Head | None = None) -> tuple[str, str]:
    """The texts of NAME.c and NAME.h for a layer of F32, int8 or int8-weights that runs forward, with
    a dense head in F32 or without.  Raises Unsupported for what a C file does not offer.

    >>> header = source(Layer("gru", 1, 4), "amp")[1]
    >>> "void amp_run(struct amp *net, const float *x, float *y, int steps);" in header
    True
    """
    _check(layer, name, head)
    writer = _Writer(layer, head)
    layers = [writer.layer_text(k) for k in range(layer.layers)]
    public = writer.run_text(name)
    output = layer.width if head is None else len(head.bias)
    about = (f"Made by ecornn {version().split()[0]}: {layer.layers} x {layer.cell.name}, "
             f"I {layer.input}, H {layer.hidden}" + (f", P {layer.proj}" if layer.proj else "")
             + (f", head {output}" if head else "")
             + (f", {layer.weights}" if layer.weights not in (None, "f32") else "")
             + ".  C11; -ffp-contract=off gives the library's bits.")
    means = 1 + max((m for stage in writer.stages for m in stage.means), default=-1)
    columns = writer.most_columns if layer.weights == "int8" else 0
    needed = set().union({"v_float"} if columns else (), *(stage.functions for stage in writer.stages))
    sizes = (f"enum {{ HIDDEN = {layer.hidden}, INPUT = {layer.input}, OUTPUT = {output}, "
             f"WEIGHTS = {writer.weight_bytes}{f', MEANS = {means}' if means else ''}"
             f"{f', MOST_COLUMNS = {columns}' if columns else ''} }};\n")
    parts = [f'/* {about} */\n#include "{name}.h"\n\n#include <stdint.h>\n', sizes,
             "".join(writer.constants), _c_words.functions(needed), _c_words.products(writer.products),
             *(stage.text(k, layer.hidden) for k, stage in enumerate(writer.stages)), *layers, public]
    header = _HEADER.format(about=about, guard=f"{name.upper()}_H", name=name, output=output,
                            input=layer.input, floats=layer.layers * writer.layer_floats)
    return "\n".join(part for part in parts if part), header


def export(layer: Layer, path: str | os.PathLike, head: Head | None = None) -> None:
    """Writes ``source`` to a path that ends with .c, and the header beside it; their names are those
    of the C functions."""
    stem, suffix = os.path.splitext(os.fspath(path))
    if suffix != ".c":
        raise BadArgument(f"path is {os.fspath(path)!r}, must end with .c")
    for end, text in zip((".c", ".h"), source(layer, os.path.basename(stem), head)):
        with open(stem + end, "w", encoding="ascii", newline="\n") as file:
            file.write(text)


# ---- the command -------------------------------------------------------------------------------

_SIZES = ("input", "hidden", "layers", "proj")
_MOST_TEXT = 1 << 20  # bytes of a file with a cell
_DENSE = {"vars/0": "kernel", "vars/1": "bias"}


def _dense(flat: Mapping[str, Any], prefix: str) -> Head:
    """The dense layer below a prefix: torch's weight [O,P] or Keras's kernel [P,O], and bias.  Keras 3
    calls these vars/0 and vars/1."""
    found = _names.chosen(flat, prefix)
    own = {_DENSE.get("/".join(name.split("/")[-2:]), re.split("[./]", name)[-1]): each
           for name, each in found.items()}
    matrix = "weight" if "weight" in own else "kernel"
    shape = numpy.shape(own[matrix][1]) if matrix in own else ()
    if len(own) != len(found) or own.keys() - {matrix, "bias"} or len(shape) != 2:
        raise BadArgument(f"--head is {quoted(prefix)}, below which are {_names.some(found)}: must be a dense "
                          "layer's weight or kernel, a matrix, and bias")
    weight = _names.checked(*own[matrix], shape).astype(numpy.float32)
    weight = weight if matrix == "weight" else weight.T
    bias = own.get("bias", ("bias", numpy.zeros(len(weight))))
    return Head(weight, _names.checked(*bias, weight.shape[:1]).astype(numpy.float32))


def _given_sizes(options: argparse.Namespace, told: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a file tells, or else those of the options.  Raises BadArgument if they differ."""
    given = {name: value for name in _SIZES if (value := getattr(options, name)) is not None}
    for name, value in given.items():
        if told.get(name, value) != value:
            raise BadArgument(f"--{name} is {value}, but {options.weights!r} has {told[name]}")
    sizes = {**told, **given}
    if "input" not in sizes or "hidden" not in sizes:
        raise BadArgument(f"{options.weights!r} does not tell its sizes: needs --input, --hidden, and "
                          "--layers unless it is 1")
    return sizes


def _cell(word: str) -> Cell:
    """A built-in cell, the text in a file, or a cell of the library."""
    if word in cells() or not os.path.lexists(word):
        return Cell(word)
    text = _files.contents(word, _MOST_TEXT)
    try:
        return Cell(text.decode())
    except UnicodeDecodeError as error:
        raise BadArgument(f"{word!r} has no text in UTF-8: {error}") from None


def like(layer: Layer, device: str, dtype: str, weights: str | None, k: int | None = None) -> Layer:
    """The same layer on another device or in another form; k: only layer k."""
    made = Layer(layer.cell, layer.width if k else layer.input, layer.hidden, proj=layer.proj,
                 layers=layer.layers if k is None else 1, device=device, dtype=dtype, weights=weights)
    for name in made.parameters:
        made.parameters[name] = layer.parameters[name if k is None else f"{k}.{name.partition('.')[2]}"]
    return made


def loaded(options: argparse.Namespace, head: str | None) -> tuple[Layer, Head | None]:
    """The layer that the options name, and the head at this path of the same file, or the only one of
    a model of an amplifier."""
    if options.weights.lower().endswith((".nam", ".json")):
        given = {"head": head, **{name: getattr(options, name) for name in ("cell", "prefix", *_SIZES)}}
        for name in [name for name, value in given.items() if value is not None]:
            raise BadArgument(f"{options.weights!r} is a model of an amplifier, which takes no --{name}")
        from .amp import load_amp

        amp = load_amp(options.weights)
        return amp.layer, amp.head
    if options.cell is None:
        raise BadArgument(f"{options.weights!r} needs --cell")
    cell, prefix = _cell(options.cell), options.prefix
    if options.weights.lower().endswith(".onnx"):
        if head is not None:
            raise BadArgument(f"{options.weights!r} is a graph, which has no paths: takes no --head")
        found = _onnx_nodes.arrays_of(_onnx_nodes.nodes_of(options.weights, prefix))
        layer = Layer(cell, **_given_sizes(options, _names.sizes("onnx", found)))
        layer.load(options.weights, prefix=prefix)
        return layer, None
    with contextlib.ExitStack() as keep:
        flat = _names.flattened(_files.read(options.weights, keep))
        dense = None if head is None else _dense(flat, head)
        rest = {name: value for name, value in flat.items() if head is None or not _names.is_below(name, head)}
        found = _names.chosen(rest, prefix)
        system = _names.system_of(found)
        if system in ("keras", "flax"):
            found = _names.located(system, found)
        layer = Layer(cell, **_given_sizes(options, _names.sizes(system, found)))
        layer.load(rest, prefix=prefix)
        return layer, dense


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def said(parser: Parser, work: Callable[[], str]) -> int:
    """Prints what a command's work returns, or its error.  Returns the exit status."""
    try:
        text = work()
    except (Error, ImportError, OSError) as error:
        print(f"{parser.prog}: {printable(error)}", file=sys.stderr)
        return 1
    print(text)
    return 0


def add_options(parser: Parser) -> None:
    """The options by which `loaded` finds a layer."""
    parser.add_argument("--cell", help="a built-in cell's name, or a file with a cell's text")
    parser.add_argument("--weights", required=True, help="a file that Layer.load or load_amp reads")
    parser.add_argument("--prefix", help="takes only the weights below this path")
    for name in _SIZES:
        parser.add_argument(f"--{name}", type=int, help="if the file's names do not tell it")


def main(words: Sequence[str]) -> int:
    """The command ``python -m ecornn export``.  Returns its exit status."""
    parser = Parser(prog="python -m ecornn export", description=__doc__.partition(
        ": ")[2].partition(".\n")[0].capitalize() + ".", allow_abbrev=False)
    add_options(parser)
    parser.add_argument("--head", help="the path of a dense layer in the same file")
    parser.add_argument("--type", choices=("f32", "int8", "int8-weights"), default="f32",
                        help="the type of matrices; with int8 steps turn rows into integers too")
    parser.add_argument("-o", "--output", required=True, help="NAME.c; export also writes NAME.h in the same folder")
    options = parser.parse_args(words)

    def work() -> str:
        layer, head = loaded(options, options.head)
        layer = like(layer, "cpu", "f32", options.type) if options.type != "f32" else layer
        export(layer, options.output, head)
        return f"{printable(options.output)}: {layer.parameters.block.size} parameters of {layer!r}"

    return said(parser, work)
