"""Constants and structures of the public headers, written by python/mirrors.py: do not edit."""

from ctypes import (Structure, c_char, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64,
                    c_void_p, sizeof)


class Sized(Structure):
    """A structure whose first field is its size."""

    def __init__(self, **fields):
        super().__init__(size=sizeof(self), **fields)


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


class Sizes(Sized):
    """ecornn_sizes."""

    _fields_ = [
        ("size", c_size_t),
        ("param_elements", c_size_t),
        ("weight_bytes", c_size_t),
        ("dweight_bytes", c_size_t),
        ("workspace_bytes", c_size_t),
        ("reserve_bytes", c_size_t),
        ("alignment", c_size_t),
        ("param_count", c_int32),
        ("steps", c_int32),
        ("batch", c_int32),
        ("input", c_int32),
        ("output", c_int32),
        ("reads_y", c_int32),
        ("checks_lengths", c_int32),
        ("models", c_int32),
        ("source", c_int32),
        ("layers", c_int32),
        ("joined", c_int32),
        ("first_param", c_int32),
        ("param_offset", c_size_t),
        ("weight_offset", c_size_t),
        ("dweight_offset", c_size_t),
    ]


# ecornn_io
IO = "size:N lengths:P x:P y:P initial:4P final:4P weights:P workspace:P reserve:P seed:Q stream:P workspace_bytes:N reserve_bytes:N resets:P reset_state:4P mask:P states:4P first_step:I first_row:I params:P added:P layers:P tangent:P rows:P streams:i reserved:i inputs:P input_rows:P"

# ecornn_gradient
GRADIENT = "size:N dy:P dfinal:4P dx:P dinitial:4P dweights:P add:i reserved:i dreset_state:4P dstates:4P layers:P tangent:P dparams:P dinputs:P dinput_rows:P"


class Param(Sized):
    """ecornn_param."""

    _fields_ = [
        ("size", c_size_t),
        ("name", c_char * 48),
        ("offset", c_size_t),
        ("rows", c_int32),
        ("cols", c_int32),
    ]


class DeviceInfo(Sized):
    """ecornn_device_info."""

    _fields_ = [
        ("size", c_size_t),
        ("memory_bytes", c_size_t),
        ("name", c_char * 64),
        ("backend", c_char * 16),
        ("algorithms", c_char * 128),
        ("variant", c_char * 16),
        ("threads", c_int32),
        ("reserved", c_int32),
    ]


class CellItem(Sized):
    """ecornn_cell_item."""

    _fields_ = [
        ("size", c_size_t),
        ("value", c_double),
        ("word", c_char * 16),
        ("name", c_char * 32),
        ("stage", c_int32),
        ("index", c_int32),
        ("argument", c_int32 * 3),
        ("reserved", c_int32),
    ]


class Desc(Sized):
    """ecornn_desc."""

    _fields_ = [
        ("size", c_size_t),
        ("cell", c_void_p),
        ("memory_limit", c_uint64),
        ("flags", c_uint32),
        ("steps", c_int32),
        ("batch", c_int32),
        ("input", c_int32),
        ("hidden", c_int32),
        ("proj", c_int32),
        ("layers", c_int32),
        ("type", c_int),
        ("param_type", c_int),
        ("weight_type", c_int),
        ("save_type", c_int),
        ("save_every", c_int32),
        ("models", c_int32),
        ("heads", c_int32),
        ("dropout", c_float),
        ("reserved", c_int32),
        ("measure_seconds", c_double),
        ("key", c_int32),
        ("reserved2", c_int32),
    ]


# ecornn_attention_io
ATTENTION_IO = "size:N lengths:P query:P keys:P values:P vector:P context:P probs:P workspace:P reserve:P stream:P workspace_bytes:N reserve_bytes:N"

# ecornn_attention_gradient
ATTENTION_GRADIENT = "size:N dcontext:P dprobs:P dquery:P dkeys:P dvalues:P dvector:P add:i reserved:i"
