"""Times and memory of per-row gradients of an LSTM: Opacus's DPLSTM and ecornn's layer, a process each.

    python time_per_row.py [T N I H]...          needs opacus
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import torch


def run(which: str, steps: int, batch: int, input: int, hidden: int) -> str:
    """The line of one implementation, in this process."""
    from opacus.grad_sample import GradSampleModule
    from opacus.layers import DPLSTM

    import ecornn.torch

    torch.set_num_threads(1)
    ecornn.torch.register_opacus()
    kind = ecornn.torch.LSTM if which == "ecornn" else DPLSTM
    module = GradSampleModule(kind(input, hidden, batch_first=True))
    x, times = torch.randn(batch, steps, input), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while len(times) < 3 or sum(times) < 3 and len(times) < 25:
        start = time.perf_counter()
        module(x)[0].square().sum().backward()
        times.append(time.perf_counter() - start)
        module.zero_grad()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    return f"{which:8} {sorted(times)[len(times) // 2] * 1e3:9.1f} ms {memory:6} MB more"


if __name__ == "__main__":
    if sys.argv[1] in ("ecornn", "opacus"):
        print(run(sys.argv[1], *map(int, sys.argv[2:])))
    else:
        for first in range(1, len(sys.argv), 4):
            sizes = sys.argv[first:first + 4]
            print("T{} N{} I{} H{}".format(*sizes), flush=True)
            for which in ("opacus", "ecornn"):
                subprocess.run([sys.executable, "-W", "ignore", __file__, which, *sizes], check=True)
