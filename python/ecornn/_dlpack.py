"""DLPack by ctypes: reads capsules, and makes capsules of the library's own memory.

A capsule that comes in is never renamed: the holder of the capsule holds the array, and the
capsule's own destructor frees it.  A capsule that goes out is made by numpy from an array of the
same bytes, with device and number type overwritten.  Its deleter is then C code that takes the
interpreter's lock, keeps a pending exception, and works after the interpreter has ended.  A deleter
written in Python could do none of that.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p, py_object

import numpy

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
INT, UINT, FLOAT, BFLOAT = 0, 1, 2, 4


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    """DLManagedTensor, up to DLPack 0.8."""

    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, from DLPack 1.0."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


_MANAGED, _VERSIONED = b"dltensor", b"dltensor_versioned"
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [py_object, c_char_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [py_object, c_char_p]


def tensor_of(capsule) -> Tensor:
    """The tensor of a capsule that has not been consumed; valid as long as the capsule.

    Raises BufferError for other objects, and for a DLPack version with another layout.
    """
    if _is_valid(capsule, _VERSIONED):
        managed = _Versioned.from_address(_pointer(capsule, _VERSIONED))
        if managed.major != 1:
            raise BufferError(f"DLPack is {managed.major}.{managed.minor}, must be 1.x or older")
        return managed.tensor
    if _is_valid(capsule, _MANAGED):
        return _Managed.from_address(_pointer(capsule, _MANAGED)).tensor
    raise BufferError(f"{capsule!r} must be a DLPack capsule that nobody has taken")


def ask(array, device_type: int, stream: int):
    """The capsule of an array; on a GPU it is ready for work queued on the stream."""
    # In the protocol 0 is ambiguous, and 1 is the default stream.
    extra = {"stream": stream or 1} if device_type in (CUDA, CUDA_MANAGED) else {}
    try:
        return array.__dlpack__(max_version=(1, 0), **extra)
    except TypeError:  # a library older than 1.0
        return array.__dlpack__(**extra)


class _Bytes:
    """Memory described to numpy, which does not read it."""

    def __init__(self, owner, address: int, shape: tuple[int, ...], typestr: str):
        self.owner = owner
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": typestr, "data": (address, False)}


def host_view(owner, address: int, shape: tuple[int, ...], typestr: str) -> numpy.ndarray:
    """Host memory as an array that keeps its owner alive."""
    return numpy.asarray(_Bytes(owner, address, shape, typestr))


def capsule_of(owner, address: int, shape: tuple[int, ...], kind: tuple[int, int],
               device: tuple[int, int], max_version):
    """A new capsule of dense memory, which keeps the owner alive until its deleter has run.  kind:
    code and bits of its type."""
    code, bits = kind
    carrier = host_view(owner, address, shape, f"<{'i' if code == INT else 'u'}{bits // 8}")
    try:
        capsule = carrier.__dlpack__(max_version=max_version)
    except TypeError:  # numpy older than 2.1
        capsule = carrier.__dlpack__()
    tensor = tensor_of(capsule)
    tensor.code, tensor.bits, tensor.lanes = code, bits, 1
    tensor.device_type, tensor.device_id = device
    return capsule
