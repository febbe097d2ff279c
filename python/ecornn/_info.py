"""What is installed: the library, its devices, the CUDA module, and a check of each device."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from . import _library as lib
from . import _plan
from ._errors import Error

MODULES = ("ecornn_cu13", "ecornn_cu12")  # packages with the CUDA module


def _modules(beside: str) -> list[dict[str, Any]]:
    """The places searched for the CUDA module, in order, and whether it is there."""
    folders = []
    asked = os.environ.get("ECORNN_MODULE_DIR")
    for package in MODULES:
        found = importlib.util.find_spec(package)
        places = list(found.submodule_search_locations or ()) if found else []
        folders.append((f"package {package}", os.path.join(places[0], "lib") if places else ""))
    taken = [folder for _, folder in folders if folder and folder == asked]
    if asked and not taken:
        folders.insert(0, ("ECORNN_MODULE_DIR", asked))
    folders.append(("beside the library", os.path.join(os.path.dirname(beside), "ecornn")))
    return [
        {"where": where, "folder": folder,
         "found": bool(folder) and os.path.exists(os.path.join(folder, "ecornn-cuda.so"))}
        for where, folder in folders
    ]


def info() -> dict[str, Any]:
    """What is installed, as plain data.

    version; library: its file; numpy and python: versions; devices: for each its name (``device``)
    and the result of ecornn_device_query; modules: the places searched for the CUDA module; no_gpu:
    why there is no GPU, or None.

    >>> found = info()
    >>> [d["device"] for d in found["devices"]][:2]
    ['cpu', 'reference']
    """
    import numpy

    names = ["cpu", "reference"]
    no_gpu = None
    try:
        _plan.device("cuda:0")
        names += [f"cuda:{k}" for k in range(lib.device_count("cuda"))]
    except Error as error:
        no_gpu = str(error)
    file = os.path.realpath(lib.file())
    return {
        "version": lib.version(),
        "library": file,
        "python": sys.version.split()[0],
        "numpy": numpy.__version__,
        "devices": [{"device": name, **_plan.device_info(name)} for name in names],
        "modules": _modules(file),
        "no_gpu": no_gpu,
    }


def self_check(device: str) -> tuple[float, float]:
    """Runs a small LSTM, forward and backward, on a device and on the reference.

    Returns the largest difference and its limit, both relative to the largest number.
    """
    import numpy

    from .layer import Layer
    from .results import Array

    steps, batch, width, hidden = 6, 3, 5, 8
    draw = numpy.random.default_rng(1)
    x = draw.standard_normal((steps, batch, width)).astype(numpy.float32)
    dy = draw.standard_normal((steps, batch, hidden)).astype(numpy.float32)
    found = []
    for name in (device, "reference"):
        layer = Layer("lstm", width, hidden, device=name, seed=1)
        given = [Array.of(name, array) for array in (x, dy)]
        run = layer.forward(given[0], lengths=[6, 4, 5])
        grads = run.backward(given[1])
        made = [run.y, *run.final, grads.x, *(grads.initial or ())]
        assert grads.parameters is not None
        found.append([array.numpy() for array in made] + [grads.parameters.block])
    worst = 0.0
    for ours, reference in zip(*found):
        # numpy's maximum keeps a NaN, max does not.
        worst = float(numpy.maximum(worst, abs(ours - reference).max() / abs(reference).max()))
    # The limit covers F32 sums of some 10 steps with some 10 terms, and activations with errors of
    # a few ulp each.
    return worst, 1e-5
