"""
ecornn through the public header's ABI (include/ecornn.h), with ctypes alone.
"""
import ctypes
import ctypes.util
import os

import numpy as np

TYPE = {"f32": 1, "f64": 2, "bf16": 3, "f16": 4}
UNSUPPORTED, MAX_STATES = 5, 4
void, i32, u32, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_size_t


class Unsupported(Exception):
    """A vector that a runtime cannot express."""


class Sizes(ctypes.Structure):
    _fields_ = [(name, size) for name in ("size", "param_elements", "weights", "dweights", "workspace",
                                          "reserve", "alignment")] + [("param_count", i32), ("steps", i32)]


class Param(ctypes.Structure):
    _fields_ = [("size", size), ("name", ctypes.c_char * 48), ("offset", size), ("rows", i32), ("cols", i32)]


class Io(ctypes.Structure):
    _fields_ = [("size", size), ("lengths", void), ("x", void), ("y", void),
                ("initial", void * MAX_STATES), ("final", void * MAX_STATES), ("weights", void),
                ("workspace", void), ("reserve", void), ("seed", ctypes.c_uint64), ("stream", void),
                ("workspace_bytes", size), ("reserve_bytes", size)]


class Gradient(ctypes.Structure):
    _fields_ = [("size", size), ("dy", void), ("dfinal", void * MAX_STATES), ("dx", void),
                ("dinitial", void * MAX_STATES), ("dweights", void)]


def load(path=None):
    """The library: that path, the build folder's, or the installed one; None: there is none."""
    for name in (path, "build/.libs/libecornn.so", ".libs/libecornn.so",
                 ctypes.util.find_library("ecornn")):
        if name and (os.path.exists(name) or "/" not in name):
            library = ctypes.CDLL(os.path.abspath(name) if "/" in name else name)
            break
    else:
        return None
    library.ecornn_error_detail.restype = ctypes.c_char_p
    library.ecornn_status_name.restype = ctypes.c_char_p
    library.ecornn_alloc.restype = void
    library.ecornn_alloc.argtypes = [void, size]
    library.ecornn_upload.argtypes = library.ecornn_download.argtypes = [void, void, void, size]
    for name in ("ecornn_free", "ecornn_plan_free", "ecornn_device_close", "ecornn_plan_sizes"):
        getattr(library, name).restype = None
    return library


def to_type(array, type):
    """Numbers that are exact in the type, as its bits."""
    if type == "bf16":
        return (array.astype("<f4").view("<u4") >> 16).astype("<u2")
    return array.astype({"f32": "<f4", "f64": "<f8", "f16": "<f2"}[type])


def from_type(array, type):
    if type == "bf16":
        return (array.astype("<u4") << 16).view("<f4").astype(float)
    return array.astype(float)


def empty(shape, type):
    return np.zeros(shape, {"f32": "<f4", "f64": "<f8", "bf16": "<u2", "f16": "<f2"}[type])


class Ecornn:
    """A device of the library. `type`: the type of all arrays, instead of the vector's."""

    def __init__(self, library, device, type=None):
        self.library, self.type = library, type
        self.device = void()
        self.check(library.ecornn_device_open(ctypes.byref(self.device), device.encode()))

    def close(self):
        self.library.ecornn_device_close(self.device)

    def check(self, status):
        if status:
            detail = self.library.ecornn_error_detail().decode(errors="replace")
            raise Unsupported(detail) if status == UNSUPPORTED else RuntimeError(detail)

    def run(self, vector):
        return Run(self, vector, self.type or vector.type).results()


class Run:
    """One vector: a plan, its memory on the device, a forward and a backward."""

    def __init__(self, machine, vector, type):
        self.machine, self.lib, self.vector, self.type = machine, machine.library, vector, type
        self.param_type = "f64" if type == "f64" else "f32"
        self.plan, self.held, self.lengths = void(), [], None

    def results(self):
        self.create_plan()
        return self.results_of_plan()

    def results_of_plan(self):
        try:
            self.pack()
            return self.compute()
        finally:
            for memory in self.held:
                self.lib.ecornn_free(self.machine.device, memory)
            self.lib.ecornn_plan_free(self.plan)

    def create_plan(self):
        problem = self.vector.problem.split("/")
        problem[1] = self.type
        self.sizes, check = Sizes(size=ctypes.sizeof(Sizes)), self.machine.check
        check(self.lib.ecornn_plan_create(ctypes.byref(self.plan), self.machine.device,
                                          "/".join(problem).encode(), None))
        check(self.lib.ecornn_plan_sizes(self.plan, ctypes.byref(self.sizes)))

    # ---- memory of the device ----

    def alloc(self, count):
        memory = void(self.lib.ecornn_alloc(self.machine.device, max(count, 1)))
        if not memory:
            raise MemoryError("%d bytes" % count)
        self.held.append(memory)
        return memory

    def up(self, array):
        array = np.ascontiguousarray(array)
        memory = self.alloc(array.nbytes)
        self.machine.check(self.lib.ecornn_upload(self.machine.device, memory,
                                                  array.ctypes.data, array.nbytes))
        return memory

    def down(self, memory, shape, type):
        array = empty(shape, type)
        self.machine.check(self.lib.ecornn_download(self.machine.device, array.ctypes.data,
                                                    memory, array.nbytes))
        return from_type(array, type)

    # ---- parameters ----

    def params(self):
        found = []
        for k in range(self.sizes.param_count):
            param = Param(size=ctypes.sizeof(Param))
            self.machine.check(self.lib.ecornn_param_get(self.plan, k, ctypes.byref(param)))
            found.append(param.name.decode())
        return found

    def pack(self):
        arrays = [to_type(self.vector.inputs[name], self.param_type) for name in self.params()]
        pointers = (void * len(arrays))(*[self.up(a) for a in arrays])
        self.weights = self.alloc(self.sizes.weights)
        self.machine.check(self.lib.ecornn_pack(self.plan, pointers, None, self.weights, None))

    def unpack(self, dweights):
        names = self.params()
        shapes = [self.vector.inputs[name].shape for name in names]
        memory = [self.up(empty(shape, self.param_type)) for shape in shapes]
        pointers = (void * len(memory))(*memory)
        self.machine.check(self.lib.ecornn_unpack(self.plan, dweights, pointers, 0, None))
        return {"d:" + name: self.down(m, shape, self.param_type)
                for name, m, shape in zip(names, memory, shapes)}

    # ---- the run ----

    def given(self, name):
        array = self.vector.inputs.get(name)
        return None if array is None else self.up(to_type(array, self.type))

    def room(self, name):
        array = self.vector.expected.get(name)
        return None if array is None else self.alloc(8 * array.size)

    def compute(self):
        v, states = self.vector, range(self.vector.states)
        io = Io(size=ctypes.sizeof(Io), x=self.given("x"),
                y=self.room("y"), weights=self.weights,
                workspace=self.alloc(self.sizes.workspace),
                workspace_bytes=self.sizes.workspace)
        if v.lengths is not None:
            io.lengths = self.up(np.array(v.lengths, "<i4"))
        for s in states:
            io.initial[s] = self.given("initial%d" % s)
            io.final[s] = self.room("final%d" % s)
        if v.training:
            io.reserve = self.alloc(self.sizes.reserve)
            io.reserve_bytes = self.sizes.reserve
        self.machine.check(self.lib.ecornn_forward(self.plan, v.steps, v.batch, ctypes.byref(io)))
        memory = {"y": io.y}
        memory.update(("final%d" % s, io.final[s]) for s in states)
        more = self.backward(io, memory) if v.training else {}
        self.machine.check(self.lib.ecornn_wait(self.machine.device, None))
        for name, m in memory.items():
            if name in v.expected:
                more[name] = self.down(m, v.expected[name].shape, self.type)
        return more

    def backward(self, io, memory):
        dweights = self.alloc(self.sizes.dweights)
        gradient = Gradient(size=ctypes.sizeof(Gradient), dy=self.given("dy"), dx=self.room("dx"),
                            dweights=dweights)
        for s in range(self.vector.states):
            gradient.dfinal[s] = self.given("dfinal%d" % s)
            gradient.dinitial[s] = memory["dinitial%d" % s] = self.room("dinitial%d" % s)
        self.machine.check(self.lib.ecornn_backward(self.plan, self.vector.steps, self.vector.batch,
                                                    ctypes.byref(io),
                                                    ctypes.byref(gradient)))
        memory["dx"] = gradient.dx
        return self.unpack(dweights)
