"""LSTM, GRU and RNN nodes equal those of ONNX Runtime's own provider."""

import numpy as np
import pytest
from models import GATES, STATES, VERSION, WEIGHTS, close, draw, feeds, node_model, own, quantise, theirs

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
GIVEN = [(), ("B",), ("B", "initial_h"), ("B", "sequence_lens"), ("sequence_lens", "initial_h", "initial_c"),
         ("B", "sequence_lens", "initial_h", "initial_c", "P")]


def given_of(op, given):
    return [name for name in given if name in ("B", "sequence_lens", *STATES[op]) or op == "LSTM"]


def both(op, arrays, constants=WEIGHTS, outputs=3, tolerance=2e-5, **attributes):
    model = node_model(op, arrays, constants, outputs, **attributes)
    ours, other = own(model), theirs(model)
    close(ours.run(None, feeds(ours, arrays)), other.run(None, feeds(other, arrays)), tolerance)


@pytest.mark.parametrize("given", GIVEN, ids="-".join)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_inputs(op, direction, given):
    """Every optional input, with constant weights and with weights that come with each run."""
    rng = np.random.default_rng(1)
    for T, N, I, H in ((1, 1, 3, 5), (4, 3, 7, 16), (17, 2, 33, 8)):
        arrays = draw(rng, op, T, N, I, H, DIRECTIONS[direction], given_of(op, given))
        for constants in (WEIGHTS, (), ("W", "B")):
            both(op, arrays, constants, direction=direction)


@pytest.mark.parametrize("outputs", [["Y"], ["", "Y_h"], ["", "", "Y_c"], ["Y", "", "Y_c"]], ids="-".join)
def test_outputs(outputs):
    arrays = draw(np.random.default_rng(2), "LSTM", 5, 3, 4, 6, 2, ["B"])
    both("LSTM", arrays, outputs=outputs, direction="bidirectional")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_layout(op, direction):
    """Layout 1, which ONNX Runtime's own provider lacks, is layout 0 with other orders."""
    D = DIRECTIONS[direction]
    arrays = draw(np.random.default_rng(3), op, 6, 3, 4, 5, D, ["B", "sequence_lens", *STATES[op]])
    model = node_model(op, arrays, direction=direction)
    Y, *states = own(model).run(None, feeds(own(model), arrays))
    turned = {name: array.swapaxes(0, 1).copy() if name in ("X", *STATES[op]) else array
              for name, array in arrays.items()}
    session = own(node_model(op, turned, direction=direction, layout=1))
    close(session.run(None, feeds(session, turned)),
          [Y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)], 1e-6)


ACTIVATIONS = ["Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign",
               "Tanh", "ThresholdedRelu"]


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("op", GATES)
def test_activations(op, name):
    """Each as every gate, with its default numbers, if ONNX has them, and with others."""
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
    arrays = draw(np.random.default_rng(4), op, 3, 2, 4, 5, 1, ["B"])
    numbers = {"Affine": (0.5, -0.25), "Elu": (0.7,), "HardSigmoid": (0.3, 0.4), "LeakyRelu": (-0.2,),
               "ScaledTanh": (0.8, -0.6), "ThresholdedRelu": (0.3,)}.get(name)
    for place in range(count):
        listed = ["Sigmoid", "Tanh", "Tanh"][-count:] if op != "GRU" else ["Sigmoid", "Tanh"]
        listed[place] = name
        if name == "ThresholdedRelu":  # ONNX Runtime's default is not that of ONNX's operator, 1
            ours, other = own(node_model(op, arrays, activations=listed)), theirs(
                node_model(op, arrays, activations=listed, activation_alpha=[1.0]))
            close(ours.run(None, feeds(ours, arrays)), other.run(None, feeds(other, arrays)))
        elif name not in ("Affine", "ScaledTanh") and not (op == "RNN" and numbers and VERSION <= (1, 23)):
            both(op, arrays, activations=listed)
        if numbers and (op != "RNN" or VERSION > (1, 23)):  # whose RNN reads none
            more = {"activation_beta": numbers[1:]} if numbers[1:] else {}
            both(op, arrays, activations=listed, activation_alpha=numbers[:1], **more)


@pytest.mark.parametrize("op, attributes", [
    ("LSTM", {"clip": 0.3}), ("GRU", {"clip": 0.3}), ("RNN", {"clip": 0.3}),
    ("LSTM", {"input_forget": 1}), ("LSTM", {"input_forget": 1, "clip": 0.5}),
    ("GRU", {"linear_before_reset": 1}), ("GRU", {"linear_before_reset": 1, "clip": 0.4}),
    ("RNN", {"activations": ["Relu"]}), ("RNN", {"activations": ["Relu"], "clip": 1.0}),
], ids=str)
def test_attributes(op, attributes):
    for given in ([], ["B"], ["B", "P"] if op == "LSTM" else ["B", *STATES[op]]):
        for D, direction in ((1, "forward"), (2, "bidirectional")):
            arrays = draw(np.random.default_rng(5), op, 7, 3, 6, 10, D, given)
            said = dict(attributes)
            if "activations" in said:
                said["activations"] = said["activations"] * D
            both(op, arrays, direction=direction, **said)


@pytest.mark.parametrize("case", range(40))
def test_drawn(case):
    """Drawn options and sizes, several runs of one session."""
    rng = np.random.default_rng(100 + case)
    op = rng.choice(list(GATES))
    direction = rng.choice(list(DIRECTIONS))
    I, H = rng.integers(1, 70, 2)
    given = [name for name in ("B", "sequence_lens", *STATES[op], *(["P"] if op == "LSTM" else []))
             if rng.integers(2)]
    said = {"linear_before_reset": int(rng.integers(2))} if op == "GRU" else {}
    if rng.integers(3) == 0:
        said["clip"] = 0.75
    weights = draw(rng, op, 1, 1, I, H, DIRECTIONS[direction], given)
    model = node_model(op, weights, WEIGHTS if rng.integers(2) else (), direction=direction, **said)
    ours, other = own(model), theirs(model)
    for _ in range(6):
        T, N = rng.integers(1, 40), rng.integers(1, 12)
        arrays = draw(rng, op, T, N, I, H, DIRECTIONS[direction], given)
        arrays |= {name: weights[name] for name in WEIGHTS if name in weights}
        close(ours.run(None, feeds(ours, arrays)), other.run(None, feeds(other, arrays)))


@pytest.mark.parametrize("op", GATES)
def test_empty(op):
    """No steps copy states, no rows give empty arrays."""
    arrays = draw(np.random.default_rng(6), op, 0, 2, 3, 4, 2, ["B", *STATES[op]])
    session = own(node_model(op, arrays, direction="bidirectional"))
    Y, *states = session.run(None, feeds(session, arrays))
    assert Y.shape == (0, 2, 2, 4)
    for name, state in zip(STATES[op], states):
        assert (state == arrays[name]).all()
    arrays |= draw(np.random.default_rng(6), op, 3, 0, 3, 4, 2, STATES[op])
    Y, *states = session.run(None, feeds(session, arrays))
    assert Y.shape == (3, 2, 0, 4) and all(state.shape == (2, 0, 4) for state in states)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_static(op, direction):
    """With T and N in the graph weights are packed when the session is made, and ONNX Runtime drops its own."""
    given = ["B", "sequence_lens", *STATES[op], *(["P"] if op == "LSTM" else [])]
    for T, N in ((1, 1), (5, 3)):
        arrays = draw(np.random.default_rng(7), op, T, N, 6, 9, DIRECTIONS[direction], given)
        both(op, arrays, direction=direction, static=True)
        both(op, arrays, (*WEIGHTS, "initial_h"), direction=direction, static=True)  # which is then not dropped


def test_types():
    """F64 and BF16 nodes, which ONNX Runtime's own provider lacks, are near F32."""
    arrays = draw(np.random.default_rng(8), "GRU", 6, 3, 8, 16, 1, ["B", "initial_h"])
    expected = theirs(node_model("GRU", arrays)).run(None, {n: arrays[n] for n in ("X", "initial_h")})
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    session = own(node_model("GRU", wide))
    for one, other in zip(session.run(None, feeds(session, wide)), expected):
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("by_row", [True, False], ids=["rows", "tensor"])
@pytest.mark.parametrize("kind, zeros", [(np.int8, False), (np.int8, True), (np.uint8, True)],
                         ids=["int8", "int8-zeros", "uint8"])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_quantised(direction, by_row, kind, zeros, static):
    """DynamicQuantizeLSTM in F32 is the LSTM that its integers mean; by default it computes in int8, and is
    nearer to that than ONNX Runtime's own, which rounds X for a whole matrix."""
    D = DIRECTIONS[direction]
    real = draw(np.random.default_rng(9), "LSTM", 9, 2, 32, 48, D, ["B", "initial_h", "initial_c", "P"])
    integers = quantise(real, kind, by_row, zeros)
    expected = theirs(node_model("LSTM", real, direction=direction)).run(
        None, {name: real[name] for name in ("X", "initial_h", "initial_c")})
    model = node_model("DynamicQuantizeLSTM", integers, static=static, direction=direction)
    inputs = {name: real[name] for name in ("X", "initial_h", "initial_c")}
    close(own(model, precision="f32").run(None, inputs), expected)

    def error(session):
        Y = session.run(None, inputs)[0]
        return np.sqrt(np.mean((Y - expected[0]) ** 2) / np.mean(expected[0] ** 2))

    if zeros and by_row:  # ONNX Runtime's own has none
        assert 1e-5 < error(own(model)) < 0.01
    else:
        assert 1e-5 < error(own(model)) < error(theirs(model)) < 0.01
