"""There is one plan for each bucket of T and N, whatever ran before; memory is that of the run."""

from __future__ import annotations

import random
import re

import numpy
import pytest

from ecornn import Layer
from ecornn import _library as lib
from ecornn._library import library
from ecornn._plan import Made, Plans, Shape


def test_bucket():
    bucket = library.ecornn_bucket
    assert [bucket(n) for n in (1, 16, 17, 18, 33, 100, 104, 1000)] == [
        1, 16, 18, 18, 36, 104, 104, 1024]
    for size in range(1, 3000):
        assert size <= bucket(size) <= size * 9 / 8 and bucket(bucket(size)) == bucket(size)
    for power in range(4, 30):
        assert len({bucket(n) for n in range(2**power + 1, 2**(power + 1) + 1,
                                             max(1, 2**power // 64))}) == 8
    assert bucket(2**31 - 1) == 2**31 - 1


def test_a_plan_of_each_bucket():
    plans = Plans(Shape("lstm", 3, 4))
    sizes = range(100, 120)
    made = {plans.get("cpu:1", (steps, 2), (lib.F32, lib.F32), False) for steps in sizes}
    assert {(plan.steps, plan.batch) for plan in made} == {(104, 2), (112, 2), (120, 2)}


def test_a_limit_of_memory_is_of_each_size():
    plans = Plans(Shape("lstm", 3, 4, memory_limit=1 << 20))
    assert plans.get("cpu:1", (100, 2), (lib.F32, lib.F32), True).steps == 100
    assert plans.get("cpu:1", (100, 2), (lib.F32, lib.F32), False).steps == 104


def test_twenty_shapes_take_as_many_plans_as_buckets():
    layer, draw = Layer("gru", 3, 4), random.Random(7)
    shapes = [(draw.randint(17, 40), draw.randint(17, 40)) for _ in range(20)]
    for steps, batch in shapes:
        layer.forward(numpy.ones((steps, batch, 3), numpy.float32)).backward()
    buckets = {(library.ecornn_bucket(steps), library.ecornn_bucket(batch))
               for steps, batch in shapes}
    assert len(buckets) < len(shapes)
    assert len({layer.plan(*shape, training=True).handle for shape in shapes}) == len(buckets)


@pytest.mark.parametrize("training", [False, True])
def test_sizes_are_those_of_the_run(training, monkeypatch):
    """Compared with a plan of its own that makes the same choices: chunks of the bucket's plan may have an
    eighth more rows."""
    shape, draw = Shape("lstm", 24, 32), random.Random(3)
    for _ in range(40):
        steps, batch = draw.randint(1, 200), draw.randint(1, 300)
        near = Plans(shape).get("cpu:2", (steps, batch), (lib.F32, lib.F32), training)
        text, force = str(near).split(" ", 1)[0].rstrip(":"), re.search("ECORNN_FORCE=(.*)", str(near))[1]
        with monkeypatch.context() as patch:
            patch.setenv("ECORNN_FORCE", force)
            own = Made("cpu:2", re.sub("/T.*?/N[0-9]+", f"/T{steps}/N{batch}", text)).most
        workspace, reserve = near.sizes(steps, batch)
        assert workspace <= 9 / 8 * own.workspace_bytes and reserve == own.reserve_bytes, (steps, batch)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_bits_do_not_depend_on_what_ran_before(dtype):
    import torch

    kind = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}[dtype]
    shapes = [(21, 37), (33, 19), (20, 38), (22, 37), (65, 34), (17, 33)]

    def run(layer, steps, batch):
        generator = torch.Generator().manual_seed(steps * 1000 + batch)
        x = torch.randn(steps, batch, 8, generator=generator).to(kind)
        made = layer.forward(x)
        grads = made.backward(torch.ones_like(made.y))
        return [made.y, *made.final, grads.x, torch.from_numpy(grads.parameters.block.copy())]

    def new():
        return Layer("lstm", 8, 12, layers=2, direction="both", dtype=dtype, seed=1)

    alone = {shape: run(new(), *shape) for shape in shapes}
    for order in (shapes, shapes[::-1], sorted(shapes) * 2):
        layer = new()
        for shape in order:
            assert all(map(torch.equal, run(layer, *shape), alone[shape])), (shape, order)
