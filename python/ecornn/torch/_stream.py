"""The current CUDA stream, without creating a torch object."""

from __future__ import annotations

import torch

# Its cudaStream_t as a number, by device number.
stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)
# Is it being captured into a graph?
capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
