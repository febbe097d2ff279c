"""Models of one node, and sessions that run them by the plug-in or by ONNX Runtime's own provider."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import onnx
import onnxruntime
from onnx import helper

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
NAME = "EcornnExecutionProvider"
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": ["initial_h", "initial_c"], "GRU": ["initial_h"], "RNN": ["initial_h"]}
INPUTS = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P", "W_scale", "W_zero_point",
          "R_scale", "R_zero_point"]
WEIGHTS = ("W", "R", "B", "P", "W_scale", "W_zero_point", "R_scale", "R_zero_point")


def plugin() -> str:
    """The plug-in of the build that ECORNN_LIBRARY names, which it finds because it is loaded."""
    library = os.environ["ECORNN_LIBRARY"]
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    return os.path.join(os.path.dirname(library), "ecornn-ort.so")


def devices() -> list:
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]


def own(model: onnx.ModelProto, only: bool = True, **options: str) -> onnxruntime.InferenceSession:
    """A session with the plug-in; only: fails if a node is left to ONNX Runtime."""
    said = onnxruntime.SessionOptions()
    said.intra_op_num_threads = 1
    if only:
        said.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    said.add_provider_for_devices(devices(), options)
    return onnxruntime.InferenceSession(model.SerializeToString(), said)


def theirs(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    said = onnxruntime.SessionOptions()
    said.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), said, providers=["CPUExecutionProvider"])


def draw(rng, op: str, T: int, N: int, I: int, H: int, D: int, given=()) -> dict:
    """Arrays of a node with layout 0 by ONNX's names; given: optional inputs."""
    G = GATES[op]
    shapes = {"X": (T, N, I), "W": (D, G * H, I), "R": (D, G * H, H), "B": (D, 2 * G * H), "P": (D, 3 * H),
              "initial_h": (D, N, H), "initial_c": (D, N, H)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
              if name in ("X", "W", "R") or name in given}
    for name in ("W", "R"):
        arrays[name] /= np.float32(arrays[name].shape[-1] ** 0.5)
    if "sequence_lens" in given:
        arrays["sequence_lens"] = rng.integers(1, T + 1, N, dtype=np.int32)
    return arrays


def node_model(op: str, arrays: dict, constants=WEIGHTS, outputs=3, static: bool = False, **attributes
               ) -> onnx.ModelProto:
    """One node.  Its inputs are arrays, those in constants initialisers; unless static, all sizes are
    dynamic but the last of X, W and R."""
    quantised = op == "DynamicQuantizeLSTM"
    H = arrays["R"].shape[-1] // (4 if quantised else 1)
    names = [name if name in arrays else "" for name in INPUTS]
    while not names[-1]:
        names.pop()
    if isinstance(outputs, int):
        outputs = ["Y", "Y_h", "Y_c"][:min(outputs, 1 + len(STATES.get(op, "hc")))]
    node = helper.make_node(op, names, outputs, name="the node", hidden_size=H,
                            domain="com.microsoft" if quantised else "", **attributes)
    kind = helper.np_dtype_to_tensor_dtype

    def info(name):
        array = arrays[name]
        shape = array.shape if static else [None] * (array.ndim - 1) + [array.shape[-1] if name in "XWR" else None]
        return helper.make_tensor_value_info(name, kind(array.dtype), shape)

    element = kind(arrays["X"].dtype)
    graph = helper.make_graph(
        [node], "graph", [info(name) for name in arrays if name not in constants],
        [helper.make_tensor_value_info(name, element, None) for name in outputs if name],
        [onnx.numpy_helper.from_array(arrays[name], name) for name in arrays if name in constants])
    sets = [helper.make_opsetid("", 22)] + [helper.make_opsetid("com.microsoft", 1)] * quantised
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def quantise(arrays: dict, kind=np.int8, by_row: bool = True, zeros: bool = False) -> dict:
    """The arrays of a DynamicQuantizeLSTM from those of an LSTM; W and R become those that its
    integers mean.  zeros: integers for 0 that are not 0, as uint8 always has."""
    made = {}
    for name in ("W", "R"):
        real = arrays[name].swapaxes(1, 2)
        axis = 1 if by_row else (1, 2)
        low, high = real.min(axis, keepdims=True), real.max(axis, keepdims=True)
        if kind is np.int8 and not zeros:
            scale, zero = np.maximum(-low, high) / 127, np.zeros_like(low)
        else:
            scale = (np.maximum(high, 0) - np.minimum(low, 0)) / 255
            zero = np.round(-np.minimum(low, 0) / scale) + np.iinfo(kind).min
        integers = np.clip(np.round(real / scale) + zero, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)
        arrays[name] = ((integers - zero) * scale).astype(np.float32).swapaxes(1, 2).copy()
        flat = (len(real), -1) if by_row else (len(real),)
        made |= {name: integers, name + "_scale": scale.reshape(flat).astype(np.float32),
                 name + "_zero_point": zero.reshape(flat).astype(kind)}
    return arrays | made


def feeds(session, arrays: dict) -> dict:
    return {each.name: arrays[each.name] for each in session.get_inputs()}


def close(ours, others, tolerance: float = 2e-5) -> None:
    """Are all elements equal up to the tolerance, of numbers about 1?"""
    assert len(ours) == len(others)
    for one, other in zip(ours, others):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


ATTENTION = ["query", "key", "value", "past_state", "decay", "beta"]


def draw_attention(rng, T: int, N: int, heads: int, K: int, V: int | None = None, wide: bool = False,
                   queries: int | None = None, single: bool = False) -> dict:
    """All inputs of LinearAttention; wide: a decay for each row of the state; single: one beta for all heads."""
    V = V or K
    array = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    key = array(N, T, heads, K)
    key /= np.maximum(np.linalg.norm(key, axis=-1, keepdims=True), 1e-6)
    return {"query": array(N, T, (queries or heads) * K), "key": key.reshape(N, T, heads * K), "value": array(N, T, heads * V),
            "past_state": array(N, heads, K, V), "decay": -0.2 * np.abs(array(N, T, heads * (K if wide else 1))),
            "beta": rng.random((N, T, 1 if single else heads), np.float32)}


def attention_model(arrays: dict, heads: int, rule: str, domain: str = "com.microsoft", queries: int | None = None,
                    outputs=("output", "present_state"), **attributes) -> onnx.ModelProto:
    """LinearAttention with those of the arrays that the rule has; T and N are dynamic."""
    without = {"linear": ("decay", "beta"), "gated": ("beta",), "delta": ("decay",), "gated_delta": ()}[rule]
    names = [name if name in arrays and name not in without else "" for name in ATTENTION]
    while not names[-1]:
        names.pop()
    node = helper.make_node("LinearAttention", names, outputs, name="the node", domain=domain, update_rule=rule,
                            q_num_heads=queries or heads, kv_num_heads=heads, **attributes)
    float32 = onnx.TensorProto.FLOAT
    infos = [helper.make_tensor_value_info(
        name, float32, [None, *arrays[name].shape[1:]] if name == "past_state" else [None, None, arrays[name].shape[2]])
        for name in names if name]
    graph = helper.make_graph([node], "graph", infos,
                              [helper.make_tensor_value_info(name, float32, None) for name in outputs if name])
    sets = [helper.make_opsetid("", 23 if domain else 27)] + [helper.make_opsetid(domain, 1)] * bool(domain)
    return helper.make_model(graph, opset_imports=sets, ir_version=10)
