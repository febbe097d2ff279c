"""The Python of the tutorial and of the README runs, block by block as a reader would, and learns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

TREE = Path(__file__).resolve().parents[2]
if not (TREE / "README.md").exists():
    pytest.skip("no documents beside this test", allow_module_level=True)


def run_page(page: str, count: int) -> dict:
    """Runs the page's Python blocks, which must be `count`, and returns their variables."""
    text = (TREE / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    assert len(blocks) == count
    names: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


def test_readme() -> None:
    names = run_page("README.md", 2)
    assert names["rnn"](names["torch"].zeros(5, 2, 64))[0].shape == (5, 2, 128)


def test_tutorial() -> None:
    names = run_page("doc/guide/tutorial-python.md", 6)
    assert names["losses"][-1] < names["losses"][0]
    assert names["grads"].parameters
