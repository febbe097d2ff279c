"""Handlers of XLA called with buffers of any form: an error, or a run inside of its buffers."""

import ctypes
import math
import random

import numpy as np
import pytest

from ecornn import Layer, _library

pytest.importorskip("jax")
from ecornn import _xla  # noqa: E402

MODULE, ERROR = _library.module("jax", _xla._VERSION), ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
BYTES = {0: 1, 1: 1, 4: 4, 5: 8, 6: 1, 8: 4, 10: 2, 11: 4, 12: 8, 16: 2, 99: 4}  # by XLA's types
PLAN, GUARD = Layer("lstm", 4, 8, device="cpu:1").plan(3, 2, True), 192
WORK, RESERVE = PLAN.sizes(3, 2)
TEXTS = [b"", b"cpu:1", str(PLAN).split(" ", 1)[0].rstrip(":").encode()]  # cell, device, problem
X, Y, STATE, SPACE = (11, (3, 2, 4)), (11, (3, 2, 8)), (11, (1, 2, 8)), (6, (WORK,))
WEIGHTS, KEPT, DWEIGHTS = ((6, (count,)) for count in (PLAN.weights, RESERVE + 64, PLAN.dweights))
PARAMS = [(11, size) for size in [(8, 4)] * 4 + [(8, 8)] * 4 + [(8,)] * 4]
FRAMES = [("pack", 0 * _xla.TASK, PARAMS, [WEIGHTS]),
          ("forward", _xla.TASK | _xla.RESERVE, [WEIGHTS, X], [SPACE, Y, STATE, STATE, KEPT]),
          ("backward", 2 * _xla.TASK | _xla.DY | _xla.DX | _xla.DPARAMS, [WEIGHTS, KEPT, Y, X, Y],
           [SPACE, DWEIGHTS, *PARAMS, X])]


def words(*numbers):
    """A structure of XLA's interface; objects count as their addresses."""
    made = (ctypes.c_int64 * max(len(numbers), 1))(*(
        each if isinstance(each, int) else ctypes.cast(each, ctypes.c_void_p).value for each in numbers))
    made.keeps = numbers
    return made


def buffer(type, dims, values):
    """A buffer with exactly the bytes that type and dimensions say, these bytes, and guards around."""
    count = math.prod(dims) * BYTES[type]
    count = count if 0 <= count < 1 << 20 else 0  # else nobody can run it
    room = np.full(count + 3 * GUARD, 0xA5, np.uint8)
    first = GUARD - room.ctypes.data % 64
    body, guards = room[first:first + count], (room[:first], room[first + count:])
    body[:] = np.resize(values, count)
    return words(48, 0, type, body.ctypes.data, len(dims), words(*dims)), body, guards


def call(given, ins, outs, texts):
    """The error of a handler, or None."""
    said, kinds = [], (ctypes.c_int * 99)(*[1] * 99)
    error = ERROR(lambda arguments: said.append(ctypes.string_at(arguments[2])) or 1)
    names, spans = ([words(ctypes.c_char_p(text), len(text)) for text in each]
                    for each in ((b"cell", b"device", b"given", b"problem"), texts))
    lists = [(40, 0, len(each), kinds, words(*[one[0] for one in each])) for each in (ins, outs)]
    frame = words(176, 0, words(184, 0, 0, 0, 0, 0, error, *[0] * 16), 0, 3, *lists[0], *lists[1], 48, 0, 4,
                  (ctypes.c_int * 4)(4, 4, 3, 4), words(*names),
                  words(*spans[:2], words(5, words(given)), spans[2]))
    handler = MODULE.ecornn_jax_run
    handler.restype, handler.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    assert bool(handler(frame)) == bool(said)
    assert all((guard == 0xA5).all() for _, _, guards in (*ins, *outs) for guard in guards)
    return said[0] if said else None


def changed(draw, buffers):
    """The buffers with one of them dropped, there twice, or with another type, rank or size."""
    k, how = draw.randrange(len(buffers)), draw.randrange(6)
    type, dims = draw.choice(list(BYTES)) if how == 2 else buffers[k][0], list(buffers[k][1])
    i = draw.randrange(len(dims))
    if how == 3:
        dims.insert(i, draw.choice([0, 1, 2, 2**62]))
    elif how > 3:  # a block may be larger, if its memory is
        dims[i] = draw.choice([0, 1, -1, 2**62 if type != 6 else 0, dims[i] - 1, dims[i] + 1, 2 * dims[i]])
    return buffers[:k] + {0: [], 1: [buffers[k]] * 2}.get(how, [(type, dims)]) + buffers[k + 1:]


def test_frames_of_any_form(count=600):
    draw, kept, fine = random.Random(62), {}, 0
    for turn in range(count):
        name, given, *lists = FRAMES[turn % 3]
        texts, what = list(TEXTS), draw.randrange(8) if turn > 2 else None
        if what == 7:
            texts[draw.randrange(3)] = draw.choice([b"\0", b"gru", b"lstm/T3/N2/I4/H9", TEXTS[2] + b"\0"])
        elif what == 6:
            given ^= 1 << draw.randrange(63)
        elif what is not None:
            lists[what % 2] = changed(draw, lists[what % 2])
        ins = [buffer(*each, kept.get((name, k), [0, 0, 0, 63])) for k, each in enumerate(lists[0])]
        outs = [buffer(*each, 0xFF if each[0] == 11 else 0) for each in lists[1]]
        failed = call(given, ins, outs, texts)
        assert turn > 2 or failed is None, failed  # right ones, which make the others' weights and reserve
        if turn < 2:
            kept[["forward", "backward"][turn], turn] = kept["backward", turn] = outs[-1][1].copy()
        fine += failed is None
        for frame, body, _ in outs if failed is None else ():
            assert frame[2] != 11 or not np.isnan(body.view(np.float32)).any(), (turn, name)
    assert 3 < fine < count / 3
