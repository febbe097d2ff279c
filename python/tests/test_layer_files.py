"""Weights by name, from and to files and frameworks: values, and errors if they do not fit."""

from __future__ import annotations

import json
import os
import random
import re
import zipfile

import numpy as np
import pytest

from ecornn import BadArgument, Error, Layer, Unsupported, _names, accuracy, export

DRAW = np.random.default_rng(9)


def draw(*shape):
    return DRAW.standard_normal(shape).astype(np.float32)


def same(layer, other):
    np.testing.assert_array_equal(layer.parameters.block, other.parameters.block)


def safetensors(tensors, length=None, size=None) -> bytes:
    """A file made by hand; tensors: name, type, shape, offsets."""
    header = json.dumps({name: {"dtype": kind, "shape": shape, "data_offsets": offsets}
                         for name, kind, shape, offsets in tensors}).encode()
    size = max([0, *(each[3][1] for each in tensors)]) if size is None else size
    return (len(header) if length is None else length).to_bytes(8, "little") + header + bytes(size)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
@pytest.mark.parametrize("system", ["ecornn", "torch", "keras", "onnx", "flax"])
def test_a_saved_file_comes_back(tmp_path, suffix, system):
    for cell, more in (("lstm", {"layers": 2, "bidirectional": True}), ("gru", {}),
                       ("rnn-tanh", {"layers": 2})):
        layer, other = Layer(cell, 3, 4, seed=1, **more), Layer(cell, 3, 4, seed=2, **more)
        path = tmp_path / f"{cell}{suffix}"
        saved = layer.save(system, path=path)
        other.load(path)
        same(other, layer)
        other.parameters.block[:] = 0
        other.load(saved)  # nested for flax
        same(other, layer)
        other.parameters.block[:] = 0
        other.load(system, str(path))
        same(other, layer)


def test_every_cell_and_type_has_a_file(tmp_path):
    path = tmp_path / "x.safetensors"
    layer = Layer("mgu", 3, 4, dtype="f64", models=2)
    layer.save(model=1, path=path)
    other = Layer("mgu", 3, 4, dtype="f64", seed=3)
    other.load(path)
    np.testing.assert_array_equal(other.parameters["0.fwd.W.f"], layer.parameters["0.fwd.W.f"][1])
    layer.load(path, model=0)
    np.testing.assert_array_equal(*layer.parameters["0.fwd.R.n"])


def test_a_part_of_a_model():
    layer = Layer("lstm", 3, 4)
    given = {f"encoder.lstm.{name}": array for name, array in layer.save("torch").items()}
    given["encoder.embedding.weight"] = draw(9, 3)
    other = Layer("lstm", 3, 4, seed=1)
    before = other.parameters.block.copy()
    for prefix, says in ((None, "has 'encoder.embedding.weight'|lacks"), ("encoder", "has 'encoder.lstm"),
                         ("decoder", "prefix is 'decoder', but"), ("encoder.ls", "prefix is")):
        with pytest.raises(BadArgument, match=says):
            other.load(given, prefix=prefix)
    np.testing.assert_array_equal(other.parameters.block, before)
    for prefix in ("encoder.lstm", "encoder.lstm."):
        other.parameters.block[:] = 0
        other.load(given, prefix=prefix)
        same(other, layer)
    given["encoder.lstm.weight_hh_l0"] = draw(16, 5)
    with pytest.raises(BadArgument, match=r"encoder.lstm.weight_hh_l0' is \[16, 5\], must be "
                                          r"\[16, 4\]"):
        other.load("torch", given, prefix="encoder.lstm")
    same(other, layer)
    with pytest.raises(BadArgument, match="source is ndarray"):
        other.load(draw(3))
    with pytest.raises(BadArgument, match="names of no known system"):
        other.load({"x": draw(3)})
    with pytest.raises(BadArgument, match="is object|is <U1|is str32"):
        other.load("torch", {**layer.save("torch"), "bias_ih_l0": np.array(["a"] * 16)})


def test_no_biases_are_zero():
    layer = Layer("gru", 3, 4)
    saved = layer.save("torch")
    weights = {name: array for name, array in saved.items() if "weight" in name}
    layer.load(weights)
    assert not any(array.any() for name, array in layer.save("torch").items() if "bias" in name)
    with pytest.raises(BadArgument, match="lacks bias_hh_l0"):
        layer.load({**weights, "bias_ih_l0": saved["bias_ih_l0"]})


def test_a_file_of_safetensors_by_hand(tmp_path):
    layer, path = Layer("rnn-tanh", 1, 2), tmp_path / "x.safetensors"
    words = np.array([0x3f80, 0x4000, 0x4040, 0x4080], "<u2")  # 1, 2, 3 and 4
    file = safetensors([("weight_ih_l0", "F16", [2, 1], [0, 4]),
                        ("weight_hh_l0", "BF16", [2, 2], [4, 12]),
                        ("bias_ih_l0", "F64", [2], [12, 28]), ("bias_hh_l0", "F32", [2], [28, 36])])
    numbers = np.array([5, 6], "<f2").tobytes() + words.tobytes() + (
        np.array([7, 8], "<f8").tobytes() + np.array([0.5, 0], "<f4").tobytes())
    path.write_bytes(file[:-36] + numbers)
    layer.load(path)
    np.testing.assert_array_equal(layer.parameters.block, [5, 6, 1, 2, 3, 4, 7.5, 8])


def test_what_is_not_chosen_is_not_read(tmp_path):
    layer, path = Layer("rnn-tanh", 1, 2), tmp_path / "x.safetensors"
    path.write_bytes(safetensors([
        ("bn.num_batches_tracked", "I64", [], [24, 32]), ("rnnx", "I8", [0], [32, 32]),
        ("rnn.weight_ih_l0", "F32", [2, 1], [0, 8]), ("rnn.weight_hh_l0", "F32", [2, 2], [8, 24])]))
    layer.load(path, prefix="rnn")
    assert not layer.parameters.block.any()
    for prefix, says in ((None, "has 'bn.num_batches_tracked', "), ("bn.", "of no known system"),
                         ("x", "given has 'bn.num_batches_tracked', 'rnnx'")):
        with pytest.raises(BadArgument, match=says):
            layer.load(path, prefix=prefix)
    saved = Layer("rnn-tanh", 1, 2, seed=1).save("torch")
    np.savez_compressed(tmp_path / "x.npz", words=np.array([{}], object), large=np.zeros(1 << 24),
                        **{f"rnn.{name}": array for name, array in saved.items()})
    layer.load(tmp_path / "x.npz", prefix="rnn")
    np.testing.assert_array_equal(layer.save("torch")["weight_hh_l0"], saved["weight_hh_l0"])


@pytest.mark.parametrize("name", ["x.NPZ", "x.SafeTensors"])
def test_a_suffix_in_capitals(tmp_path, name):
    layer, other = Layer("gru", 3, 4), Layer("gru", 3, 4, seed=1)
    layer.save(path=tmp_path / name)
    assert os.listdir(tmp_path) == [name]
    other.load(tmp_path / name)
    same(other, layer)


@pytest.mark.parametrize("size", [0, 1, 2, 79, 81])
@pytest.mark.parametrize("system", ["ecornn", "torch"])
def test_a_wrong_number_of_elements_changes_nothing(system, size):
    layer = Layer("rnn-tanh", 1, 8)  # 80 parameters in ecornn, 88 in torch
    before = layer.parameters.block.copy()
    for given in ([0.5] * size, np.full(size, 0.5, np.float32)):
        with pytest.raises(BadArgument, match="elements"):
            layer.load(system, given)
    np.testing.assert_array_equal(layer.parameters.block, before)


def test_hostile_files(tmp_path):
    layer, path = Layer("rnn-tanh", 1, 2), tmp_path / "x.safetensors"
    before = layer.parameters.block.copy()
    good = ("weight_ih_l0", "F32", [2, 1], [0, 8])
    for file, says in (
            (b"", "has 0 bytes, must be at least 8"), (b"12345", "has 5 bytes"), (b"\xff" * 8, "header of"),
            (safetensors([good], 10**9), r"header of 1000000000 bytes, must be at most \d+$"),
            (safetensors([good], 3), "not a file"), ((2).to_bytes(8, "little") + b"[]", "no object"),
            (safetensors([("a", "F32", [2, 1], [0, 9])]), "at bytes 0 to 9, must have 8$"),
            (safetensors([("a", "F32", [2, 1], [0, 8])], size=7), "at bytes 0 to 8, but the file has only 7 bytes"),
            (safetensors([("a", "F32", [2**40, 2**40], [0, 8])]), f"must have {2**82}$"),
            (safetensors([("a", "I8", [8], [8, 0])]), "at bytes 8 to 0, must have 0$"),
            (safetensors([("a", "F32", [-2, -1], [0, 8])]), "no counts"),
            (safetensors([("a", "F32", [2.0], [0, 8])]), "no counts"),
            (safetensors([("a", "F32", [2], [-8, 0])], size=0), "no counts"),
            (safetensors([good, ("weight_hh_l0", "I64", [2, 2], [8, 40])]), "is 'I64', must be"),
            (safetensors([("a", "F32", [2], [0, 8]), ("b", "F32", [1], [4, 8])]), "overlap"),
            (safetensors([("a", "F32", 3, [0, 8])]), "lacks dtype"),
            (safetensors([("a", "F32", [2], [0, 4, 8])]), "lacks dtype")):
        path.write_bytes(file)
        with pytest.raises(BadArgument, match=says):
            layer.load(path)
    (tmp_path / "x.npz").write_bytes(b"PK")
    np.savez(tmp_path / "y.npz", weight_ih_l0=np.array([[{}], [{}]]), weight_hh_l0=np.zeros((2, 2)))
    with zipfile.ZipFile(tmp_path / "z.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", bytes(64 << 20))
    for name, says in (("x.npz", "not a file"), ("y.npz", "Object arrays"), ("z.npz", "magic string")):
        with pytest.raises(BadArgument, match=says):
            layer.load(tmp_path / name)
    with pytest.raises(BadArgument, match="must end with one of .*safetensors.*, .onnx$"):
        layer.load(tmp_path / "x.txt")
    with pytest.raises(FileNotFoundError):
        layer.load(tmp_path / "none.npz")
    with pytest.raises(BadArgument, match="must end with .safetensors"):
        layer.save(path=tmp_path / "x.pt")
    np.testing.assert_array_equal(layer.parameters.block, before)


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "pt", "onnx", "h5"])
def test_altered_files_are_refused_or_load(tmp_path, suffix):
    """An error of ours says what is wrong, in some lines that can be printed."""
    layer, path, chance = Layer("gru", 2, 3, layers=2), tmp_path / f"x.{suffix}", random.Random(4)
    if suffix == "pt":
        torch = pytest.importorskip("torch")
        torch.save({name: torch.from_numpy(each) for name, each in layer.save("torch").items()}, path)
    elif suffix == "onnx":
        pytest.importorskip("onnx")
        arrays = [*layer.save("onnx").values()]
        onnx_file(path, "GRU", [arrays[:3], arrays[3:]], linear_before_reset=1)
    elif suffix == "h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, each in layer.save("keras").items():
                file["layers/gru" + name[-2:] + "/" + name[:-3]] = each
    else:
        layer.save(path=path)
    right, loads = path.read_bytes(), 0
    for turn in range(200):
        file, at = bytearray(right), chance.randrange(len(right))
        if turn % 4 == 0:
            file[at] ^= 1 << chance.randrange(8)
        elif turn % 4 == 1:
            del file[at:at + chance.randrange(1, 40)]
        else:
            file[at:at + turn % 3] = chance.choice([b"9" * 12, b"null", b"-1", b"\0\xff", file[at - 90:at], b"\x1b"])
        path.write_bytes(file)
        try:
            layer.load(path)
            loads += 1
        except Error as error:
            assert str(error).isprintable() and len(str(error)) < 1000
    assert 0 < loads < 200


@pytest.mark.parametrize("name", ["x.safetensors", "x.npz", "x.npy", "x.ckpt", "x.h5", "x.keras", "x.onnx", "x.nam",
                                  "x.cell"])
def test_a_file_that_has_no_end_is_not_read(tmp_path, name, capsys):
    for make in (lambda path: os.symlink("/dev/zero", path), os.mkfifo, os.mkdir):
        make(path := str(tmp_path / name))
        Layer("gru", 1, 2).save(path=tmp_path / "w.npz")
        data = ["--data", path, "--weights", str(tmp_path / "w.npz")]
        words = data if name == "x.npy" else ["--data", "x.npy", "--weights", path]
        assert accuracy.main(["--cell", path, *data] if name == "x.cell" else [
            *words, *["--cell", "gru"] * (name != "x.nam")]) == 1
        assert re.search("must be a regular file|Is a directory", capsys.readouterr().err)
        os.rename(path, tmp_path / f"{len(os.listdir(tmp_path))}")


def test_names_in_errors_are_one_line(tmp_path, capsys):
    """Names with an end of a line, an escape, a C1 control, a mark of direction and half a character;
    and a very long one."""
    odd, path = "x\n\x1b]0;a\x07\x9b31m\u202e\ud800" + "y" * 5000, tmp_path / "x.safetensors"
    flat = Layer("lstm", 3, 4).save("keras")
    given = [{odd: 1}, {f"{odd}/{name}": each[..., :1] for name, each in flat.items()}, {odd: flat, "b": flat},
             {**flat, odd: flat["bias"]}, {**flat, "bias": odd}, {odd: flat, f"{odd}:0": flat}]
    calls = [lambda each=each, prefix=prefix: Layer("lstm", 3, 4).load(each, prefix=prefix)
             for each in given for prefix in (None, "p" + odd)]
    for said in ([1], [odd, [4], [0, 16]], ["F32", [4], [0, odd]], ["F32", [4], [0, 99]]):
        path.write_bytes(safetensors([(odd, "F32", [], [0, 0])]))
        header = json.dumps({odd: dict(zip(("dtype", "shape", "data_offsets"), said))}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
        calls.append(lambda file=path.read_bytes(): (path.write_bytes(file), Layer("lstm", 3, 4).load(path)))
    for call in calls:
        with pytest.raises(Error) as error:
            call()
        assert str(error.value).isprintable() and len(str(error.value)) < 1000
    for words in (["--prefix", odd], ["--head", odd], ["--cell", odd], [f"--{odd}"]):
        try:
            assert export.main(["--cell", "lstm", "--weights", str(path), *words, "-o", odd]) == 1
        except SystemExit:
            pass
        assert capsys.readouterr().err.splitlines()[-1].isprintable()


def test_what_torch_holds_besides_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    layer, path, loop, many = Layer("rnn-tanh", 3, 4), tmp_path / "x.ckpt", {}, {"a": torch.zeros(1)}
    saved = {name: torch.from_numpy(each) for name, each in layer.save("torch").items()}
    loop["self"] = loop
    for _ in range(40):
        many = {"a": many, "b": many}
    w = torch.zeros(4, 3)
    for value in (w.to_sparse(), w.to("meta"), w + 1j, loop, many, None, "x", [loop], w.T, bytearray(3),
                  torch.quantize_per_tensor(w, 0.1, 0, torch.qint8)):
        given = {**saved, "weight_ih_l0": value}
        torch.save(given, path)
        for source in (path, given):
            with pytest.raises(BadArgument, match="weight_ih_l0.* (is|cannot)|in itself|too many|bytearray"):
                layer.load(source)
    saved["weight_ih_l0"] = torch.randn(3, 4, dtype=torch.complex64).conj().imag.T  # its memory has other signs
    torch.save(saved, path)
    for source in (path, {**saved, "weight_ih_l0": saved["weight_ih_l0"].contiguous()}):
        layer.load(source)
        np.testing.assert_array_equal(layer.save("torch")["weight_ih_l0"], saved["weight_ih_l0"].resolve_neg())
    x = torch.randn(5, 2, 3, dtype=torch.complex64).conj().imag
    np.testing.assert_array_equal(layer(x)[0], layer(x.resolve_neg().numpy())[0])


def test_files_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.LSTM(3, 4, 2, bidirectional=True)
    layer, path = Layer("lstm", 3, 4, layers=2, bidirectional=True), str(tmp_path / "x.pt")
    torch.save({f"lstm.{name}": each for name, each in module.state_dict().items()}, path)
    layer.load(path, prefix="lstm")
    x = draw(5, 2, 3)
    right = module.double()(torch.from_numpy(x).double())[0].detach().numpy()
    np.testing.assert_allclose(layer(x)[0], right, rtol=1e-5, atol=1e-6)
    module.load_state_dict({name: torch.from_numpy(each)
                            for name, each in layer.save("torch").items()})
    np.testing.assert_allclose(module(torch.from_numpy(x).double())[0].detach().numpy(), right)
    whole = (tmp_path / "x.pt").read_bytes()
    for length in (4, len(whole) // 2, len(whole) - 10):
        (tmp_path / "x.pt").write_bytes(whole[:length])
        with pytest.raises(BadArgument, match="it is cut$"):
            layer.load(path)
    torch.save([1, 2], path)
    with pytest.raises(BadArgument):
        layer.load(path)
    torch.save({"weight_ih_l0": torch.zeros(4 << 20)}, path)
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(
            tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as small:
        for name in whole.namelist():
            small.writestr(name, whole.read(name))
    with pytest.raises(BadArgument, match="bytes of arrays"):
        layer.load(tmp_path / "y.pt")


def test_another_reader_of_safetensors(tmp_path):
    other = pytest.importorskip("safetensors.numpy")
    layer, path = Layer("gru", 3, 4), tmp_path / "x.safetensors"
    saved = layer.save("torch", path=path)
    for name, array in other.load_file(path).items():
        np.testing.assert_array_equal(array, saved[name])
    other.save_file(saved, path)
    layer.parameters.block[:] = 0
    layer.load(path)
    np.testing.assert_array_equal(layer.save("torch")["bias_hh_l0"], saved["bias_hh_l0"])


def test_lists_and_names_that_cells_have_by_themselves():
    for cell in ("lstm", "gru", "rnn-tanh"):
        layer, other = Layer(cell, 3, 4), Layer(cell, 3, 4)
        for system in ("torch", "keras", "onnx"):
            saved = layer.save(system)
            layer.load(system, [each for name, each in saved.items() if name[:1].lower() != "b"])
            other.load(system, {name: each * (name[:1].lower() != "b") for name, each in saved.items()})
            same(layer, other)
    saved = _names.flattened(Layer("lstm", 3, 4).save("flax"))
    flat = {name.replace("f/", "f_/"): each for name, each in saved.items()}
    Layer("lstm", 3, 4).load("flax", flat)
    for call in (lambda: Layer("mgu", 3, 4).load("flax", flat), lambda: Layer("mgu", 3, 4).save("flax")):
        with pytest.raises(Unsupported, match="flax has no cell"):
            call()
    with pytest.raises(BadArgument, match="'dense_i/kernel' is str 'x'"):
        Layer("lstm", 3, 4).load({"dense_i/kernel": "x", "dense_h/kernel": "x"})
    with pytest.raises(BadArgument, match="must be a dict"):
        Layer("lstm", 3, 4).load("flax", [*flat.values()])


# ---- flax --------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, cell", [("OptimizedLSTMCell", "lstm"), ("LSTMCell", "lstm"),
                                        ("GRUCell", "gru"), ("SimpleCell", "rnn-tanh")])
@pytest.mark.parametrize("api", ["linen", "nnx"])
@pytest.mark.parametrize("both", [False, True])
def test_flax(api, name, cell, both):
    pytest.importorskip("flax")
    import jax

    x, layer = draw(2, 5, 3), Layer(cell, 3, 4, batch_first=True, bidirectional=both)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        tree, y = (_linen if api == "linen" else _nnx)(name, both, x)
    layer.load(tree)
    np.testing.assert_allclose(layer(x)[0], y, rtol=1e-4, atol=1e-5)
    saved = layer.save("flax")
    layer.parameters.block[:] = 0
    layer.load("flax", saved)
    np.testing.assert_allclose(layer(x)[0], y, rtol=1e-4, atol=1e-5)
    with pytest.raises(BadArgument, match=r"kernel.*' is \[3, 4\], must be \[2, 4\]"):
        Layer(cell, 2, 4, bidirectional=both).load(tree)
    with pytest.raises(BadArgument, match="has layers|lacks|twice"):
        Layer(cell, 3, 4, bidirectional=not both).load(tree)


def _random(tree):
    import jax

    leaves, form = jax.tree.flatten(tree)
    return jax.tree.unflatten(form, [draw(*leaf.shape) for leaf in leaves])


def _linen(name, both, x):
    import flax.linen as nn
    import jax

    make = lambda: nn.RNN(getattr(nn, name)(4))  # noqa: E731
    module = nn.Bidirectional(make(), make()) if both else make()
    values = _random(module.init(jax.random.key(0), x))
    return values["params"], module.apply(values, x)


def _nnx(name, both, x):
    from flax import nnx

    rngs = nnx.Rngs(0)
    make = lambda: nnx.RNN(getattr(nnx, name)(3, 4, rngs=rngs), rngs=rngs)  # noqa: E731
    module = nnx.Bidirectional(make(), make(), rngs=rngs) if both else make()
    state = _random(nnx.state(module, nnx.Param))
    nnx.update(module, state)
    return state, module(x)


def test_flax_has_no_projection():
    with pytest.raises(Unsupported):
        Layer("lstm", 3, 4, proj=2).save("flax")
    with pytest.raises(Unsupported):
        Layer("mgu", 3, 4).save("flax")


# ---- keras -------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU-first", "SimpleRNN"])
@pytest.mark.parametrize("both", [False, True])
def test_keras(tmp_path, kind, both):
    if "KERAS_BACKEND" not in os.environ:
        os.environ["KERAS_BACKEND"] = "torch" if __import__("importlib.util").util.find_spec(
            "torch") else "jax"
    keras = pytest.importorskip("keras")
    pytest.importorskip("h5py")
    cell = {"LSTM": "lstm", "GRU": "gru", "GRU-first": "gru-reset-first",
            "SimpleRNN": "rnn-tanh"}[kind]
    more = {"reset_after": kind == "GRU"} if "GRU" in kind else {}
    keras.utils.clear_session()

    def made():
        one = getattr(keras.layers, kind.partition("-")[0])(4, return_sequences=True, **more)
        return keras.layers.Bidirectional(one) if both else one

    model = keras.Sequential([keras.layers.Input((None, 3)), made(), made(), keras.layers.Dense(2)])
    for weight in model.weights:
        weight.assign(draw(*weight.shape))
    hidden = x = draw(2, 5, 3)
    for layer in model.layers[:2]:
        hidden = np.asarray(keras.ops.convert_to_numpy(layer(hidden)))
    layer = Layer(cell, 3, 4, layers=2, bidirectional=both, batch_first=True)
    layer.load({each.path: keras.ops.convert_to_numpy(each) for each in model.weights})
    np.testing.assert_allclose(layer(x)[0], hidden, rtol=1e-4, atol=1e-5)
    for suffix in (".weights.h5", ".keras", ".h5"):  # with the numbers of training
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        (model.save_weights if "weights" in suffix else model.save)(path := str(tmp_path / f"x{suffix}"))
        layer.parameters.block[:] = 0
        layer.load(path)
        np.testing.assert_allclose(layer(x)[0], hidden, rtol=1e-4, atol=1e-5, err_msg=suffix)
        with pytest.raises(BadArgument, match="layers '.*', '.*', must have 1 that"):
            Layer(cell, 3, 4, bidirectional=both).load(path)
        head = ("model_weights" if suffix == ".h5" else "layers") + "/dense"
        assert export.main(["--cell", cell, "--weights", path, "--head", head, "-o", str(tmp_path / "x.c")]) == both


def test_layers_of_keras_in_a_file_by_hand(tmp_path):
    """A file as Keras writes it; layers with different names have no order."""
    h5py = pytest.importorskip("h5py")
    layer = Layer("lstm", 3, 3, layers=11)
    saved = layer.save("keras")
    for names, fits in (([f"lstm_{k}" if k else "lstm" for k in range(11)], True),
                        ([f"\u00b2{'0' * (k % 3)}{k}{'9' * 99}" for k in range(11)], True),
                        ([*(f"lstm_{k}" for k in range(11)), "c"], False),
                        ([*"abcdefghijk"], False)):
        path = tmp_path / "x.weights.h5"
        with h5py.File(path, "w") as file:
            for k, name in enumerate(names):
                for number, kind in enumerate(("kernel", "recurrent_kernel", "bias")):
                    file[f"layers/{name}/cell/vars/{number}"] = saved[f"{kind}_l{2 if name == 'c' else k}"]
        other = Layer("lstm", 3, 3, layers=11, seed=4)
        if fits:
            other.load(path)
            same(other, layer)
        else:
            with pytest.raises(BadArgument, match="differ in a number only"):
                other.load(path)
            one = Layer("lstm", 3, 3)
            one.load(path, prefix="layers/c")
            np.testing.assert_array_equal(one.parameters["0.fwd.W.g"],
                                          layer.parameters["2.fwd.W.g"])
    for arrays, count in ((1, 1 << 40), (8, 300000)):
        with h5py.File(path, "w") as file:
            for k in range(arrays):
                file.create_dataset(f"layers/lstm_{k}/cell/vars/0", (count,), "f4")
        with pytest.raises(BadArgument, match="of no known system"):
            other.load(path)


# ---- onnx --------------------------------------------------------------------------------------

def onnx_file(path, op, nodes, **attributes):
    """A graph with these nodes, each a tuple of W, R and B or None."""
    import onnx
    from onnx import helper, numpy_helper

    made, known = [], []
    for k, arrays in enumerate(nodes):
        names = [""] * 3
        for place, array in enumerate(arrays):
            if array is not None:
                names[place] = f"onnx::{op}_{k}_{place}"
                known.append(numpy_helper.from_array(array, names[place]))
        made.append(helper.make_node(op, [f"x{k}", *names], [f"x{k + 1}"], f"node{k}",
                                     hidden_size=4, **attributes))
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info("x0", 1, [None, None, 3])],
                              [helper.make_tensor_value_info(f"x{len(nodes)}", 1, None)], known)
    onnx.save(helper.make_model(graph), path)


@pytest.mark.parametrize("op, cell, more", [
    ("LSTM", "lstm", {}), ("GRU", "gru", {"linear_before_reset": 1}),
    ("GRU", "gru-reset-first", {}), ("RNN", "rnn-tanh", {}),
    ("RNN", "rnn-relu", {"activations": ["Relu"]})])
def test_onnx(tmp_path, op, cell, more):
    pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    layer, other, path = Layer(cell, 3, 4), Layer(cell, 3, 4, seed=1), str(tmp_path / "x.onnx")
    saved = layer.save("onnx")
    onnx_file(path, op, [tuple(saved.values())], **more)
    other.load(path)
    same(other, layer)
    if cell != "rnn-relu":
        x = draw(5, 2, 3)
        y = ReferenceEvaluator(path).run(None, {"x0": x})[0]
        np.testing.assert_allclose(other(x)[0], y[:, 0], rtol=1e-4, atol=1e-5)
    onnx_file(path, op, [(saved["W"], saved["R"], None)], **more)
    other.load(path)
    assert not other.save("onnx")["B"].any()
    before = other.parameters.block.copy()
    for wrong, says in (({"direction": "reverse"}, "direction of 'node0' is 'reverse', must"), ({"clip": 1.0}, "clip"),
                        ({"activations": ["Sigmoid"] * 3}, "activations of 'node0'"),
                        ({"linear_before_reset": int(not more.get("linear_before_reset"))}, "linear")):
        onnx_file(path, op, [tuple(saved.values())], **{**more, **wrong})
        with pytest.raises(BadArgument, match=says):
            other.load(path)
    onnx_file(path, op, [(saved["W"][..., :2], saved["R"], None)], **more)
    with pytest.raises(BadArgument, match=rf"onnx::{op}_0_0' is \[1, .*, 2\], must be \[1, .*, 3\]"):
        other.load(path)
    onnx_file(path, op, [tuple(saved.values())] * 2, **more)
    with pytest.raises(BadArgument, match="nodes 'node0', 'node1', must have 1"):
        other.load(path)
    np.testing.assert_array_equal(other.parameters.block, before)
    other.load(path, prefix="node1")
    same(other, layer)


def test_odd_graphs(tmp_path):
    onnx, path = pytest.importorskip("onnx"), str(tmp_path / "x.onnx")
    arrays, layer = tuple(Layer("lstm", 3, 4).save("onnx").values()), Layer("lstm", 3, 4)
    for k, change in enumerate((
            lambda w, _: w.dims.__setitem__(0, -1), lambda w, _: w.dims.__setitem__(0, 2**62),
            lambda w, _: setattr(w, "data_type", 77), lambda w, _: setattr(w, "data_type", 8),
            lambda w, _: w.ClearField("raw_data"), lambda _, node: node.input.__delitem__(slice(1, 3)),
            lambda w, _: (setattr(w, "data_location", 1), w.external_data.add(key="location", value="/dev/zero")),
            lambda w, _: setattr(w, "data_location", 1),
            lambda _, node: node.attribute.append(onnx.helper.make_attribute("activations", [1, 2])),
            lambda _, node: node.attribute.append(onnx.helper.make_attribute("direction", b"\xff\x1b")),
            lambda _, node: (setattr(node, "op_type", "DynamicQuantizeLSTM"),
                             node.input.extend(["", *[node.input[1]] * 9])))):
        onnx_file(path, "LSTM", [arrays])
        model = onnx.load(path)
        change(model.graph.initializer[0], model.graph.node[0])
        (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(BadArgument, match="onnx::|activations|direction|given lacks R") as error:
            layer.load(path)
        assert str(error.value).isprintable(), k


def test_onnx_computed_of_initialisers(tmp_path):
    """As torch's exporter leaves weights; no file makes arrays far larger than itself."""
    onnx, path = pytest.importorskip("onnx"), str(tmp_path / "x.onnx")
    layer, other = Layer("lstm", 3, 4), Layer("lstm", 3, 4, seed=1)
    saved = layer.save("onnx")
    onnx_file(path, "LSTM", [tuple(saved.values())])
    model, node = onnx.load(path), onnx.helper.make_node
    graph = model.graph
    graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.roll(saved["W"][0], 4, 0), graph.initializer[0].name))
    whole = graph.initializer[0].name
    graph.initializer.extend(onnx.numpy_helper.from_array(np.array([number]), f"number {number}") for number in (0, 4, 16))
    graph.node[0].input[1] = "W"
    made = [node("Slice", [whole, "number 4", "number 16", "number 0"], ["ifo"]),
            node("Slice", [whole, "number 0", "number 4", "number 0"], ["last"]),
            node("Concat", ["ifo", "last"], ["joined"], axis=0), node("Unsqueeze", ["joined", "number 0"], ["W"])]
    graph.node.extend(made)
    onnx.save(model, path)
    other.load(path)
    same(other, layer)
    large = [node("Concat", [f"{whole} {k - 1}" if k else whole] * 100, [f"{whole} {k}"], axis=0) for k in range(4)]
    for wrong in (large, [node("Concat", [whole, "number 4"], [f"{whole} 3"], axis=0)],
                  [node("Concat", [whole, whole], [f"{whole} 3"])],
                  [node("Slice", [whole, "number 0", "number 4", "number 16"], [f"{whole} 3"])],
                  [node("Concat", [whole, whole], [f"{whole} 3"], axis=0, domain="other")]):
        del graph.node[1:]
        graph.node.extend(wrong)
        graph.node[0].input[1] = f"{whole} 3"
        onnx.save(model, path)
        with pytest.raises(BadArgument, match="W of LSTM 'node0' .* must be an initialiser, or Slice"):
            other.load(path)


def test_onnx_in_both_directions(tmp_path):
    pytest.importorskip("onnx")
    layer, path = Layer("lstm", 3, 4, layers=2, bidirectional=True), str(tmp_path / "x.onnx")
    saved = layer.save("onnx")
    onnx_file(path, "LSTM", [tuple(saved[f"{kind}_l{k}"] for kind in "WRB") for k in range(2)],
              direction="bidirectional")
    other = Layer("lstm", 3, 4, layers=2, bidirectional=True, seed=3)
    other.load(path)
    same(other, layer)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_integers_of_quantised_layers_stay(kind):
    torch = pytest.importorskip("torch")
    module = torch.ao.quantization.quantize_dynamic(
        torch.nn.Sequential(getattr(torch.nn, kind)(20, 33, num_layers=2)), dtype=torch.qint8)[0]
    x = np.random.default_rng(0).standard_normal((7, 3, 20)).astype(np.float32)
    found = []
    for weights in ("int8-weights", None):
        layer = Layer(kind.lower(), 20, 33, layers=2, weights=weights)
        layer.load(module)
        found.append(layer(x)[0])
    assert abs(found[0] - found[1]).max() < 1e-6
