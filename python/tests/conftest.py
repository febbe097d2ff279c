"""Functions that several of the package's tests use."""

from __future__ import annotations

import copy
import importlib
import os
import subprocess
import sys
import threading

import pytest

try:
    import torch
except ImportError:
    torch = None

# Inductor would build a program for each instruction set, and its vector code is not what we test.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
# By default JAX reserves three quarters of a GPU's memory; other tests need it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


# The files that take longest: begun last, one of two processes would wait for the other.
FIRST = ["test_torch_packages", "test_torch_graphs", "test_jax_transforms", "test_examples", "test_torch_matrix"]


def pytest_configure(config):
    """Declares the marks of tests that take long."""
    if hasattr(config.option, "loadscopereorder"):  # xdist would begin with files of many tests
        config.option.loadscopereorder = False
    config.addinivalue_line("markers", "long: runs only if ECORNN_TESTS is all")
    config.addinivalue_line("markers", "every(n): else one case in n runs, the first of them")


def pytest_collection_modifyitems(config, items):
    """Begins with the longest files, and leaves out what the marks say unless ECORNN_TESTS is all; a
    shorter test runs the same code."""
    items.sort(key=lambda item: (*FIRST, item.path.stem).index(item.path.stem))
    if os.environ.get("ECORNN_TESTS") == "all":
        return
    left, cases = [], {}
    for item in items:
        every = item.get_closest_marker("every")
        case = cases[item.function] = cases.get(item.function, -1) + 1
        if item.get_closest_marker("long") or every and case % every.args[0]:
            left.append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture(params=["cpu"] + ["cuda"] * (torch is not None and torch.cuda.is_available()))
def device(request):
    """A CPU and, if there is one, a GPU, for tests that do not list their devices."""
    return request.param


@pytest.fixture(autouse=True, scope="module")
def no_compilations():
    """Each file begins without compiled functions: torch compiles one at most eight times, and which
    files a process has run before depends on timing."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@pytest.fixture(autouse=True)
def full_precision():
    """In each test torch draws the same numbers. Its own layers, which results are compared with,
    calculate in full F32 on a GPU, too."""
    if torch is None:
        yield
        return
    torch.manual_seed(0)
    # Not the attribute: torch.testing forbids to set it.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.fixture
def double():
    """Tensors and modules are double unless a type is named: for comparisons with torch's own layers,
    whose error in F32 depends on the machine."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def no_aliases():
    """An operator whose results share memory is an error: torch only warns unless CI is set."""
    try:
        from torch._functorch import config
    except ImportError:
        yield
        return
    if not hasattr(config, "error_on_custom_op_aliasing"):
        yield
        return
    with config.patch(error_on_custom_op_aliasing=True):
        yield


@pytest.fixture
def here(monkeypatch, capsys):
    """Runs an example of examples/torch in this process, both sides of it, too: a user's start imports
    torch three times."""
    import kit

    def side(train, name, args, unit):
        with torch.backends.__allow_nonbracketed_mutation():  # which torch.testing forbids
            run = kit.Run(name, copy.copy(args), unit)
        train(run)
        return run.result()

    def start(program, *options):
        monkeypatch.setattr(kit, "run_side", side)
        monkeypatch.setattr(sys, "argv", [program, *options])
        capsys.readouterr()
        status = importlib.import_module(program[:-3]).main()
        return subprocess.CompletedProcess(sys.argv, status, *capsys.readouterr())

    threads = torch.get_num_threads()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    yield start
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture
def runs(monkeypatch):
    """A list that grows by one each time the library runs one of torch's layers."""
    from ecornn.torch import _run

    found, forward = [], _run.forward
    monkeypatch.setattr(_run, "forward",
                        lambda *args, **more: found.append(1) or forward(*args, **more))
    return found


@pytest.fixture
def in_threads():
    """Calls work(k) in threads, k = 0..3, or more, and raises what a thread raised."""

    def call(work, count=4):
        failures = []

        def guarded(k):
            try:
                work(k)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for failure in failures:
            raise failure

    return call
