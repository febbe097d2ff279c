"""Sessions, threads, options, and nodes that are left to others."""

import ctypes
import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from models import WEIGHTS, close, draw, feeds, node_model, own, theirs
from onnx import helper


def lstm(seed=0, T=6, N=3, I=5, H=8, D=1, given=("B",)):
    return draw(np.random.default_rng(seed), "LSTM", T, N, I, H, D, given)


# ---- sessions and threads ----------------------------------------------------------------------------------


def test_two_sessions():
    """Each keeps its own weights, also after the other is gone."""
    one, other = lstm(1), lstm(2)
    first, second = own(node_model("LSTM", one)), own(node_model("LSTM", other))
    expected = [theirs(node_model("LSTM", each)).run(None, {"X": each["X"]}) for each in (one, other)]
    for _ in range(3):
        close(first.run(None, {"X": one["X"]}), expected[0])
        close(second.run(None, {"X": other["X"]}), expected[1])
    del first
    close(second.run(None, {"X": other["X"]}), expected[1])


@pytest.mark.parametrize("constants", [WEIGHTS, ()], ids=["constant", "given"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads(constants, threads):
    """One session in eight threads at once, with more sizes than plans are kept."""
    weights = lstm(3, D=2)
    session = own(node_model("LSTM", weights, constants, direction="bidirectional"), threads=threads)
    reference = theirs(node_model("LSTM", weights, constants, direction="bidirectional"))
    cases = []
    for case in range(120):
        arrays = weights | {"X": np.random.default_rng(case).standard_normal((case + 1, case % 4 + 1, 5), np.float32)}
        cases.append((arrays, reference.run(None, feeds(reference, arrays))))

    def work(number):
        for arrays, expected in cases[number:] + cases[:number]:
            close(session.run(None, feeds(session, arrays)), expected)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(0, 120, 15)))


def test_same_input_twice():
    """The fused node lists a value once that the node reads twice."""
    arrays = lstm(4, given=("B", "initial_h"))
    model = node_model("LSTM", arrays)
    node = model.graph.node[0]
    node.input.extend([""] * (7 - len(node.input)))
    node.input[6] = "initial_h"
    ours, other = own(model), theirs(model)
    close(ours.run(None, feeds(ours, arrays)), other.run(None, feeds(other, arrays)))


def test_stack_in_a_graph():
    """Two layers with ONNX Runtime's nodes between them, and the second's initial state constant."""
    first = lstm(5, H=8, D=2)
    second = lstm(6, I=16, H=4, N=3, given=("B", "initial_h", "initial_c"))
    model = node_model("LSTM", first, direction="bidirectional")
    graph = model.graph
    names = {name: "second " + name for name in second if name != "X"}
    graph.initializer.extend(onnx.numpy_helper.from_array(second[name], names[name]) for name in names)
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0, -1]), "shape"))
    graph.node.append(helper.make_node("Transpose", ["Y"], ["turned"], perm=[0, 2, 1, 3]))
    graph.node.append(helper.make_node("Reshape", ["turned", "shape"], ["joined"]))
    graph.node.append(helper.make_node(
        "LSTM", ["joined", names["W"], names["R"], names["B"], "", names["initial_h"], names["initial_c"]], ["Z"],
        hidden_size=4))
    graph.output.append(helper.make_tensor_value_info("Z", onnx.TensorProto.FLOAT, None))
    ours, other = own(model, only=False), theirs(model)
    close(ours.run(None, {"X": first["X"]}), other.run(None, {"X": first["X"]}))


def test_loop_body():
    """A node in the body of a Loop, whose weights are of the graph around it."""
    arrays = lstm(7, given=("B", "initial_h"))
    model = node_model("LSTM", arrays, outputs=["Y", "next"])
    node = model.graph.node[0]
    node.input[5] = "before"
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node, helper.make_node("Identity", ["go"], ["goes"])], "body",
        [info("i", onnx.TensorProto.INT64, []), info("go", onnx.TensorProto.BOOL, []),
         info("before", onnx.TensorProto.FLOAT, [1, 3, 8])],
        [info("goes", onnx.TensorProto.BOOL, []), info("next", onnx.TensorProto.FLOAT, [1, 3, 8])])
    loop = helper.make_node("Loop", ["count", "", "initial_h"], ["last"], body=body)
    del model.graph.node[:], model.graph.output[:]
    model.graph.node.append(loop)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(4), "count"))
    model.graph.output.append(info("last", onnx.TensorProto.FLOAT, None))
    ours, other = own(model, only=False), theirs(model)
    close(ours.run(None, feeds(ours, arrays)), other.run(None, feeds(other, arrays)))


# ---- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", models.GATES)
@pytest.mark.parametrize("precision, error", [("bf16-weights", 0.01), ("int8-weights", 0.02), ("int8", 0.03)])
def test_precision(op, precision, error):
    """Narrow weights are near F32, and are not F32."""
    arrays = draw(np.random.default_rng(8), op, 12, 2, 40, 64, 1, ["B"])
    model = node_model(op, arrays)
    expected = theirs(model).run(None, {"X": arrays["X"]})[0]
    Y = own(model, precision=precision).run(None, {"X": arrays["X"]})[0]
    difference = np.sqrt(np.mean((Y - expected) ** 2) / np.mean(expected ** 2))
    assert 1e-5 < difference < error


@pytest.mark.parametrize("options, text", [
    ({"precision": "fp16"}, "option precision is 'fp16', must be f32, bf16-weights"),
    ({"threads": "-1"}, "option threads is '-1', must be 0"), ({"threads": "2x"}, "option threads is '2x'"),
    ({"threads": "99999999999999999999"}, "option threads"), ({"weights": "bf16"}, "no option 'weights'"),
])
def test_wrong_options(capfd, options, text):
    """Python of ONNX Runtime 1.23 prints the reason and tries again without the plug-in."""
    with pytest.raises(Exception) as refused:
        own(node_model("LSTM", lstm()), **options)
    assert text in str(refused.value) + capfd.readouterr().out


# ---- what is left to others --------------------------------------------------------------------------------


def left(capfd, op, text, arrays=None, **attributes):
    """The node stays ONNX Runtime's, and a line of the log says why; it is run if that can run it."""
    arrays = arrays or draw(np.random.default_rng(9), op, 3, 2, 4, 5, attributes.get("direction") and 2 or 1)
    model = node_model(op, arrays, **attributes)
    try:
        session = own(model, only=False)
    except Exception as refused:
        assert "ecornn" not in str(refused)
    else:
        close(session.run(None, feeds(session, arrays)), theirs(model).run(None, feeds(session, arrays)), 1e-7)
    assert f"ecornn leaves {op} 'the node' to others: {text}" in capfd.readouterr().err


def test_left(capfd):
    left(capfd, "GRU", "the directions have different activations", direction="bidirectional",
         activations=["Sigmoid", "Tanh", "Sigmoid", "Relu"])
    left(capfd, "RNN", "activation Gelu is not known", activations=["Gelu"])
    left(capfd, "LSTM", "it has 2 activations, needs 3", activations=["Sigmoid", "Tanh"])
    left(capfd, "LSTM", "it has more than 3 activations", activations=["Sigmoid", "Tanh", "Tanh", "Tanh"])
    left(capfd, "LSTM", "layout is 2", layout=2)
    left(capfd, "LSTM", "direction is 'sideways'", direction="sideways")
    left(capfd, "LSTM", "clip is -1", clip=-1.0)


def test_unknown_sizes(capfd):
    """Neither hidden_size nor W says the sizes: ONNX Runtime's own provider runs it."""
    arrays = lstm()
    model = node_model("LSTM", arrays, ())
    del model.graph.node[0].attribute[:]
    for each in model.graph.input:
        for size in each.type.tensor_type.shape.dim:
            size.Clear()
    try:
        own(model, only=False)
    except Exception as refused:
        assert "ecornn" not in str(refused)
    assert "is not known before it runs" in capfd.readouterr().err


# ---- wrong runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, shape, text", [
    ("X", (3, 2), "X must have three dimensions"), ("X", (3, 2, 5), "X must have three dimensions"),
    ("X", (3, 2, 4, 1), "X must have three dimensions"),
    ("W", (1, 20, 3), "W"), ("W", (2, 20, 4), "dimension 0 of W is 2, must be 1"),
    ("R", (1, 24, 5), "dimension 1 of R is 24, must be 20"), ("B", (1, 20), "dimension 1 of B is 20, must be 40"),
    ("B", (40,), "B is of ONNX.s type 1 with 1 dimensions, must be 1 with 2"), ("P", (1, 16), "dimension 1 of P is 16, must be 15"),
    ("initial_h", (1, 3, 5), "dimension 1 of initial_h is 3, must be 2"),
    ("initial_c", (2, 2, 5), "dimension 0 of initial_c is 2, must be 1"),
    ("sequence_lens", (3,), "dimension 0 of sequence_lens is 3, must be 2"),
])
def test_wrong_shapes(name, shape, text):
    """Sizes that the graph does not say are checked at each run, and the session goes on."""
    given = ["B", "sequence_lens", "initial_h", "initial_c", "P"]
    arrays = draw(np.random.default_rng(10), "LSTM", 3, 2, 4, 5, 1, given)
    model = node_model("LSTM", arrays, ())
    for each in model.graph.input:
        each.type.tensor_type.ClearField("shape")
    x = model.graph.input[0].type.tensor_type.shape
    for _ in range(3):
        x.dim.add()
    x.dim[2].dim_value = 4
    if name == "X":
        for each in model.graph.input:
            if each.name == "W":
                for size in (1, 20, 4):
                    each.type.tensor_type.shape.dim.add().dim_value = size
        model.graph.input[0].type.tensor_type.ClearField("shape")
    session = own(model)
    good = session.run(None, arrays)
    wrong = arrays | {name: np.zeros(shape, arrays[name].dtype)}
    with pytest.raises(Exception, match=text):
        session.run(None, wrong)
    close(session.run(None, arrays), good, 0)


def test_graph_that_lies():
    """Weights are packed for the T and N that the graph says; other runs work too, or are refused."""
    arrays = lstm(12, T=1, N=1)
    model = node_model("LSTM", arrays, static=True)
    graph = model.graph
    graph.value_info.append(graph.input[0])
    del graph.input[0]
    graph.input.append(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None))
    graph.input.append(helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, [3]))
    graph.node.insert(0, helper.make_node("Reshape", ["x", "shape"], ["X"]))
    session = own(model, only=False)
    for T, N in ((1, 1), (40, 1), (1, 30), (64, 32)):
        X = np.ones((T, N, 5), np.float32)
        expected = theirs(node_model("LSTM", arrays)).run(None, {"X": X})
        try:
            close(session.run(None, {"x": X, "shape": np.array(X.shape)}), expected)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail as refused:
            assert (T, N) != (1, 1) and "the graph says 1 steps of 1 rows" in str(refused)


@pytest.mark.parametrize("lengths", [[-1, 2], [2, 4]], ids=str)
def test_wrong_lengths(lengths):
    arrays = draw(np.random.default_rng(11), "LSTM", 3, 2, 4, 5, 1, ["B", "sequence_lens"])
    session = own(node_model("LSTM", arrays))
    with pytest.raises(Exception, match="lengths"):
        session.run(None, feeds(session, arrays | {"sequence_lens": np.array(lengths, np.int32)}))


# ---- the library -------------------------------------------------------------------------------------------


class Base(ctypes.Structure):
    """What ONNX Runtime gives a plug-in first, with functions of this test."""

    _fields_ = [("api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
                ("version", ctypes.CFUNCTYPE(ctypes.c_void_p))]


@pytest.mark.parametrize("oldest", [22, 4, 0])
def test_older_runtime(oldest):
    """An ONNX Runtime that lacks the interface gets an error, made by an older interface version."""
    said = []
    make = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(
        lambda code, text: said.append((code, text.decode())) or 4711)
    table = (ctypes.c_void_p * 1)(ctypes.cast(make, ctypes.c_void_p))
    version = ctypes.create_string_buffer(b"1.22.0")
    base = Base(Base._fields_[0][1](lambda version: ctypes.addressof(table) if version <= oldest else None),
                Base._fields_[1][1](lambda: ctypes.addressof(version)))
    create = ctypes.CDLL(models.plugin()).CreateEpFactories
    create.restype = ctypes.c_void_p
    count = ctypes.c_size_t(7)
    status = create(b"ecornn", ctypes.byref(base), None, (ctypes.c_void_p * 4)(), ctypes.c_size_t(4),
                    ctypes.byref(count))
    assert count.value == 0
    if oldest:
        assert status == 4711
        assert said == [(9, "ecornn-ort.so needs ONNX Runtime 1.23 or later; this is 1.22.0")]
    else:
        assert status is None


def elsewhere(program, **environment):
    """Runs a program in a process of its own, which must not crash; what it prints."""
    made = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.path.dirname(__file__)} | environment)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_dropped_weights():
    """If weights are packed when the session is made, it keeps 8 MiB of int8 and frees 32 MiB of F32."""
    grown = [int(elsewhere(f"""
        import ctypes, numpy, onnxruntime
        import models

        def resident():
            ctypes.CDLL(None).malloc_trim(0)
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) >> 8

        arrays = models.draw(numpy.random.default_rng(0), "LSTM", 1, 1, 1024, 1024, 1)
        onnxruntime.register_execution_provider_library("ecornn", models.plugin())
        model = models.node_model("LSTM", arrays, static={static})
        before = resident()
        session = models.own(model, precision="int8")
        session.run(None, {{"X": arrays["X"]}})
        print(resident() - before)
    """)) for static in (False, True)]
    assert grown[1] < grown[0] - 24, grown


def test_registers_again():
    """Registered, used, unregistered and registered again, with sessions before and after."""
    assert elsewhere("""
        import gc, numpy, onnxruntime
        import models
        arrays = models.draw(numpy.random.default_rng(0), "LSTM", 5, 2, 3, 4, 1, ["B"])
        model = models.node_model("LSTM", arrays)
        expected = models.theirs(model).run(None, {"X": arrays["X"]})
        for _ in range(3):
            onnxruntime.register_execution_provider_library("any name", models.plugin())
            session = models.own(model, threads="2")
            models.close(session.run(None, {"X": arrays["X"]}), expected)
            del session
            gc.collect()
            onnxruntime.unregister_execution_provider_library("any name")
            assert not models.devices()
        print("well")
    """) == "well\n"


def test_outlives_registration():
    """A session that is there when the plug-in is unregistered runs on, and ends well, whatever memory is used
    for then."""
    assert elsewhere("""
        import ctypes, numpy, onnxruntime
        import models
        onnxruntime.register_execution_provider_library("ecornn", models.plugin())
        arrays = models.draw(numpy.random.default_rng(0), "LSTM", 5, 2, 3, 4, 1, ["B"])
        session = models.own(models.node_model("LSTM", arrays))
        expected = session.run(None, {"X": arrays["X"]})
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        onnxruntime.unregister_execution_provider_library("ecornn")
        for size in range(64, 512, 16):
            for _ in range(100):
                libc.memset(ctypes.c_void_p(libc.malloc(size)), 85, size)
        models.close(session.run(None, {"X": arrays["X"]}), expected, 0)
        del session
        print("well")
    """) == "well\n"


def test_missing_library(tmp_path):
    """Without libecornn the plug-in is not loaded, and ONNX Runtime says what is missing."""
    with open(models.plugin(), "rb") as file:
        content = file.read()
    content, changed = re.subn(rb"libecornn\.so\.\d\0", b"libnowhere.so\0\0", content)
    assert changed == 1
    (tmp_path / "ecornn-ort.so").write_bytes(content)
    assert "libnowhere.so" in elsewhere(f"""
        import onnxruntime
        try:
            onnxruntime.register_execution_provider_library("ecornn", {str(tmp_path / "ecornn-ort.so")!r})
        except Exception as refused:
            print(refused)
    """)
