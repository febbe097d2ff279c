"""The C library: where it is found, and its functions through ctypes.

The library is searched for in this order:

1. ``ECORNN_LIBRARY``, a path, or ``system``: only what the system's loader finds;
2. the copy inside this package, ``ecornn/lib``;
3. what the system's loader finds.
"""

from __future__ import annotations

import ctypes
import os
import struct
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p
from operator import attrgetter

from ._errors import BY_STATUS, Error
# Other modules find these here, too.
from ._structs import (ALL_STATES, ATTENTION_GRADIENT, ATTENTION_IO, BATCH_MAJOR, BF16,
                       BIDIRECTIONAL, CellItem, Desc, DeviceInfo, F16, F32, F64, FAST_MATH, GRADIENT,
                       GROUPED_INPUT, INT8, IO, MASK, MAX_STATES, MEASURE, Param, REPEAT_PADDING,
                       RESETS, REVERSE, ROW_INVARIANT, S8, SAVE_ALL, SAVE_STATES, SHARED_INPUT, Sized, Sizes,
                       TANGENT, TRAINING)

NAME = "libecornn.so.1"
# Relative names mean those of the folder where ecornn was imported, also after a chdir.
_START = os.path.realpath("/proc/self/cwd")
_OWN = os.path.join(_START, os.path.dirname(__file__), "lib")


def packer(mirror: str, address):
    """A function that packs a structure of runs, given some of its fields by name; the others are 0.

    mirror: one of _structs.  None is 0, and what is no int is an object with an address(object), which
    must live until the call.  A field of states takes one for each, perhaps fewer.
    """
    fields = [field.split(":") for field in mirror.split()]
    # 0P: the structure ends at a multiple of its alignment.
    form = struct.Struct("@" + "".join(letter for _, letter in fields) + "0P")
    blank, places = [form.size], {}
    for name, letter in fields[1:]:
        count = int(letter[:-1] or 1)
        places[name] = len(blank), count > 1
        blank += [0] * count

    def pack(**given) -> bytes:
        values = blank[:]
        for name, value in given.items():
            at, several = places[name]
            if several:
                for one in value:
                    if one is not None:
                        values[at] = one if type(one) is int else address(one)
                    at += 1
            elif value is not None:
                values[at] = value if type(value) is int else address(value)
        return form.pack(*values)

    pack.size = form.size
    return pack


def packers(address):
    """pack_io(**fields) and pack_gradient(results, inputs, **fields); results: the gradients of y and the
    final states, inputs: those of x and the initial states."""
    pack = packer(GRADIENT, address)
    return packer(IO, address), lambda results, inputs, **more: pack(
        dy=results[0], dfinal=results[1:], dx=inputs[0], dinitial=inputs[1:], **more)


pack_io, pack_gradient = packers(attrgetter("address"))


def address_of(packed: bytes) -> int:
    """Where a packed structure is, as long as the bytes live."""
    return ctypes.cast(c_char_p(packed), c_void_p).value


def layers_of(structures: list[bytes]):
    """io.layers or gradient.layers: an array of the addresses of packed structures."""
    return (c_void_p * len(structures))(*map(address_of, structures))


# Result, arguments.  c_char_p takes the bytes of pack_io as they are.
_STATUS = c_int
_FUNCTIONS = {
    "ecornn_version": (c_char_p, []),
    "ecornn_error_detail": (c_char_p, []),
    "ecornn_device_open": (_STATUS, [POINTER(c_void_p), c_char_p]),
    "ecornn_device_close": (None, [c_void_p]),
    "ecornn_device_count": (_STATUS, [c_char_p, POINTER(c_int)]),
    "ecornn_device_query": (_STATUS, [c_void_p, POINTER(DeviceInfo)]),
    "ecornn_alloc": (c_void_p, [c_void_p, c_size_t]),
    "ecornn_free": (None, [c_void_p, c_void_p]),
    "ecornn_upload": (_STATUS, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "ecornn_download": (_STATUS, [c_void_p, c_void_p, c_void_p, c_size_t]),
    "ecornn_wait": (_STATUS, [c_void_p, c_void_p]),
    "ecornn_cell_parse": (_STATUS, [POINTER(c_void_p), c_char_p]),
    "ecornn_cell_name": (_STATUS, [c_int, POINTER(c_char_p)]),
    "ecornn_cell_library": (_STATUS, [c_int, POINTER(c_char_p), POINTER(c_char_p)]),
    "ecornn_cell_item_get": (_STATUS, [c_void_p, c_int, POINTER(CellItem)]),
    "ecornn_cell_free": (None, [c_void_p]),
    "ecornn_desc_parse": (_STATUS, [POINTER(Desc), c_char_p, c_void_p]),
    "ecornn_plan_create": (_STATUS, [POINTER(c_void_p), c_void_p, c_char_p, c_void_p]),
    "ecornn_plan_create_desc": (_STATUS, [POINTER(c_void_p), c_void_p, POINTER(Desc)]),
    "ecornn_plan_free": (None, [c_void_p]),
    "ecornn_plan_sizes": (_STATUS, [c_void_p, POINTER(Sizes)]),
    "ecornn_plan_print": (c_int, [c_void_p, c_char_p, c_size_t]),
    "ecornn_plan_layer": (_STATUS, [c_void_p, c_int, POINTER(c_void_p)]),
    "ecornn_run_sizes": (_STATUS, [c_void_p, c_int32, c_int32, POINTER(Sizes)]),
    "ecornn_plan_state": (_STATUS, [c_void_p, c_int, POINTER(c_size_t), POINTER(c_int)]),
    "ecornn_bucket": (c_int32, [c_int32]),
    "ecornn_param_get": (_STATUS, [c_void_p, c_int, POINTER(Param)]),
    "ecornn_pack": (_STATUS, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "ecornn_unpack": (_STATUS, [c_void_p, c_void_p, c_void_p, c_int, c_void_p]),
    "ecornn_weights_fit": (_STATUS, [c_void_p, c_void_p]),
    "ecornn_import_size": (_STATUS, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "ecornn_import": (_STATUS, [c_void_p, c_char_p, c_void_p, c_int, c_size_t, c_void_p]),
    "ecornn_export": (_STATUS, [c_void_p, c_char_p, c_void_p, c_void_p, c_int, c_size_t]),
    "ecornn_forward": (_STATUS, [c_void_p, c_int32, c_int32, c_char_p]),
    "ecornn_backward": (_STATUS, [c_void_p, c_int32, c_int32, c_char_p, c_char_p]),
    "ecornn_attention_forward": (_STATUS, [c_void_p, c_int32, c_int32, c_int32, c_char_p]),
    "ecornn_attention_backward": (_STATUS, [c_void_p, c_int32, c_int32, c_int32, c_char_p, c_char_p]),
}


def _candidates() -> list[str]:
    asked = os.environ.get("ECORNN_LIBRARY")
    if asked and asked != "system":
        return [os.path.join(_START, asked) if os.sep in asked else asked]
    own = os.path.join(_OWN, NAME)
    return [NAME] if asked == "system" or not os.path.exists(own) else [own]


def _find_module() -> None:
    """Tells the library where an installed package has the CUDA module."""
    if "ECORNN_MODULE_DIR" in os.environ or os.environ.get("ECORNN_LIBRARY"):
        return
    import importlib.util

    for package in ("ecornn_cu13", "ecornn_cu12"):
        found = importlib.util.find_spec(package)
        if found is not None and found.submodule_search_locations:
            folder = os.path.join(_START, next(iter(found.submodule_search_locations)), "lib")
            if os.path.exists(os.path.join(folder, "ecornn-cuda.so")):
                # The library reads the environment once, when a GPU is first requested.
                os.environ["ECORNN_MODULE_DIR"] = folder
                return


def _load() -> tuple[ctypes.CDLL, str]:
    _find_module()
    tried = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(str(error))
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise ImportError(f"{path} has no {name}: an older libecornn") from None
            function.restype, function.argtypes = result, arguments
        return library, path
    raise ImportError("no libecornn: " + "; ".join(tried) + " (set ECORNN_LIBRARY to its path)")


library, path = _load()


class _DlInfo(ctypes.Structure):
    """Dl_info of dladdr."""

    _fields_ = [("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("address", c_void_p)]


def file() -> str:
    """The file from which the library was loaded."""
    found = _DlInfo()
    try:
        dladdr = ctypes.CDLL(None).dladdr
        if dladdr(ctypes.cast(library.ecornn_version, c_void_p), byref(found)):
            return os.fsdecode(found.file)
    except (AttributeError, OSError):
        pass
    return path


def module(name: str, version: int) -> ctypes.CDLL:
    """``ecornn-run.so``, ``ecornn-torch.so`` or ``ecornn-jax.so`` of that version of its interface, in the package
    or next to the library, unless ``ECORNN_RUN_MODULE`` and so on names it; or an ImportError that says why not."""
    variable, folder = f"ECORNN_{name.upper()}_MODULE", os.path.dirname(path if os.sep in path else file())
    asked = os.environ.get(variable)
    if asked == "none":
        raise ImportError(f"{variable} is none: there is no ecornn-{name}.so")
    paths = [os.path.join(_START, asked)] if asked else [
        os.path.join(place, f"ecornn-{name}.so") for place in (_OWN, folder, os.path.join(folder, "ecornn"))]
    for found in filter(os.path.exists, paths):
        try:
            opened = ctypes.CDLL(found)
            start = getattr(opened, f"ecornn_{name}_open")
        except (OSError, AttributeError) as error:
            raise ImportError(f"{found} cannot be loaded: {error} (set {variable} to the path of another)") from None
        start.argtypes = [c_int, c_void_p]
        if start(version, library._handle):
            raise ImportError(f"{found} does not fit {path}, or needs what is not there (set {variable} to the path of another)")
        return opened
    raise ImportError(f"no ecornn-{name}.so: looked at {', '.join(paths)} (set {variable} to its path)")


def fail(status: int) -> None:
    """Raises the exception of a status that is not OK."""
    detail = library.ecornn_error_detail().decode("utf-8", "replace")
    raise BY_STATUS.get(status, Error)(detail)


def check(status: int) -> None:
    """Raises unless the status is OK."""
    if status:
        fail(status)


def device_count(backend: str) -> int:
    """The number of devices of a backend."""
    count = c_int()
    check(library.ecornn_device_count(backend.encode(), byref(count)))
    return count.value


def version() -> str:
    """The library's version and instruction set, e.g. ``1.0.0 cpu:avx512``."""
    return library.ecornn_version().decode()


__all__ = ["byref", "check", "fail", "library", "pack_gradient", "pack_io", "packer", "packers",
           "path", "version"]
