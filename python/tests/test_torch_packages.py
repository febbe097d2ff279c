"""Programs exported ahead of time: torch.export, AOTInductor, and its packages without Python."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import ecornn.torch as et  # noqa: E402
from ecornn import _library, _runner  # noqa: E402
from ecornn.torch import _native  # noqa: E402

DIMS = {0: torch.export.Dim("T", min=1, max=512), 1: torch.export.Dim("N", min=1, max=512)}
COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # one: a package takes a minute there

PROGRAM = r"""
#include <cstdio>
#include <dlfcn.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

static FILE *file;

static int64_t number()
{
    int64_t found = -1;
    return std::fread(&found, sizeof found, 1, file) == 1 ? found : -1;
}

/* Tensors of the file: how many there are; of each, whether it is of integers, its sizes and values. */
static std::vector<at::Tensor> tensors(const char *device)
{
    std::vector<at::Tensor> found;
    for (int64_t left = number(); left > 0; left--) {
        const bool integers = number() == 1;
        std::vector<int64_t> sizes(number());
        for (int64_t &size : sizes)
            size = number();
        auto tensor = at::empty(sizes, at::TensorOptions(integers ? at::kLong : at::kFloat));
        if (std::fread(tensor.data_ptr(), 1, tensor.nbytes(), file) == tensor.nbytes())
            found.push_back(tensor.to(at::Device(device), tensor.scalar_type()));
    }
    return found;
}

int main(int, char **argv)
{
    if (!dlopen(argv[1], RTLD_NOW)) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    torch::inductor::AOTIModelPackageLoader loader(argv[2]);
    file = std::fopen(argv[3], "rb");
    for (int turn = 0; turn < 3; turn++) { /* sizes of its own each */
        auto found = loader.run(tensors(argv[4])), want = tensors(argv[4]);
        if (found.size() != want.size() || want.empty())
            return 3;
        for (size_t k = 0; k < want.size(); k++)
            if (!found[k].allclose(want[k], 1e-4, 1e-5))
                return 4;
    }
    std::puts("equal");
}
"""


class Model(torch.nn.Module):
    """A layer between others, with flat results."""

    def __init__(self, layer, lengths=False):
        super().__init__()
        self.rnn, self.lengths = layer.eval(), lengths
        self.head = torch.nn.Linear(layer.hidden_size * (1 + layer.bidirectional), 2)

    def forward(self, x, *given):
        lengths = given[0] if self.lengths else None
        given = given[self.lengths:]
        hx = None if not given else given[0] if len(given) == 1 else given
        y, final = self.rnn(torch.tanh(x), hx, lengths=lengths)
        return self.head(y), *(final if isinstance(final, tuple) else [final])


def _inputs(layer, steps, batch, lengths, states):
    first = layer.batch_first
    x = torch.randn(*((batch, steps) if first else (steps, batch)), layer.input_size)
    given = [torch.randint(1, steps + 1, (batch,))] if lengths else []
    count = 2 if layer.mode == "LSTM" else 1
    pairs = layer.num_layers * (1 + layer.bidirectional)
    return [x, *given, *(torch.randn(pairs, batch, layer.hidden_size)
                         for _ in range(count * states))]


CASES = {
    "plain": (lambda: et.LSTM(6, 8), False, False),
    "states": (lambda: et.GRU(6, 8, 2, bidirectional=True, batch_first=True), True, True),
    "no bias": (lambda: et.RNN(6, 8, 2, bias=False), False, True),
    "own cell": (lambda: et.LayerNormLSTM(6, 8, 2, bidirectional=True), True, False),
    "heads": (lambda: et.Recurrent(6, 8, cell="gru", heads=2, bias=False), False, False),
    "peepholes": (lambda: et.PeepholeLSTM(6, 8, bidirectional=True), False, False),
}


def _write(path, lists):
    """A file of lists of tensors, as the program reads it."""
    with open(path, "wb") as file:
        for tensors in lists:
            file.write(struct.pack("q", len(tensors)))
            for tensor in tensors:
                file.write(struct.pack(f"{2 + tensor.dim()}q", not tensor.is_floating_point(), tensor.dim(),
                                       *tensor.shape))
                file.write(tensor.cpu().numpy().tobytes())


def _compile(program, path):
    """A package whose C++ is compiled fast and not tuned: it runs a few times."""
    config = {"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.precompile_headers": False}
    package = getattr(torch._inductor, "aoti_compile_and_package", None) or pytest.skip(
        "packages came with torch 2.5")
    return package(program, package_path=str(path), inductor_configs=config)


@pytest.fixture(scope="module")
def package(request, tmp_path_factory):
    """A package for any T and N in a folder, with inputs of several sizes and the model's results."""
    folder = tmp_path_factory.mktemp("package")
    make, lengths, states = CASES[request.param]
    torch.manual_seed(0)
    layer = make()
    model = Model(layer, lengths).to(DEVICE)
    inputs = [[tensor.to(DEVICE) for tensor in _inputs(layer, *size, lengths, states)]
              for size in ((5, 3), (40, 7), (1, 1))]
    rows = {0: DIMS[1]} if lengths else None
    dims = [{0: DIMS[1], 1: DIMS[0]} if layer.batch_first else DIMS, *([rows] if rows else []),
            *[{1: DIMS[1]}] * (len(inputs[0]) - 1 - lengths)]
    more = [tuple(dims[1:])] if dims[1:] else []
    # Like full_precision, which does not cover fixtures of a module.
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        program = torch.export.export(model, tuple(inputs[0]), dynamic_shapes=(dims[0], *more))
        _compile(program, folder / "model.pt2")
        lists = [tensors for given in inputs for tensors in (given, model(*given))]
    torch.save(lists, folder / "lists.pt")
    _write(folder / "lists", lists)
    return folder


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_export_for_any_shape(kind, strict, batch_first):
    module = getattr(et, kind)(12, 16, batch_first=batch_first).eval()
    steps, batch = (1, 0) if batch_first else (0, 1)
    program = torch.export.export(module, (torch.randn(6, 20, 12),), strict=strict,
                                  dynamic_shapes=({steps: DIMS[0], batch: DIMS[1]},))
    again = program.module()
    for shape in ((3, 20, 12), (1, 7, 12), (6, 20, 12)):
        x = torch.randn(*shape)
        assert torch.equal(again(x)[0], module(x)[0])
        found = torch.autograd.grad(again(x)[0].pow(2).sum(), list(again.parameters()))
        want = torch.autograd.grad(module(x)[0].pow(2).sum(), list(module.parameters()))
        assert all(map(torch.equal, found, want))


def _run_package(folder):
    run = torch._inductor.aoti_load_package(os.path.join(folder, "model.pt2"))
    lists = torch.load(os.path.join(folder, "lists.pt"))
    for given, want in zip(lists[::2], lists[1::2], strict=True):
        for one, other in zip(run(*given), want, strict=True):
            torch.testing.assert_close(one, other)


def _run_package_of_torch(folder):
    """The same without ecornn."""
    model, x = torch.nn.Linear(6, 2).to(DEVICE), torch.randn(5, 6, device=DEVICE)
    with torch.no_grad():
        path = _compile(torch.export.export(model, (x,)), os.path.join(folder, "torch.pt2"))
        torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x), model(x))


@needs_compiler
@pytest.mark.parametrize("package", ["own cell"], indirect=True)
def test_a_package_in_python(package):
    """In a process of its own: with some compilers torch's own packages crash as they are loaded."""
    def run(what):
        return subprocess.run([sys.executable, "-W", "ignore", __file__, what, package],
                              capture_output=True, text=True)

    found = run("ecornn")
    if found.returncode < 0 and run("torch").returncode == found.returncode:
        pytest.skip("torch's own packages crash here, too")
    assert found.returncode == 0, found.stderr


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The C++ program."""
    root, folder = os.path.dirname(torch.__file__), tmp_path_factory.mktemp("program")
    source, made = folder / "main.cpp", folder / "main"
    source.write_text(PROGRAM)
    include, libraries = os.path.join(root, "include"), os.path.join(root, "lib")
    command = [COMPILER, "-std=c++20", "-O0", f"-I{include}",
               f"-I{include}/torch/csrc/api/include", "-DUSE_CUDA=0", source, "-o", made,
               f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", "-ltorch_cpu",
               "-ltorch", "-lc10", "-ldl",
               f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    subprocess.run(command, check=True)
    return made


@needs_compiler
@pytest.mark.skipif(_native._module is None, reason="needs ecornn-torch.so")
@pytest.mark.parametrize("package", [
    pytest.param(name, marks=[] if name == "own cell" else pytest.mark.long)
    for name in CASES if DEVICE == "cpu" or name in ("states", "own cell")], indirect=True)
def test_a_package_without_python(package, program):
    libraries = os.path.dirname(os.path.abspath(_library.path))
    found = subprocess.run([program, _native._module._name, package / "model.pt2", package / "lists", DEVICE],
                           capture_output=True, text=True,
                           env={**os.environ, "LD_LIBRARY_PATH": libraries})
    assert found.returncode == 0 and found.stdout == "equal\n", found.stderr


ERRORS = """
import sys, torch
torch.ops.load_library(sys.argv[1])
x, weights = torch.ones(5, 2, 3), [torch.ones(12, 3), torch.ones(12, 4)]
def run(x=x, lengths=None, states=None, weights=weights, cell="gru", mask=None, keep=False, problem="L1/I3/H4"):
    return torch.ops.ecornn.layer(x, lengths, states, weights, None, None, mask, cell, problem, "save:all", 0.0,
                                  False, None, keep)
y, h, *_ = run(x.transpose(0, 2).contiguous().transpose(0, 2))
assert torch.equal(run(torch.frombuffer(bytearray(121), dtype=x.dtype, offset=1).view(5, 2, 3).fill_(1))[0], y)
assert torch.equal(y[-1], h[0]) and torch.equal(y, run()[0])
assert torch.equal(run(weights=[2 * weight for weight in weights])[0], run(
    weights=[2 * weight for weight in weights])[0]) and torch.equal(run()[0], y)
for bare in "\\nh' = tanh(h)", "\\vh' = tanh(h + b)":  # no weights
    y = run(cell="cell a(h)" + bare, weights=[], states=[torch.full((1, 2, 4), 0.5)])[0]
    assert torch.allclose(y[1], torch.full((2, 4), 0.5).tanh().tanh())
for wrong, text in ((dict(weights=weights[:1]), "another shape"), (dict(x=x[0]), "x must be"),
                    (dict(x=x.double()), "weights must"), (dict(cell="mug"), "no such cell"),
                    (dict(states=[h, h]), "number of initial states"),
                    (dict(lengths=torch.ones(2)), "another shape"), (dict(x=x.int()), "floats"),
                    (dict(mask=x[..., 0]), "resets and mask"), (dict(keep=True), "training"),
                    (dict(x=torch.ones(5, 2, 7)), "input size"), (dict(cell="gru\\0"), "zero byte"),
                    (dict(cell="cell a(h)\\nh' = W x +"), "2:"),
                    *((dict(problem=problem), text) for problem, text in {
                        "L1/I200000/H4": "input size", "L120/I3/H4": "too many layers for one call",
                        "": "not a valid part", "L1/I3": "hidden is 0, must", "L1/I0/H4": "I is 0, must",
                        "L-1/I3/H4": "not a valid part", "L1/I3/H4294967297": "must be 1 to", "L1/I3/H4/T9": "T9",
                        "L1/I3/H4/heads:3": "heads is 3", "L1/I3/H4/models:2": "an Ensemble needs",
                        "L1/I3/H4/all-states": "all_states needs", "L1/I3/H4\\0": "zero byte",
                        **{f"L1/I3/H4/{part}": "no parts but" for part in (
                            "resets", "mask", "int8", "bf16-weights", "train", "streams")},
                        "L1/I3/H4" + "/bi" * 500: "too long"}.items()),
                    (dict(states=[torch.ones(1, 4, 2).double().mT]), "another shape"),
                    (dict(lengths=torch.ones(4)[::2]), "another shape")):
    try:
        run(**wrong)
    except RuntimeError as error:
        assert "ecornn::layer: " in str(error) and text in str(error), error
    else:
        raise AssertionError(text)
"""


MOVES = """
import ctypes, os, sys, torch
app, first, then = sys.argv[1:]
os.chdir(app)
exec(first)
os.chdir(app + "/other")
exec(then)
torch.ops.ecornn.layer(torch.ones(5, 2, 1), None, None, [torch.ones(3, 1)] * 2, None, None, None, "gru",
                       "L1/I1/H1", "", 0.0, False, None, False)
names = {line.split()[-1] for line in open("/proc/self/maps") if "ecornn" in os.path.basename(line.split()[-1])}
right = {app + "/lib/ecornn-torch.so", app + "/" + os.environ["ECORNN_LIBRARY"]}
assert names == right | ({app + "/lib/ecornn-run.so"} if then else set()), names
"""


@pytest.mark.skipif(_native._module is None, reason="needs ecornn-torch.so")
@pytest.mark.parametrize("first, then", [("ctypes.CDLL('lib/ecornn-torch.so')", ""),
                                         ("import ecornn", "import ecornn.torch")])
def test_relative_names_are_those_of_the_start(tmp_path, first, then):
    for folder in (tmp_path / "lib", tmp_path / "other" / "lib"):
        folder.mkdir(parents=True)
        shutil.copy(_native._module._name, folder / "ecornn-torch.so")
        shutil.copy(_runner._module._name, folder / "ecornn-run.so")
        shutil.copy(_library.path, folder / _library.NAME)
    subprocess.run([sys.executable, "-c", MOVES, tmp_path, first, then], check=True, env={
        **os.environ, "ECORNN_LIBRARY": f"lib/{_library.NAME}", "ECORNN_TORCH_MODULE": "lib/ecornn-torch.so"})


MANY = """
import threading
torch.set_num_threads(1)
def run(k):
    k, steps, rows, input = k % 4352, 1 + k % 16, 1 + k // 16 % 16, 1 + k % 4352 // 256
    weights = [torch.full((size, width), 0.1) for size, width in ((3, input), (3, 1))]
    return torch.ops.ecornn.layer(torch.ones(steps, rows, input), None, None, weights, None, None, None,
                                  "gru", f"L1/I{input}/H1", "", 0.0, False, None, False)[0][-1, -1].item()
def sizes(first, found):
    found += [run(first + k) for k in range(4352)]
found = [[], []]  # more sizes than the 4096 plans that are kept, in two threads at once
threads = [threading.Thread(target=sizes, args=(2176 * k, each)) for k, each in enumerate(found)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found[0]) == 4352 and found[0] == found[1][2176:] + found[1][:2176]
assert found[0][:9] == [run(k) for k in range(9)]
for k in range(0, 4352, 256):  # and a row is that of any number of rows
    assert all(abs(found[0][k] - found[0][k + 16 * n]) < 1e-6 for n in range(16))
"""


@pytest.mark.skipif(_native._module is None, reason="needs ecornn-torch.so")
def test_the_operator_in_c_names_what_is_wrong_and_keeps_plans():
    subprocess.run([sys.executable, "-c", ERRORS + MANY, _native._module._name], check=True)


if __name__ == "__main__":
    what, folder = sys.argv[1:]
    (_run_package if what == "ecornn" else _run_package_of_torch)(folder)
