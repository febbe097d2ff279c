"""A layer under jit against lax.scan, on a CPU or GPU: forward, and gradients of all parameters and x.

    python time_jax.py [--threads 1] [--device cpu] [--cells lstm,gru] [--batch 1,8,32]
                       [--hidden 16,64,256] [--seconds 0.5]

T is 128 and I is H.  Milliseconds, medians of alternating calls.  The scan multiplies x by W for all
steps at once; the better of 1 and 8 steps unrolled counts, and each time is shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

T = 128


def scan_of(cell: str, unroll: int):
    """A layer by lax.scan on the same parameters: y of x."""
    import jax
    import jax.numpy as jnp

    def joined(p, kind, gates):
        return jnp.concatenate([p[f"0.fwd.{kind}.{gate}"] for gate in gates])

    def lstm(p, x):
        gates = "ifgo"
        R, sums = joined(p, "R", gates), x @ joined(p, "W", gates).T + joined(p, "b", gates)

        def step(carry, sum):
            h, c = carry
            i, f, g, o = jnp.split(sum + h @ R.T, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((x.shape[1], R.shape[1]), x.dtype)
        return jax.lax.scan(step, (zeros, zeros), sums, unroll=unroll)[1]

    def gru(p, x):
        W, R = joined(p, "W", ("r", "z", "n")), joined(p, "R", ("r", "z", "q"))
        b, bq = joined(p, "b", ("r", "z", "n")), p["0.fwd.b.q"]
        sums = x @ W.T + b

        def step(h, sum):
            r, z, n = jnp.split(sum, 3, axis=-1)
            rh, zh, q = jnp.split(h @ R.T, 3, axis=-1)
            r, z = jax.nn.sigmoid(r + rh), jax.nn.sigmoid(z + zh)
            h = (1 - z) * jnp.tanh(n + r * (q + bq)) + z * h
            return h, h

        return jax.lax.scan(step, jnp.zeros((x.shape[1], R.shape[1]), x.dtype), sums,
                            unroll=unroll)[1]

    return {"lstm": lstm, "gru": gru}[cell]


def alternate(calls, seconds: float) -> list[float]:
    """Median milliseconds of each call."""
    import jax

    found = [[] for _ in calls]
    for call in calls:
        jax.block_until_ready(call())
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for call, times in zip(calls, found):
            for _ in range(3):  # the first finds the other's data in the caches
                start = time.perf_counter()
                jax.block_until_ready(call())
                last = time.perf_counter() - start
            times.append(last * 1e3)
    return [statistics.median(times) for times in found]


def row(cell: str, batch: int, hidden: int, device: str, seconds: float) -> list[float]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import ecornn.jax
    from ecornn import Layer

    layer = Layer(cell, hidden, hidden, device=device)
    p = ecornn.jax.parameters(layer)
    x = jnp.asarray(np.random.default_rng(0).standard_normal((T, batch, hidden)), jnp.float32)
    ratios = []
    runs = [lambda p, x: ecornn.jax.run(layer, p, x)[0], scan_of(cell, 1), scan_of(cell, 8)]
    for a, b in zip(runs, runs[1:]):
        assert float(jnp.abs(a(p, x) - b(p, x)).max()) < 1e-3
    for name, made in (("forward", runs), ("gradient", [
            jax.grad(lambda p, x, run=run: jnp.sum(run(p, x) ** 2), argnums=(0, 1))
            for run in runs])):
        ready = [jax.jit(each) for each in made]
        ours, plain, unrolled = alternate([lambda f=f: f(p, x) for f in ready], seconds)
        ratios.append(min(plain, unrolled) / ours)
        print(f"{cell:4} N{batch:<3} H{hidden:<4} {name:8}  ours {ours:8.3f}  scan {plain:8.3f}  "
              f"unrolled {unrolled:8.3f}  {ratios[-1]:5.2f} times", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cells", default="lstm,gru")
    parser.add_argument("--batch", default="1,8,32")
    parser.add_argument("--hidden", default="16,64,256")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    found = [ratio for cell in options.cells.split(",") for batch in options.batch.split(",")
             for hidden in options.hidden.split(",")
             for ratio in row(cell, int(batch), int(hidden), options.device, options.seconds)]
    print(f"{options.device}, {options.threads} threads: {min(found):.2f} to {max(found):.2f} times, "
          f"median {statistics.median(found):.2f}")


if __name__ == "__main__":
    main()
