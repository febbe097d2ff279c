"""Importing ecornn.torch imports no compiler and no ecornn.layer, and torch.compile respects its exclusions when loaded later."""

import subprocess
import sys

import torch

import ecornn.torch as et

IMPORT = """
import sys, torch
assert "torch._dynamo" not in sys.modules
import ecornn.torch as et
layer = et.LSTM(3, 4)
layer(torch.ones(5, 2, 3), mask=torch.ones(5, 2))[0].sum().backward()
et.attention(torch.ones(2, 2, 4), torch.ones(3, 2, 4), torch.ones(3, 2, 4), torch.ones(4))
print(*(name for name in ("torch._dynamo", "torch._inductor", "torch.onnx", "ecornn.layer") if name in sys.modules))
"""


def test_without_the_compiler():
    done = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\n"


def test_compile_goes_around():
    """Runs have masks. The first call is compiled, and the second has other shapes."""
    layer = et.GRU(3, 4)

    def step(x, mask):
        return 2 * layer(x + 1, mask=mask)[0] - 1

    compiled = torch.compile(step, backend="eager")
    for steps in (5, 7, 5):
        given = torch.rand(steps, 2, 3), torch.rand(steps, 2) > 0.5
        assert torch.equal(compiled(*given), step(*given))
