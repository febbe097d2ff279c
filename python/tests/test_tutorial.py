"""The Python of the tutorial runs, page by page as a reader would, and learns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = Path(__file__).resolve().parents[2] / "doc" / "guide" / "tutorial-python.md"
if not PAGE.exists():
    pytest.skip("no documents beside this test", allow_module_level=True)


def test_tutorial() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.S | re.M)
    assert len(blocks) == 6
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["losses"][-1] < names["losses"][0]
    assert names["grads"].parameters
