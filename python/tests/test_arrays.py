"""Arrays of other libraries: DLPack in both directions, the owner of memory, and when it is freed."""

from __future__ import annotations

import array
import ctypes
import gc
import sys

import numpy as np
import pytest

import ecornn
from ecornn import Array, BadArgument, Layer, _dlpack, arrays

DRAW = np.random.default_rng(5)
# The version that this numpy gives.
VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
both_versions = pytest.mark.parametrize("versioned", [False] + [True] * VERSIONED)
takes_dlpack = pytest.mark.skipif(not hasattr(np, "from_dlpack"), reason="an old numpy")


def draw(*shape):
    return DRAW.standard_normal(shape).astype(np.float32)


class Other:
    """An array of some library that speaks DLPack of one version."""

    def __init__(self, values, versioned, device=(1, 0)):
        self.values, self.versioned, self.device = values, versioned, device
        self.asked = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **extra):
        self.asked.append(extra)
        if not self.versioned and "max_version" in extra:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.values.__dlpack__(**({"max_version": (1, 0)} if self.versioned else {}))


@pytest.fixture(scope="module")
def layer():
    return Layer("lstm", 3, 4, layers=2, direction="both")


@both_versions
def test_dlpack_is_read_and_its_capsule_freed(layer, versioned):
    x = draw(5, 2, 3)
    y, final = layer(x)
    before = sys.getrefcount(x)
    given = Other(x, versioned)
    found, states = layer(given)
    assert isinstance(found, Array) and found.shape == y.shape and found.dtype == "float32"
    np.testing.assert_array_equal(found.numpy(), y)
    np.testing.assert_array_equal(np.asarray(states[1]), final[1])
    run = layer.forward(given, tuple(Other(s, versioned) for s in final), Other(
        np.array([5, 3], np.int32), versioned))
    right = layer.forward(x, final, [5, 3])
    np.testing.assert_array_equal(run.y.numpy(), right.y)
    grads = run.backward(Other(y, versioned), (None, Other(final[1], versioned)))
    np.testing.assert_array_equal(
        grads.x.numpy(), right.backward(y, (None, final[1])).x)
    assert sys.getrefcount(x) > before
    del given, run, right
    gc.collect()
    assert sys.getrefcount(x) == before


def test_numpy_arrays_may_have_any_strides(layer):
    x = draw(5, 2, 3)
    y = layer(x)[0]
    padded = np.zeros((5, 2, 6), np.float32)
    padded[..., ::2] = x
    unaligned = np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    for same in (np.asfortranarray(x), padded[..., ::2], x[::-1].copy()[::-1], unaligned,
                 np.broadcast_to(x, (1, 5, 2, 3))[0]):
        np.testing.assert_array_equal(layer(same)[0], y)
    x.flags.writeable = False
    np.testing.assert_array_equal(layer(x)[0], y)


def test_dlpack_arrays_must_be_dense(layer):
    with pytest.raises(BadArgument, match=r"x is \[5, 2, 3\] with strides \[1, 5, 10\], must be"):
        layer(Other(np.asfortranarray(draw(5, 2, 3)), VERSIONED))
    one = draw(1, 2, 3)
    odd = np.lib.stride_tricks.as_strided(one, strides=(999 * 4, 12, 4))  # a stride without effect
    np.testing.assert_array_equal(layer(Other(odd, VERSIONED))[0].numpy(), layer(one)[0])
    assert layer(Other(np.zeros((0, 2, 6), np.float32)[..., ::2], False))[0].shape == (0, 2, 8)


@both_versions
def test_an_offset_is_heeded(layer, versioned):
    class Offset(Other):
        def __dlpack__(self, **extra):
            capsule = super().__dlpack__(**extra)
            tensor = _dlpack.tensor_of(capsule)
            tensor.data, tensor.byte_offset = tensor.data - 32, 32
            return capsule

    x = draw(5, 2, 3)
    np.testing.assert_array_equal(layer(Offset(x, versioned))[0].numpy(), layer(x)[0])


@pytest.mark.parametrize("device", [(2, 0), (13, 0), (10, 0), (4, 1)])
def test_other_memory_is_refused(layer, device):
    given = Other(draw(5, 2, 3), VERSIONED, device)
    with pytest.raises(BadArgument, match="x is in memory of .*, must be in that of the host"):
        layer(given)
    assert not given.asked
    with pytest.raises(BadArgument, match=r"initial\[1\] is in memory"):
        layer(draw(5, 2, 3), (None, given))


def test_pinned_memory_is_the_host_s(layer):
    x = draw(5, 2, 3)
    np.testing.assert_array_equal(layer(Other(x, VERSIONED, (3, 0)))[0].numpy(), layer(x)[0])


def test_cuda_array_interface_is_refused_on_a_cpu(layer):
    class Cuda:
        __cuda_array_interface__ = {"shape": (5, 2, 3), "typestr": "<f4", "data": (4096, False),
                                    "version": 3}

    with pytest.raises(BadArgument, match="x is in memory of cuda:0, must be"):
        layer(Cuda())
    for more, says in ({"data": (0, False)}, "without memory"), ({"strides": (26, 13, 4)}, "must be dense"):
        Cuda.__cuda_array_interface__ |= more
        with pytest.raises(BadArgument, match=says):
            arrays.read(Cuda(), "x", arrays.Place("cuda:0"))


@pytest.mark.skipif(not VERSIONED, reason="an old numpy")
def test_capsules_that_are_wrong_are_refused(layer):
    class Wrong(Other):
        def __dlpack__(self, **extra):
            return self.give()

    given = Wrong(draw(5, 2, 3), VERSIONED)
    taken = Other(given.values, VERSIONED).__dlpack__()
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    name = b"used_dltensor_versioned"
    rename(taken, name)
    for capsule in (taken, None, 3):
        given.give = lambda capsule=capsule: capsule
        with pytest.raises(BufferError, match="must be a DLPack capsule"):
            layer(given)
    rename(taken, _dlpack._VERSIONED)  # so that it is freed
    managed = _dlpack._Versioned.from_address(
        _dlpack._pointer(taken, _dlpack._VERSIONED))
    managed.major = 2
    given.give = lambda: taken
    with pytest.raises(BufferError, match="must be 1.x"):
        layer(given)
    managed.major = 1


def test_other_kinds_of_arrays(layer):
    x = draw(5, 2, 3)
    y = layer(x)[0]

    class Interface:
        __array_interface__ = x.__array_interface__

    class Function:
        def __array__(self, dtype=None, copy=None):
            return x

    class Sub(np.ndarray):
        pass

    flat = memoryview(array.array("f", x.ravel().tolist()))
    for same in (Interface(), Function(), x.view(Sub), flat.cast("B").cast("f", x.shape)):
        found = layer(same)[0]
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize("given", [None, 3.0, "abc", [[[1.0]]], object(), {}])
def test_what_is_no_array_is_refused(layer, given):
    with pytest.raises(TypeError, match="x is .*, must be an array"):
        layer(given)


def test_results_go_through_the_array_s_namespace(layer):
    class Namespace:
        @staticmethod
        def from_dlpack(array):
            return "taken", array

    class Standard(Other):
        def __array_namespace__(self):
            return Namespace

    x = draw(5, 2, 3)
    (said, y), _ = layer(Standard(x, VERSIONED))
    assert said == "taken"
    np.testing.assert_array_equal(y.numpy(), layer(x)[0])


def test_masked_arrays_are_refused(layer):
    with pytest.raises(BadArgument, match="mask"):
        layer(np.ma.masked_array(draw(5, 2, 3), mask=False))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", ">f4", "c8", "?", "O", "M8[s]"])
def test_other_number_types_are_refused(layer, dtype):
    with pytest.raises(BadArgument, match="x is .*, must be float32"):
        layer(np.zeros((5, 2, 3), dtype))


@takes_dlpack
def test_results_are_arrays_that_others_take(layer):
    values = draw(2, 3)
    made = Array.of("cpu", values)
    assert repr(made) == "ecornn.Array([2, 3], float32, cpu)"
    assert made.__dlpack_device__() == (1, 0)
    for taken in (np.from_dlpack(made), np.asarray(made)):
        np.testing.assert_array_equal(taken, values)
        assert taken.__array_interface__["data"][0] == made.address
    assert made.address % 64 == 0
    with pytest.raises(BufferError, match="dl_device"):
        made.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="copy"):
        made.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="stream"):
        made.__dlpack__(stream=1)
    with pytest.raises(AttributeError):
        made.__cuda_array_interface__
    with pytest.raises(BadArgument, match="values are int64"):
        Array.of("cpu", [1, 2])
    with pytest.raises((BadArgument, ecornn.NoDevice), match="gpu"):
        Array.of("gpu", values)
    x = draw(5, 2, 3)
    np.testing.assert_array_equal(layer(Array.of("cpu", x))[0].numpy(), layer(x)[0])
    short = values.astype(pytest.importorskip("ml_dtypes").bfloat16)
    made = Array.of("cpu", short)
    assert made.dtype == "bfloat16" and made.numpy().dtype == np.float32
    np.testing.assert_array_equal(made.numpy(), short.astype(np.float32))


@takes_dlpack
def test_a_result_lives_as_long_as_its_last_user():
    freed = []

    class Memory(ecornn.results.Memory):
        __slots__ = ()

        def __del__(self):
            freed.append(self.address)
            super().__del__()

    made = Array.of("cpu", draw(2, 3))
    made._memory.__class__ = Memory
    address, capsule = made.address, made.__dlpack__(max_version=(1, 0))
    taken, other = np.from_dlpack(made), np.asarray(made)
    del made
    gc.collect()
    assert not freed
    del taken, other
    assert not freed
    del capsule  # which no consumer has taken
    gc.collect()
    assert freed == [address]


class Heap(ctypes.Structure):
    _fields_ = [("of", ctypes.c_size_t * 10)]


@takes_dlpack
def test_nothing_leaks():
    layer = Layer("lstm", 3, 4, device="cpu:1")
    info = getattr(ctypes.CDLL(None), "mallinfo2", lambda: Heap())  # glibc 2.33 and newer
    info.restype = Heap

    def in_use():
        """Bytes that the C library has given out, in blocks of its own and of the system."""
        heap = info()
        return heap.of[7] + heap.of[4]

    def turn():
        given = Other(x, VERSIONED)
        y, final = layer(given, lengths=[20, 9])
        run = layer.forward(given)
        run.backward(y, final)
        np.from_dlpack(y)
        final[0].__dlpack__()
        run = layer.forward(x, lengths=lengths)
        run.backward(run.y)
        for wrong in (x[0], np.zeros(3)):
            with pytest.raises(ecornn.BadArgument):
                layer(wrong)

    x, lengths = draw(20, 2, 3), np.array([20, 3])
    for _ in range(300):
        turn()
    gc.collect()
    objects, before = len(gc.get_objects()), in_use()
    for _ in range(2500):  # four runs each
        turn()
    gc.collect()
    assert len(gc.get_objects()) <= objects + 50
    assert in_use() - before < 10000  # one byte of each run


# ---- torch, jax -------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
def test_torch_s_tensors(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    layer = Layer("lstm", 3, 4, layers=2, direction="both", batch_first=True,
                  dtype={"float32": "f32", "float64": "f64", "bfloat16": "bf16"}[name])
    module = torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    layer.load("torch", module.state_dict())
    layer.load("torch", [p.bfloat16().float() for p in module.parameters()])
    layer.load("torch", module.parameters())
    module.to(dtype)
    x = torch.randn(2, 5, 3).to(dtype).requires_grad_()
    with pytest.raises((BufferError, RuntimeError), match="gradient"):  # RuntimeError: of torch 2.4
        layer(x)
    wide = x.detach().double().requires_grad_()
    right, (h, c) = module.double()(wide)
    run = layer.forward(x.detach())
    dy = torch.randn(2, 5, 8).to(dtype)
    grads = run.backward(dy, tuple(run.final))
    torch.autograd.backward([right, h, c], [dy.double(), *(state.double() for state in run.final)])
    limit = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 0.1}[name]
    for ours, theirs in [(run.y, right), (run.final[0], h), (run.final[1], c), (grads.x, wide.grad)]:
        assert type(ours) is torch.Tensor and ours.dtype == dtype and ours.device.type == "cpu"
        assert torch.allclose(ours.double(), theirs, rtol=limit, atol=limit)
    with pytest.raises(BadArgument, match="dense"):
        layer(x.detach().transpose(0, 1))
    with pytest.raises(BadArgument, match="int64, must be"):
        layer(torch.zeros(2, 5, 3, dtype=torch.int64))
    with pytest.raises(BadArgument, match="is code.*, must be a number type"):
        layer.load("torch", torch.zeros(3, dtype=torch.complex64))
    run.y.add_(1)  # y belongs to the caller
    same = layer(x.detach(), lengths=torch.tensor([5, 2]))[0]
    assert not same[1, 2:].any()


def test_an_exception_that_is_pending_survives_a_result_s_end():
    torch = pytest.importorskip("torch")
    layer = Layer("lstm", 3, 4)
    x = torch.zeros(2, 5, 3)
    for _ in range(20):  # both arguments are freed while the error is raised
        with pytest.raises(RuntimeError, match="matrices|matrix|2D|shape"):
            torch.mm(layer(x)[0], layer(x)[0])


def test_jax_s_arrays():
    jax = pytest.importorskip("jax")
    layer, x = Layer("lstm", 3, 4), draw(5, 2, 3)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        y, final = layer(jax.numpy.asarray(x))
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(np.asarray(y), layer(x)[0])


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_torch_s_tensors_on_a_gpu(name):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    short = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[name]
    layer = Layer("lstm", 32, 64, layers=2, direction="both", dtype=short, device="cuda:0")
    right = Layer("lstm", 32, 64, layers=2, direction="both", device="reference")
    values, lengths = draw(9, 4, 32), [9, 0, 3, 5]
    x = torch.from_numpy(values).to("cuda:0").to(getattr(torch, name))
    values = x.float().cpu().numpy()
    expected = right.forward(values, lengths=lengths)
    dy = torch.ones(9, 4, 128, dtype=x.dtype, device="cuda:0")
    expected_grads = expected.backward(np.ones((9, 4, 128), np.float32))
    limit = {"float32": 1e-4, "float16": 0.02, "bfloat16": 0.1}[name]
    on_gpu = torch.tensor(lengths, dtype=torch.int32, device="cuda:0")
    other = torch.cuda.Stream("cuda:0")
    for given, stream in ((lengths, None), (on_gpu, other), (on_gpu, other.cuda_stream)):
        run = layer.forward(x, lengths=given, stream=stream)
        grads = run.backward(dy)
        for ours, theirs in ((run.y, expected.y), (run.final[1], expected.final[1]),
                             (grads.x, expected_grads.x)):
            assert ours.is_cuda and ours.dtype == x.dtype
            assert abs(ours.float().cpu().numpy() - theirs).max() <= limit * abs(theirs).max()
        block = expected_grads.parameters.block
        assert abs(grads.parameters.block - block).max() <= limit * abs(block).max()
        first = grads.parameters.block.copy()
        run.backward(dy, accumulate=grads)
        assert abs(grads.parameters.block - 2 * first).max() <= 1e-3 * abs(first).max()
    with pytest.raises(BadArgument, match="x is in memory of the host"):
        layer(values)
    with pytest.raises(BadArgument, match="int64"):
        layer(x, lengths=on_gpu.long())
    layer.parameters.block[:] = 0
    assert not layer(x)[0].any()


def test_cupy_s_arrays_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no GPU")

    class Numba:  # has this protocol and no other
        def __init__(self, values):
            self.__cuda_array_interface__ = values.__cuda_array_interface__

    layer = Layer("gru", 16, 32, device="cuda:0")
    values = draw(6, 3, 16)
    right = Layer("gru", 16, 32, device="reference")(values, lengths=[6, 1, 0])[0]
    with cupy.cuda.Device(0):
        x, lengths = cupy.asarray(values), cupy.asarray([6, 1, 0], cupy.int32)
    with cupy.cuda.Device(0), cupy.cuda.Stream() as stream:
        y, final = layer(x, lengths=lengths, stream=stream)
        assert type(y) is cupy.ndarray
        np.testing.assert_allclose(y.get(), right, rtol=1e-4, atol=1e-5)
        y, final = layer(Numba(x), lengths=Numba(lengths))
        assert isinstance(y, Array) and y.device == "cuda:0"
        np.testing.assert_allclose(y.numpy(), right, rtol=1e-4, atol=1e-5)
        for same in (cupy.from_dlpack(y), cupy.asarray(y)):
            np.testing.assert_array_equal(same.get(), y.numpy())
    with cupy.cuda.Device(0), pytest.raises(BadArgument, match="dense"):
        layer(Numba(cupy.asfortranarray(x)))
    with pytest.raises(BadArgument, match="x is in memory of the host"):
        layer(values)
    with pytest.raises(AttributeError):
        y.__array_interface__
    with pytest.raises(BadArgument, match="x is in memory of cuda:0"):
        Layer("gru", 16, 32, device="cpu")(x)


def test_threads_share_a_gpu_s_layer(in_threads):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    text = "cell leaky(h)\nu  = sigmoid(W x + b)\nh' = u * h + (1 - u) * tanh(W x + R h + b)\n"
    layer = Layer(text, 16, 32, layers=2, direction="both", device="cuda:0")
    reference = Layer(text, 16, 32, layers=2, direction="both", device="reference")
    inputs = [draw(3 + k, 1 + k % 3, 16) for k in range(6)]
    right = [reference(x)[0] for x in inputs]

    def work(k):
        stream = torch.cuda.Stream("cuda:0")
        with torch.cuda.stream(stream):
            for turn in range(40):
                x = torch.from_numpy(inputs[(k + turn) % 6]).to("cuda:0")
                run = layer.forward(x, stream=stream if turn % 2 else None)
                assert run.backward(run.y).x.shape == x.shape
                found = run.y.cpu().numpy()
                np.testing.assert_allclose(found, right[(k + turn) % 6], rtol=1e-4, atol=1e-5)

    in_threads(work)


def test_memory_of_a_gpu_is_freed():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    layer = Layer("lstm", 64, 128, device="cuda:0")
    x = torch.randn(64, 32, 64, device="cuda:0")

    def free_after(turns):
        for _ in range(turns):
            run = layer.forward(x)
            run.backward(run.y)
        torch.cuda.synchronize(0)
        return torch.cuda.mem_get_info(0)[0]

    # Another process may allocate on the GPU meanwhile, but not in each of these attempts.  A run
    # has more than 1 MB.
    assert any(free_after(5) - free_after(200) <= 4 << 20 for _ in range(8))


def test_jax_s_arrays_on_a_gpu():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("no GPU")
    layer, values = Layer("lstm", 16, 32, device="cuda:0"), draw(6, 3, 16)
    x = jax.numpy.asarray(values)
    y, final = layer(x)
    assert isinstance(y, jax.Array)
    right = Layer("lstm", 16, 32, device="reference")(values)[0]
    np.testing.assert_allclose(np.asarray(y), right, rtol=1e-4, atol=1e-5)
