"""Every wrong argument of a layer raises an exception that names value and limit."""

from __future__ import annotations

import numpy as np
import pytest

import ecornn
from ecornn import BadArgument, Layer

X = np.zeros((5, 2, 3), np.float32)
BIG = 2**31


@pytest.mark.parametrize("arguments, says", [
    ({"cell": "lstm2"}, "'lstm2', must be one of rnn-tanh"),
    ({"input": 0}, "input is 0, must be 1 to 2147483647"),
    ({"input": BIG}, f"input is {BIG}, must be"),
    ({"hidden": -1}, "hidden is -1, must be 1"),
    ({"layers": 0}, "layers is 0, must be 1"),
    ({"layers": 2**40}, "layers is"),
    ({"proj": -1}, "proj is -1, must be 0"),
    ({"direction": "bi"}, "direction is 'bi', must be one of forward, reverse, both"),
    ({"direction": 2}, "direction is 2, must be"),
    ({"direction": None}, "direction is None, must be"),
    ({"dtype": "float32"}, "dtype is 'float32', must be one of f32, f64, bf16, f16"),
    ({"dtype": []}, "dtype is"),
    ({"weights": "f8"}, "weights is 'f8', must be one of"),
    ({"weights": "f32", "dtype": "bf16"}, "weights are f32, must be bf16"),
    ({"saving": "none"}, "saving is 'none', must be auto, all, states, or every:K"),
    ({"saving": "every:0"}, "saving is 'every:0'"),
    ({"saving": 3}, "saving is 3"),
    ({"memory_limit": -1}, "memory_limit is -1, must be 0 to"),
    ({"dropout": 1.0}, "dropout is 1.0, must be 0 to less than 1"),
    ({"dropout": -0.1}, "dropout is -0.1, must be"),
    ({"dropout": float("nan")}, "dropout is nan, must be"),
    ({"device": "gpu"}, "'gpu'"),
    ({"device": "cpu:0"}, "cpu:0"),
    ({"device": "cpu:two"}, "cpu:two"),
    ({"device": ""}, "device name is ''"),
    ({"device": "cpu\0"}, "must be cpu"),
    ({"device": "ü"}, "must be cpu"),
    ({"device": "cuda:999"}, "cuda:999"),
    ({"seed": -1}, "seed is -1, must be 0 to"),
    ({"seed": 2**64}, "seed is"),
])
def test_a_layer_s_arguments(arguments, says):
    with pytest.raises((BadArgument, ecornn.NoDevice), match=says):
        Layer(**{"cell": "lstm", "input": 3, "hidden": 4, **arguments})


@pytest.mark.parametrize("arguments", [
    {"cell": None}, {"cell": 3}, {"input": 1.5}, {"input": None}, {"hidden": "4"},
    {"layers": 2.0}, {"proj": None}, {"dropout": "half"}, {"device": 0}, {"seed": 0.5},
    {"seed": None}, {"dropout": None}, {"memory_limit": "64M"}, {"memory_limit": 1.5},
])
def test_a_layer_s_arguments_of_another_kind(arguments):
    with pytest.raises((TypeError, ValueError)):
        Layer(**{"cell": "lstm", "input": 3, "hidden": 4, **arguments})


def test_what_a_device_cannot_do():
    with pytest.raises(ecornn.Unsupported, match="F16|f16"):
        Layer("lstm", 3, 4, dtype="f16", device="cpu")
    with pytest.raises((ecornn.Unsupported, BadArgument), match="proj"):
        Layer("gru", 3, 4, proj=2)
    with pytest.raises(ecornn.BadCell, match="^2:6: "):
        Layer("cell odd(h)\nh' = f * h\n", 3, 4)


@pytest.fixture(scope="module")
def layer():
    return Layer("lstm", 3, 4)


@pytest.mark.parametrize("arguments, says", [
    ({"x": X[0]}, r"x is \[2,3\], must be \[T,N,3\]"),
    ({"x": X[..., :2]}, r"x is \[5,2,2\], must be \[T,N,3\]"),
    ({"x": X[None]}, r"x is \[1,5,2,3\], must be"),
    ({"x": X.astype(float)}, "x is float64, must be float32"),
    ({"x": np.float32(3)}, r"x is \[\], must be"),
    ({"initial": ()}, "initial has 0 states, must have the cell's 2"),
    ({"initial": [None] * 3}, "initial has 3 states"),
    ({"initial": (X, None)}, r"initial\[0\] is \[5,2,3\], must be \[1,2,4\]"),
    ({"initial": (None, np.zeros((1, 2, 4)))}, r"initial\[1\] is float64, must be float32"),
    ({"lengths": [5]}, r"lengths are \[1\], must be \[2\]"),
    ({"lengths": []}, r"lengths are float64|lengths are \[0\]"),
    ({"lengths": [[5, 2]]}, r"lengths are \[1, 2\], must be \[2\]"),
    ({"lengths": [5, 6]}, r"lengths\[1\] is 6, must be 0 to 5"),
    ({"lengths": [-1, 6]}, r"lengths\[0\] is -1, must be 0 to 5"),
    ({"lengths": np.array([2**32 + 1, 1])}, "4294967297, must be 0 to 5"),
    ({"lengths": np.array([2**64 - 1, 1], np.uint64)}, "18446744073709551615, must be"),
    ({"lengths": [2**70, 1]}, "lengths"),
    ({"lengths": [2.0, 1.0]}, "lengths are float64, must be integers"),
    ({"lengths": [True, False]}, "lengths are bool, must be integers"),
    ({"lengths": ["a", "b"]}, "lengths are .*, must be integers"),
])
@pytest.mark.parametrize("way", ["__call__", "forward"])
def test_a_run_s_arguments(layer, way, arguments, says):
    with pytest.raises(BadArgument, match=says):
        getattr(layer, way)(**{"x": X, **arguments})


@pytest.mark.parametrize("arguments, says", [
    ({"initial": X}, "initial is ndarray, must be a tuple of 2 states"),
    ({"initial": ("a", None)}, r"initial\[0\] is str 'a', must be an array"),
    ({"initial": 3}, "initial is int"),
    ({"lengths": "ab"}, "lengths is str"),
    ({"lengths": 5}, "lengths"),
])
def test_a_run_s_arguments_of_another_kind(layer, arguments, says):
    with pytest.raises((TypeError, BadArgument), match=says):
        layer(X, **arguments)


@pytest.mark.parametrize("seed, error", [(-1, BadArgument), (2**64, BadArgument),
                                         (None, TypeError), (0.5, TypeError)])
def test_a_seed(layer, seed, error):
    with pytest.raises(error, match=f"seed is {seed}, must be"):
        layer.forward(X, seed=seed)


@pytest.mark.parametrize("arguments, says", [
    ({"dy": X}, r"dy is \[5,2,3\], must be \[5,2,4\]"),
    ({"dy": np.zeros((5, 2, 4))}, "dy is float64, must be float32"),
    ({"dfinal": (None,)}, "dfinal has 1 states"),
    ({"dfinal": (None, X)}, r"dfinal\[1\] is \[5,2,3\], must be \[1,2,4\]"),
    ({"wanted": "x"}, "wanted is 'x', must be a tuple of"),
    ({"wanted": ("y",)}, r"wanted is \('y',\), must be"),
    ({"accumulate": 1}, "accumulate is 1, must be Gradients"),
    ({"accumulate": None}, "accumulate is None, must be"),
])
def test_a_backward_s_arguments(layer, arguments, says):
    with pytest.raises(BadArgument, match=says):
        layer.forward(X).backward(**arguments)


def test_accumulation_needs_what_it_adds_to(layer):
    run = Layer("lstm", 3, 4).forward(X)
    with pytest.raises(BadArgument, match="accumulate is True"):
        run.backward(accumulate=True)
    for other in (Layer("lstm", 3, 5).forward(X),
                  Layer("lstm", 3, 4, dtype="f64").forward(X.astype(float))):
        with pytest.raises(BadArgument, match="must be Gradients of this layer"):
            run.backward(accumulate=other.backward())
    without = run.backward(wanted=("x",))
    with pytest.raises(BadArgument, match="must be Gradients"):
        run.backward(accumulate=without)
    grads = run.backward()
    with pytest.raises(BadArgument, match="not wanted"):
        run.backward(accumulate=grads, wanted=("x",))


def test_parameters(layer):
    parameters = layer.parameters
    with pytest.raises(KeyError):
        parameters["0.fwd.W.z"]
    with pytest.raises(KeyError):
        parameters["0.fwd.W.z"] = 0
    with pytest.raises(BadArgument, match=r"0.fwd.W.i is given \[3, 4\], must be \[4, 3\]"):
        parameters["0.fwd.W.i"] = np.zeros((3, 4))
    with pytest.raises(AttributeError):
        layer.parameters = {}


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (1, BIG), (-1, 1)])
def test_a_plan_s_arguments(layer, arguments):
    with pytest.raises(BadArgument, match="must be 1 to"):
        layer.plan(*arguments)


def test_streams():
    from ecornn._run import stream_of

    class Torch:
        cuda_stream = 7

    class Cupy:
        ptr = 8

    class Protocol:
        def __cuda_stream__(self):
            return 0, 9

    found = [stream_of(s) for s in (None, 0, 1, 2, Torch(), Cupy(), Protocol())]
    assert found == [0, 0, 0, 2, 7, 8, 9]
    for wrong in (-1, 2**64):
        with pytest.raises(BadArgument, match=f"stream is {wrong}, must be"):
            stream_of(wrong)
    for wrong in ("a", True, object()):
        with pytest.raises(TypeError, match="must be a number or a stream"):
            stream_of(wrong)
    assert Layer("lstm", 3, 4, device="cpu")(X, stream="ignored on a CPU")[0].shape == (5, 2, 4)
