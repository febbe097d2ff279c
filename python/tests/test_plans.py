"""Plans: made once for each size, and of more steps than asked for where many sizes come."""

from __future__ import annotations

import pytest

from ecornn import _library as lib
from ecornn._plan import Plans, Shape, round_up


def test_round_up():
    assert [round_up(n) for n in (1, 16, 17, 18, 33, 100, 104, 1000)] == [
        1, 16, 18, 18, 36, 104, 104, 1024]
    for size in range(1, 3000):
        assert size <= round_up(size) <= size * 9 / 8 + 1 and round_up(round_up(size)) == round_up(
            size)


@pytest.mark.parametrize("near", [False, True])
def test_plans(near):
    plans = Plans(Shape("lstm", 3, 4))
    get = plans.near if near else plans.get
    made = {get("cpu:1", steps, 2, lib.F32, lib.F32, False) for steps in range(100, 300)}
    assert len(made) == (200 if not near else Plans.EXACT + len(
        {round_up(n) for n in range(100 + Plans.EXACT, 300)}))
    assert len(plans._plans) <= Plans.LIMIT
    again = get("cpu:1", 299, 2, lib.F32, lib.F32, False)
    assert again is get("cpu:1", 299, 2, lib.F32, lib.F32, False)
