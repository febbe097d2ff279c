"""C files of stacks: their bits are those of the library's plain instruction set, natively, on Arm and
as WebAssembly; the command, and what it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import ecornn
from ecornn import BadArgument, Layer, Unsupported, _names
from ecornn.export import Head, export, main, source

MEANS = """
cell norm(h, m = 0.1)
a = W x + R h + b
s = a - mean(a)
v = mean(s * s)
h' = min(tanh(p * s / sqrt(v + 0.001)), 0.7) * bernoulli(0.9, once) - m
m' = m * 0.30000000000000004 + select(a, exp(-abs(a)), relu(b))
"""
ORDER = """
cell order(h, c)
f = sigmoid(W x + b)
e = R h
g = R c
n = tanh(R (f * h) + e + g + b)
c' = f * c + log(1.5 + n)
d = R c
h' = max(n, d) + stop(x) * e + d * (n - stop(n)) + x
"""
PARTS = """
cell parts(h, c; a[1], u[H], e[1], v[H])
i = sigmoid(u + R h + b)
j = tanh(v + R (i * h) + W x + b)
c' = a * c + i * tanh(e + R c)
h' = c' * j - v
"""
TWO = """
cell two(h)
f = sigmoid(W x + R h + b)
e = R (f * f)
h' = tanh(R (f * h) + e + b)
"""
# Name: cell, input, hidden, and more of Layer.
NETS = {**{name.replace("-", "_"): (name, 7, 7, {"layers": 2}) for name in ecornn.cells()},
        "tiny": ("lstm", 1, 3, {}), "wide": ("gru", 9, 40, {"layers": 3}),
        "projected": ("lstm", 3, 21, {"layers": 2, "proj": 6}),
        "bytes": ("lstm", 9, 40, {"layers": 2, "weights": "int8"}),
        "byte_weights": ("gru", 7, 21, {"layers": 2, "weights": "int8-weights"}),
        "projected_bytes": ("lstm", 3, 21, {"proj": 6, "weights": "int8"}),
        "order_bytes": (ORDER, 5, 5, {"layers": 2, "weights": "int8"}),
        "parts": (PARTS, 9, 3, {}), "parts_bytes": (PARTS, 9, 2, {"weights": "int8"}),
        "two_operands": (TWO, 3, 5, {"layers": 2}), "means": (MEANS, 3, 19, {"layers": 2}), "order": (ORDER, 5, 5, {"layers": 2})}
STEPS, X = 61, 61 * 9
MAKE = """
import sys, numpy as np, ecornn
from ecornn.export import export
sys.path.insert(0, sys.argv[1])
from test_export import NETS, STEPS, given
for name, (cell, I, H, more) in NETS.items():
    layer = ecornn.Layer(cell, I, H, device="cpu:1", seed=5, **more)
    y = layer(given(I)[:, None])[0]
    export(layer, name + ".c")
    np.save(name + ".npy", np.asarray(y)[:, 0])
"""
DRIVER = """
{includes}
#ifndef __wasm__
#include <stdio.h>
#else
float sqrtf(float x);
float sqrtf(float x)
{{
    return __builtin_sqrtf(x);
}}
#endif
static float x[{room}], y[{room} * 8];
float *x_of(void);
float *y_of(void);
int run(int net);
float *x_of(void)
{{
    return x;
}}
float *y_of(void)
{{
    return y;
}}
/* Runs all steps in blocks of 7; returns the numbers of y. */
int run(int net)
{{
    switch (net) {{
{cases}
    }}
    return 0;
}}
#ifndef __wasm__
int main(void)
{{
    if (fread(x, sizeof *x, {room}, stdin) != {room})
        return 1;
    for (int net = 0, n; (n = run(net)) > 0; net++)
        fwrite(y, sizeof *y, (size_t)n, stdout);
    return 0;
}}
#endif
"""
CASE = """    case {k}: {{
        struct {name} net;
        const struct {name}_sizes is = {name}_sizes();
        {name}_reset(&net);
        for (int t = 0; t < {steps}; t += 7)
            {name}_run(&net, x + t * is.input, y + t * is.output, {steps} - t < 7 ? {steps} - t : 7);
        return {steps} * is.output;
    }}"""
NODE = """
const fs = require("fs"), wasm = new WebAssembly.Instance(new WebAssembly.Module(
    fs.readFileSync("nets.wasm")), {}).exports, memory = new Uint8Array(wasm.memory.buffer);
memory.set(fs.readFileSync(0), wasm.x_of());
for (let net = 0, n; (n = wasm.run(net)) > 0; net++)
    fs.writeSync(1, memory, wasm.y_of(), 4 * n);
"""
FLAGS = ["-std=c11", "-ffreestanding", "-Wall", "-Wextra", "-pedantic", "-Werror", "-ffp-contract=off"]


def given(inputs):
    """x [T,I], the beginning of one array."""
    flat = np.random.default_rng(1).standard_normal(X).astype(np.float32) * 2
    return flat[:STEPS * inputs].reshape(STEPS, inputs)


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    """A folder with all files, their driver, and the library's y."""
    folder = tmp_path_factory.mktemp("nets")
    environment = {**os.environ, "ECORNN_ISA": "plain"}
    subprocess.run([sys.executable, "-c", MAKE, os.path.dirname(__file__)], cwd=folder, check=True,
                   env=environment)
    cases = "\n".join(CASE.format(k=k, name=name, steps=STEPS) for k, name in enumerate(NETS))
    (folder / "driver.c").write_text(DRIVER.format(
        includes="\n".join(f'#include "{name}.h"' for name in NETS), room=X, cases=cases))
    return folder


def built(folder, compiler, *more):
    """Objects of all nets by one compiler, without a warning."""
    objects = []
    for name in NETS:
        objects.append(f"{name}.{os.path.basename(compiler[0])}.o")
        subprocess.run([*compiler, *FLAGS, *more, "-c", f"{name}.c", "-o", objects[-1]], cwd=folder,
                       check=True)
    return objects


def compare(folder, command):
    """Runs a program of all nets and compares its bits."""
    done = subprocess.run(command, cwd=folder, input=given(9).tobytes(), stdout=subprocess.PIPE,
                          check=True)
    y = np.frombuffer(done.stdout, np.uint32)
    for name in NETS:
        theirs = np.load(folder / f"{name}.npy").view(np.uint32).ravel()
        np.testing.assert_array_equal(y[:theirs.size], theirs, name)
        y = y[theirs.size:]
    assert y.size == 0


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")


@pytest.mark.every(3)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O3", "-Os"])
def test_native(nets, compiler, level, capsys):
    needs(compiler)
    objects = built(nets, [compiler], level)
    subprocess.run([compiler, "driver.c", *objects, "-lm", "-o", "native"], cwd=nets, check=True)
    compare(nets, ["./native"])
    needed = subprocess.run(["nm", "-u", *objects], cwd=nets, check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    assert set(needed.split()) - {f"{each}:" for each in objects} <= {"U", "sqrtf",
                                                                     "_GLOBAL_OFFSET_TABLE_"}
    with capsys.disabled():  # sizes are part of the answer
        print(f"\n{compiler} {level}: bytes of code and data\n" + subprocess.run(
            ["size", *objects], cwd=nets, check=True, text=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.parametrize("system", ["arm-linux-gnueabihf", "aarch64-linux-gnu"])
def test_arm(nets, system):
    qemu = "qemu-" + system.partition("-")[0]
    needs(f"{system}-gcc", qemu)
    objects = built(nets, [f"{system}-gcc"], "-O2")
    subprocess.run([f"{system}-gcc", "-static", "driver.c", *objects, "-lm", "-o", system], cwd=nets,
                   check=True)
    compare(nets, [qemu, system])


def test_wasm(nets):
    needs("clang", "wasm-ld", "node")
    objects = built(nets, ["clang", "--target=wasm32"], "-O2")
    subprocess.run(["clang", "--target=wasm32", "-nostdlib", *FLAGS, "-O2", "driver.c", *objects,
                    "-Wl,--no-entry", "-Wl,--export-all", "-o", "nets.wasm"], cwd=nets, check=True)
    (nets / "run.js").write_text(NODE)
    compare(nets, ["node", "run.js"])


def program(folder, name, inputs, outputs):
    """A program of an exported net, with fused multiply-adds where the machine has them."""
    (folder / "main.c").write_text(
        f'#include "{name}.h"\n#include <stdio.h>\nint main(void)\n{{\n    struct {name} net;\n'
        f"    float x[{inputs}], y[{outputs}];\n    {name}_reset(&net);\n"
        "    while (fread(x, sizeof x, 1, stdin) == 1) {\n"
        f"        {name}_run(&net, x, y, 1);\n        fwrite(y, sizeof y, 1, stdout);\n    }}\n}}\n")
    subprocess.run(["gcc", "-O2", f"{name}.c", "main.c", "-lm", "-o", name], cwd=folder, check=True)


def run(folder, name, x, outputs, made=False):
    """y of an exported net."""
    if not made:
        program(folder, name, x.shape[1], outputs)
    done = subprocess.run([f"./{name}"], cwd=folder, input=x.tobytes(), stdout=subprocess.PIPE,
                          check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(-1, outputs)


def test_head_gains_and_initial_states(tmp_path):
    needs("gcc")
    draw = np.random.default_rng(2)
    layer = Layer("lstm", 2, 5, layers=2, device="cpu:1")
    head = Head(draw.standard_normal((3, 5)).astype(np.float32),
                draw.standard_normal(3).astype(np.float32), 1.5, True, 0.25,
                tuple(draw.standard_normal((2, 2, 5)).astype(np.float32)))
    export(layer, tmp_path / "amp.c", head)
    x = draw.standard_normal((20, 2)).astype(np.float32)
    scaled = x * np.float32([1.5, 1])
    h = layer(scaled[:, None], tuple(each[:, None] for each in head.initial))[0][:, 0]
    y = (h @ head.weight.T + head.bias + scaled[:, :1]) * 0.25
    np.testing.assert_allclose(run(tmp_path, "amp", x, 3), y, atol=1e-6)


@pytest.mark.parametrize("above", ["rnn/", ""])
@pytest.mark.parametrize("form", ["torch", "ecornn", "keras", "onnx", "flax"])
def test_the_command(tmp_path, form, above, capsys):
    needs("gcc")
    layer = Layer("gru", 3, 6, layers=2, seed=4, device="cpu:1")
    weight, bias = np.ones((2, 6), np.float32) / 8, np.float32([1, 2])
    arrays = {above + name: value for name, value in _names.flattened(layer.save(form)).items()}
    np.savez(tmp_path / "all.npz", **arrays, **{"top.weight": weight, "top.bias": bias})
    words = ["--cell", "gru", "--weights", str(tmp_path / "all.npz"), "--head", "top", "-o",
             str(tmp_path / "net.c"), *["--prefix", "rnn"] * bool(above)]
    assert main([*words, "--hidden", "5"]) == 1
    assert "--hidden is 5, but" in capsys.readouterr().err
    assert main([*words, "--layers", "2"]) == 0
    x = given(3)
    y = layer(x[:, None])[0][:, 0] @ weight.T + bias
    np.testing.assert_allclose(run(tmp_path, "net", x, 2), y, atol=1e-6)


@pytest.mark.parametrize("weights", ["f32", "int8", "int8-weights"])
def test_rows_that_are_not_usual(tmp_path, weights):
    """Numbers that are 0, of one sign, very large and small, and not finite; weights that are whole."""
    needs("gcc")
    layer = Layer("gru", 5, 4, weights=weights, device="cpu:1", seed=3)
    values = layer.save("ecornn")
    for value in values.values():
        value[:1], value[-1:] = np.rint(value[:1] * 200) / 64, 0
    layer.load("ecornn", values)
    layer.save(path=tmp_path / "net.npz")
    assert main(["--cell", "gru", "--weights", str(tmp_path / "net.npz"), "--type", weights, "-o",
                 str(tmp_path / "net.c")]) == 0
    assert (tmp_path / "net.c").read_text() == source(layer)[0]
    rows = np.float32([[0] * 5, [1, 2, 3, 4, 5], [-1, -2, -3, -4, -5], [1e30, 1, 0, -1, -1e30],
                       [1e-20, 2e-20, 0, -3e-20, 4e-20], [0, -0.0, 7, 0.5, 1.5], [1e-30] * 5,
                       [1, 2, np.nan, 4, 5], [1, 2, np.inf, 4, 5]])
    subprocess.run(["gcc", *FLAGS, "-c", "net.c"], cwd=tmp_path, check=True)
    program(tmp_path, "net", 5, 4)
    for row in rows:
        np.testing.assert_allclose(run(tmp_path, "net", row[None], 4, True), layer(row[None, None])[0][0],
                                   atol=1e-6, err_msg=str(row))


@pytest.mark.parametrize("words", [[], ["--help"], ["export", "--help"], ["check", "--help"]])
def test_output_that_nobody_reads(words):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "ecornn", *words], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_the_command_reads_a_cells_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gru").mkdir()
    Layer("gru", 4, 4).save(path="gru.npz")
    assert main(["--cell", "gru", "--weights", "gru.npz", "-o", "gru.c"]) == 0
    (tmp_path / "own.cell").write_text(ORDER)
    layer = Layer(ORDER, 4, 4)
    layer.save(path=tmp_path / "own.safetensors")
    done = subprocess.run([sys.executable, "-m", "ecornn", "export", "--cell", tmp_path / "own.cell",
                           "--weights", tmp_path / "own.safetensors", "-o", tmp_path / "own.c"],
                          check=True, text=True, stdout=subprocess.PIPE)
    assert f"{layer.parameters.block.size} parameters" in done.stdout
    assert (tmp_path / "own.c").read_text() == source(layer, "own")[0]


@pytest.mark.parametrize("more, said", [
    ({"bidirectional": True}, "forward only"), ({"direction": "reverse"}, "forward only"),
    ({"heads": 2}, "heads=1"), ({"models": 2}, "one model"), ({"dtype": "f64"}, "dtype='f32'"),
    ({"weights": "bf16"}, "weights None")])
def test_what_a_file_does_not_offer_is_refused(more, said):
    with pytest.raises(Unsupported, match=said):
        source(Layer("gru", 4, 4, **more))


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_refused(number):
    layer = Layer("gru", 2, 4)
    head = Head(np.zeros((1, 4), np.float32), np.float32([number]))
    with pytest.raises(BadArgument, match=f"the head's bias has {number} at .0., must be finite"):
        source(layer, head=head)
    layer.parameters["0.fwd.W.n"][1, 0] = number
    with pytest.raises(BadArgument, match=f"0.fwd.W.n has {number} at .1, 0., must be finite"):
        source(layer)


def test_wrong_arguments(tmp_path, capsys):
    layer = Layer("gru", 2, 4)
    with pytest.raises(BadArgument, match="must end with .c"):
        export(layer, tmp_path / "net.cpp")
    for name in ("my-net", "int", "for", "inline", "main", "class", "linux", "stdint", "int8_t", "INT8_MAX",
                 "\u00e9", "a\n", "_a"):
        with pytest.raises(BadArgument, match="must be a name of C"):
            export(layer, tmp_path / f"{name}.c")
    with pytest.raises(BadArgument, match=r"must have \[O,4\]"):
        export(layer, tmp_path / "net.c", Head(np.zeros((1, 5)), np.zeros(1)))
    layer.save(path=tmp_path / "net.npz")
    np.savez_compressed(tmp_path / "zero.npz", weight_ih_l0=np.zeros((1536, 512)), weight_hh_l0=np.zeros((1536, 512)))
    for words, said in ((["--weights", "none.npz"], "needs --cell"),
                        (["--cell", "gru", "--weights", str(tmp_path / "none.npz")], "No such file"),
                        (["--cell", "gru", "--weights", str(tmp_path / "net.npz"), "--head", "x"],
                         "prefix is 'x'"),
                        (["--cell", "gru", "--weights", str(tmp_path / "zero.npz")], "bytes of arrays"),
                        (["--weights", "amp.nam", "--head", "x"], "takes no --head"),
                        (["--weights", "amp.json", "--proj", "0"], "takes no --proj"),
                        (["--cell", "lstm", "--weights", str(tmp_path / "net.npz")], "")):
        assert main([*words, "-o", str(tmp_path / "net.c")]) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "net.c").exists()
