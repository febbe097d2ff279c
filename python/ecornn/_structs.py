"""Constants and structures of the public headers, written by python/mirrors.py: do not edit."""

import struct
from ctypes import Structure, c_char, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

OK = 0
BAD_ARGUMENT = 1
BAD_CELL = 2
NO_MEMORY = 3
NO_DEVICE = 4
UNSUPPORTED = 5
FAILED = 6
MAX_STATES = 4
F32 = 0
F64 = 1
BF16 = 2
F16 = 3
S8 = 4
FORWARD = 0
REVERSE = 1
BIDIRECTIONAL = 2
TIME_MAJOR = 0
BATCH_MAJOR = 1
SAVE_ALL = 0
SAVE_STATES = 1
SAVE_EVERY = 2
TRAINING = 1
FAST_MATH = 2
ROW_INVARIANT = 4
RESETS = 8
MASK = 16
REPEAT_PADDING = 32
ALL_STATES = 64
SHARED_INPUT = 128
GROUPED_INPUT = 256
INT8 = 512
ALL = -1


class DeviceInfo(Structure):
    """ecornn_device_info."""

    _fields_ = [
        ("name", c_char * 64),
        ("backend", c_char * 16),
        ("variant", c_char * 16),
        ("threads", c_int32),
        ("memory_bytes", c_size_t),
        ("reserved", c_uint32 * 8),
    ]


class Desc(Structure):
    """ecornn_desc."""

    _fields_ = [
        ("cell", c_void_p),
        ("input", c_int32),
        ("hidden", c_int32),
        ("proj", c_int32),
        ("layers", c_int32),
        ("steps", c_int32),
        ("batch", c_int32),
        ("direction", c_int),
        ("order", c_int),
        ("type", c_int),
        ("param_type", c_int),
        ("weight_type", c_int),
        ("dropout", c_float),
        ("flags", c_uint32),
        ("save", c_int),
        ("memory_limit", c_uint64),
        ("save_every", c_int32),
        ("save_type", c_int),
        ("models", c_int32),
        ("heads", c_int32),
        ("reserved", c_uint32 * 1),
    ]


class Sizes(Structure):
    """ecornn_sizes."""

    _fields_ = [
        ("params", c_size_t),
        ("weights", c_size_t),
        ("dweights", c_size_t),
        ("workspace", c_size_t),
        ("reserve", c_size_t),
        ("alignment", c_size_t),
    ]


class Param(Structure):
    """ecornn_param."""

    _fields_ = [
        ("name", c_char * 48),
        ("offset", c_size_t),
        ("rows", c_int32),
        ("cols", c_int32),
    ]


# ecornn_io: size, steps, batch, lengths, x, y, initial, final, weights, workspace, reserve, seed, stream, workspace_bytes, reserve_bytes, resets, reset_state, mask, states, first_step, first_row
IO = struct.Struct("@NiiPPP4P4PPPPQPNNP4PP4PII0P")

# ecornn_gradient: size, dy, dfinal, dx, dinitial, dweights, accumulate, dreset_state, dstates
GRADIENT = struct.Struct("@NP4PP4PPi4P4P0P")


class AttentionDesc(Structure):
    """ecornn_attention_desc."""

    _fields_ = [
        ("steps", c_int32),
        ("source", c_int32),
        ("batch", c_int32),
        ("hidden", c_int32),
        ("value", c_int32),
        ("order", c_int),
        ("type", c_int),
        ("flags", c_uint32),
        ("reserved", c_uint32 * 8),
    ]


class AttentionSizes(Structure):
    """ecornn_attention_sizes."""

    _fields_ = [
        ("workspace", c_size_t),
        ("reserve", c_size_t),
        ("alignment", c_size_t),
    ]


# ecornn_attention_io: size, steps, source, batch, lengths, query, keys, values, vector, context, weights, workspace, reserve, stream, workspace_bytes, reserve_bytes
ATTENTION_IO = struct.Struct("@NiiiPPPPPPPPPPNN0P")

# ecornn_attention_gradient: size, dcontext, dweights, dquery, dkeys, dvalues, dvector, accumulate
ATTENTION_GRADIENT = struct.Struct("@NPPPPPPi0P")


class NetSizes(Structure):
    """ecornn_net_sizes."""

    _fields_ = [
        ("blocks", Sizes),
        ("layers", c_int32),
        ("params", c_int32),
        ("steps", c_int32),
        ("batch", c_int32),
        ("input", c_int32),
        ("joined", c_int32),
        ("output", c_int32),
    ]


class NetLayer(Structure):
    """ecornn_net_layer."""

    _fields_ = [
        ("plan", c_void_p),
        ("steps", c_int32),
        ("input", c_int32),
        ("output", c_int32),
        ("first_param", c_int32),
        ("params", c_size_t),
        ("weights", c_size_t),
        ("dweights", c_size_t),
    ]


class NetStates(Structure):
    """ecornn_net_states."""

    _fields_ = [
        ("initial", c_void_p * 4),
        ("final", c_void_p * 4),
        ("reset_state", c_void_p * 4),
        ("states", c_void_p * 4),
        ("dfinal", c_void_p * 4),
        ("dinitial", c_void_p * 4),
        ("dreset_state", c_void_p * 4),
        ("dstates", c_void_p * 4),
    ]


class TangentSizes(Structure):
    """ecornn_tangent_sizes."""

    _fields_ = [
        ("params", c_size_t),
        ("workspace", c_size_t),
        ("alignment", c_size_t),
    ]


# ecornn_tangent_io: size, steps, batch, lengths, x, x_tangent, initial, initial_tangent, params, param_tangents, y, y_tangent, final, final_tangent, dy, dy_tangent, dfinal, dfinal_tangent, dx, dinitial, dparams, workspace, seed, stream, resets, mask, reset_state, reset_state_tangent, dreset_state, first_step, first_row
TANGENT_IO = struct.Struct("@NiiPPP4P4PPPPP4P4PPP4P4PP4PPPQPPP4P4P4PII0P")
