"""Constants and structures of the public headers, written by python/mirrors.py: do not edit."""

from ctypes import (Structure, c_char, c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p,
                    sizeof)

_TYPES = {"s": c_char, "f": c_float, "d": c_double, "i": c_int32, "I": c_uint32, "Q": c_uint64, "N": c_size_t,
          "P": c_void_p}


class Sized(Structure):
    """A structure whose first field is its size."""

    def __init__(self, **fields):
        super().__init__(size=sizeof(self), **fields)


def _mirrors(fields):
    """Gives a structure its fields: struct's letter for the type of each, after the length of an array."""
    def mirror(structure):
        pairs = [field.split(":") for field in fields.split()]
        structure._fields_ = [(name, _TYPES[of[-1]] * int(of[:-1]) if of[:-1] else _TYPES[of]) for name, of in pairs]
        return structure

    return mirror


MAX_STATES = 4
OK = 0
BAD_ARGUMENT = 1
BAD_CELL = 2
NO_MEMORY = 3
NO_DEVICE = 4
UNSUPPORTED = 5
FAILED = 6
F32 = 1
F64 = 2
BF16 = 3
F16 = 4
S8 = 5
TRAINING = 1
FAST_MATH = 2
ROW_INVARIANT = 4
RESETS = 8
MASK = 16
REPEAT_PADDING = 32
ALL_STATES = 64
SHARED_INPUT = 128
GROUPED_INPUT = 256
REVERSE = 512
BIDIRECTIONAL = 1024
BATCH_MAJOR = 2048
SAVE_ALL = 4096
SAVE_STATES = 8192
TANGENT = 16384
INT8 = 32768
STREAMS = 65536
MEASURE = 131072


@_mirrors("size:N param_elements:N weight_bytes:N dweight_bytes:N workspace_bytes:N reserve_bytes:N alignment:N param_count:i steps:i batch:i input:i output:i reads_y:i checks_lengths:i models:i source:i layers:i joined:i first_param:i param_offset:N weight_offset:N dweight_offset:N")
class Sizes(Sized):
    """ecornn_sizes."""


# ecornn_io
IO = "size:N lengths:P x:P y:P initial:4P final:4P weights:P workspace:P reserve:P seed:Q stream:P workspace_bytes:N reserve_bytes:N resets:P reset_state:4P mask:P states:4P first_step:I first_row:I params:P added:P layers:P tangent:P rows:P streams:i reserved:i inputs:P input_rows:P"

# ecornn_gradient
GRADIENT = "size:N dy:P dfinal:4P dx:P dinitial:4P dweights:P add:i reserved:i dreset_state:4P dstates:4P layers:P tangent:P dparams:P dinputs:P dinput_rows:P"


@_mirrors("size:N name:48s offset:N rows:i cols:i gradient:N is_dense:i reserved:i")
class Param(Sized):
    """ecornn_param."""


@_mirrors("size:N memory_bytes:N name:64s backend:16s algorithms:128s variant:16s threads:i reserved:i")
class DeviceInfo(Sized):
    """ecornn_device_info."""


@_mirrors("size:N value:d word:16s name:32s stage:i index:i argument:3i reserved:i")
class CellItem(Sized):
    """ecornn_cell_item."""


@_mirrors("size:N cell:P memory_limit:Q flags:I steps:i batch:i input:i hidden:i proj:i layers:i type:i param_type:i weight_type:i save_type:i save_every:i models:i heads:i dropout:f reserved:i measure_seconds:d key:i reserved2:i")
class Desc(Sized):
    """ecornn_desc."""


# ecornn_attention_io
ATTENTION_IO = "size:N lengths:P query:P keys:P values:P vector:P context:P probs:P workspace:P reserve:P stream:P workspace_bytes:N reserve_bytes:N"

# ecornn_attention_gradient
ATTENTION_GRADIENT = "size:N dcontext:P dprobs:P dquery:P dkeys:P dvalues:P dvector:P add:i reserved:i"
