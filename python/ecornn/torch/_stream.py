"""What torch knows of the current CUDA stream, without making an object of it."""

from __future__ import annotations

import torch

# Its cudaStream_t as a number, by the number of the device.
stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)
# Is it being captured into a graph?
capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
