"""Imports packages in the order of the arguments, runs a layer by an installed ecornn, and trains one if numpy is there.  Fails if ecornn imports more than it needs, takes another library than its own, brings a
second libgomp into the process, or computes something else than the reference.
"""

from __future__ import annotations

import ctypes
import os
import sys

STEPS, BATCH, INPUT, HIDDEN = 5, 3, 40, 64


def loaded(part):
    """The loaded files of this process whose names contain a text."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if part in os.path.basename(path))


def forward(device):
    """Returns y of an LSTM on a device; its inputs are the same on every device."""
    from ecornn import _library as lib

    library, address = lib.library, ctypes.c_void_p
    opened, plan, sizes = address(), address(), lib.Sizes()
    lib.check(library.ecornn_device_open(ctypes.byref(opened), device))
    problem = f"lstm/T{STEPS}/N{BATCH}/I{INPUT}/H{HIDDEN}"
    lib.check(library.ecornn_plan_create(ctypes.byref(plan), opened, problem.encode(), None))
    lib.check(library.ecornn_plan_sizes(plan, ctypes.byref(sizes)))
    count = sizes.param_count
    block = (ctypes.c_float * sizes.param_elements)(*((k * 37 % 101 - 50) / 500 for k in range(sizes.param_elements)))
    params = (address * count)()
    for k in range(count):
        param = lib.Param()
        lib.check(library.ecornn_param_get(plan, k, ctypes.byref(param)))
        params[k] = ctypes.addressof(block) + 4 * param.offset
    weights = library.ecornn_alloc(opened, sizes.weight_bytes)
    workspace = library.ecornn_alloc(opened, max(sizes.workspace_bytes, 1))
    lib.check(library.ecornn_pack(plan, params, None, weights, None))
    items = STEPS * BATCH
    x = (ctypes.c_float * (items * INPUT))(*(k * 13 % 29 / 29 for k in range(items * INPUT)))
    y = (ctypes.c_float * (items * HIDDEN))()
    io = lib.pack_io(x=ctypes.addressof(x), y=ctypes.addressof(y), weights=weights, workspace=workspace,
                     workspace_bytes=sizes.workspace_bytes)  # fmt: skip
    lib.check(library.ecornn_forward(plan, STEPS, BATCH, io))
    return list(y)


def losses(ecornn, numpy):
    """Squared errors of the mean of a GRU's outputs against that of x, at each step of training."""
    layer = ecornn.Layer("gru", 2, 8)
    x = numpy.random.default_rng(1).uniform(-1, 1, (STEPS, 16, 2)).astype("float32")
    wanted = x.mean((0, 2))
    for _ in range(50):
        run = layer.forward(x)
        error = run.y[-1].mean(1) - wanted
        yield float((error**2).mean())
        dy = numpy.zeros_like(run.y)
        dy[-1] = error[:, None] / error.size
        gradients = run.backward(dy=dy).parameters
        for name, parameter in layer.parameters.items():
            parameter -= gradients[name]


def main():
    for name in sys.argv[1:]:
        before = set(sys.modules)
        __import__(name)
        if name == "ecornn":
            assert not {"h5py", "jax", "onnx", "torch"} & (set(sys.modules) - before)
    assert "torch._dynamo" not in sys.modules
    import ecornn
    from ecornn import _library

    own = os.path.join(os.path.dirname(ecornn.__file__), "lib")
    assert os.path.dirname(_library.path) == own, _library.path
    ours, expected = forward(b"cpu"), forward(b"reference")
    error = max(abs(a - b) for a, b in zip(ours, expected))
    assert max(map(abs, expected)) > 0.01 and error < 1e-5, error
    gomp, blas = loaded("libgomp"), [path for path in loaded("openblas") if "numpy" not in path]
    assert len(gomp) == 1, gomp
    assert not blas, blas
    if "numpy" in sys.modules:
        assert len(ecornn.cells) >= 40 and "# Source: " in ecornn.cells["lif"]  # in the library itself
        first, *_, last = losses(ecornn, sys.modules["numpy"])
        assert last < first / 4, (first, last)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        assert torch.nn.LSTM(4, 5)(torch.ones(2, 3, 4))[0].isfinite().all()
        assert loaded("libgomp") == gomp
    print(f"{' '.join(sys.argv[1:])}: error {error:.1g}, {gomp[0]}")


if __name__ == "__main__":
    main()
