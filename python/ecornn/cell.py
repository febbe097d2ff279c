"""Cells: what a recurrent layer computes in one step, built in or from text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from . import _plan
from ._errors import BadArgument

_DRAW = re.compile(r"(?<!\w)bernoulli\s*\(")
_ONCE = re.compile(r",\s*once\s*$")


class Cell:
    """A cell, by the name of a built-in one or of one of the library, ``ecornn.cells``, or by its
    text (doc/cells.md has the language).

    Raises BadCell for a text that is wrong; the message begins with line:column, both from 1.
    Raises BadArgument for a name that no such cell has.  Equal texts are equal cells, and the
    parsed form of a text is kept as long as the process lives.

    >>> cell = Cell('''
    ... cell leaky(h)
    ... u  = sigmoid(W x + b)
    ... h' = u * h + (1 - u) * tanh(W x + R h + b)
    ... ''')
    >>> cell
    Cell('leaky', states=1)
    >>> cell.parameters
    (('W', 'u'), ('W', 'h'), ('R', 'h'), ('b', 'u'), ('b', 'h'))
    >>> Cell("lstm").states
    2
    >>> Cell("cell memory(h, m = -1)\\nm' = max(m, W x)\\nh' = m'\\n").starts
    (0.0, -1.0)
    >>> Cell("cell odd(h)\\nh' = f * h\\n")
    Traceback (most recent call last):
        ...
    ecornn._errors.BadCell: 2:6: 'f' has no value yet: lines above may assign one
    """

    __slots__ = ("text", "name", "states", "starts")

    def __init__(self, text: str):
        if not isinstance(text, str):
            raise TypeError(f"cell is {text!r}, must be a str: a cell's name, or a text")
        if "\0" in text:
            raise BadArgument(f"cell is {text[:40]!r}, must be a text without a NUL")
        text = cells.text_of(text)
        try:
            handle = _plan.cell(text)
        except UnicodeEncodeError:
            raise BadArgument(f"cell is {text[:40]!r}, must be a text of UTF-8") from None
        self.text = text
        self.starts: tuple[float, ...] = tuple(state.value for state in _plan.items_of(handle, "state"))
        self.states: int = len(self.starts)
        self.name: str = _plan.items(handle)[0].name

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Kind and line of each parameter, in the order of the block: ``('W', 'i')``.

        Kinds are W [H,I], without the parts of x, R [H,P], and the vectors b and p [H].
        """
        return tuple(tuple(item.name.split(".")) for item in _plan.items_of(_plan.cell(self.text), "parameter"))

    @property
    def parts(self) -> tuple[tuple[str, int | str | None], ...]:
        """Name and size of each part of x, which are the last columns of a row: 1, or None for H; of a
        cell with a matrix state 1, "K" or "V", of each head.

        >>> Cell("cell scored(h; a[1], u[H])\\nh' = tanh(a * u + R h)\\n").parts
        (('a', 1), ('u', None))
        """
        return tuple((name, {"1": 1, "H": None}.get(size, size))
                     for name, size in _plan.parts(self.text))

    @property
    def has_matrix(self) -> bool:
        """Has it a matrix state, [K,V] of each head?"""
        return any(size == "K" for _, size in self.parts)

    @property
    def outputs(self) -> int:
        """How many states y has, side by side: the first ones.

        >>> Cell("cell turn(h, g) -> h, g\\nh' = p * h - g\\ng' = h + W x\\n").outputs
        2
        """
        return _plan.outputs(self.text)

    def __repr__(self) -> str:
        return f"Cell({self.name!r}, states={self.states})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self):
        return Cell, (self.text,)


def _close(text: str, start: int) -> int:
    """Index of the closing parenthesis for the one at `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def expected(text: str) -> str:
    r"""A cell's text with what is expected of each bernoulli() in its place, as out of training.

    >>> expected("cell a(h)\nh' = h * bernoulli(1 - (0.1), once) # bernoulli(p)\n")
    "cell a(h)\nh' = h * (1 - (0.1)) \n"
    """
    if "bernoulli" not in text:
        return text
    rest = "\n".join(line.partition("#")[0] for line in text.split("\n"))
    done, close, rest = rest.partition(")")  # of the head; a cell may have any name
    done += close
    while (draw := _DRAW.search(rest)) is not None:
        end = _close(rest, draw.end())
        done += f"{rest[:draw.start()]}({_ONCE.sub('', rest[draw.end():end])})"
        rest = rest[end + 1:]
    return done + rest


class Cells(Mapping):
    """The library of published cells: their texts by name, with what a cell is, its source and its
    equations as a comment.  Wherever a cell is named, built-in ones come first, then these.  A call
    gives the names of the built-in cells, which have no text here.

    >>> print(cells["lif"].split("\\n")[0])
    # Leaky integrate-and-fire neuron with recurrent weights; a spike subtracts the threshold.
    >>> "lru" in cells, len(cells) >= 40
    (True, True)
    """

    @cached_property
    def _texts(self) -> dict[str, str]:
        return _plan.library_cells()

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __call__(self) -> list[str]:
        return _plan.cell_names()

    def __repr__(self) -> str:
        return f"<{len(self)} cells: {', '.join(self)}>"

    def text_of(self, cell: str) -> str:
        """The text of a cell of the library, for its name; other names and texts as they are.

        >>> cells.text_of("lif") == cells["lif"], cells.text_of("lstm")
        (True, 'lstm')
        """
        return self._texts.get(cell, cell) if isinstance(cell, str) else cell


cells = Cells()
