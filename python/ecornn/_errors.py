"""Exceptions: one for each status of the library, with the library's line of detail."""

from __future__ import annotations

import reprlib


def printable(text: object) -> str:
    r"""A text as one line that a terminal shows as it is.

    >>> printable("a\n\x1b[1m")
    'a\\n\\x1b[1m'
    """
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in str(text))


def quoted(value: object) -> str:
    """The value as Python writes it, on one line; a long text lacks its middle."""
    if not isinstance(value, str):
        return reprlib.repr(value)
    text = repr(value if len(value) <= 2 * _LONG else value[:_LONG] + value[-_LONG:])
    return text if len(text) <= _LONG else f"{text[:_LONG // 2]}...{text[-_LONG // 2:]}"


_LONG = 100  # characters


class Error(RuntimeError):
    """A call of the library failed.  The message, one line, is the library's detail: value and limit."""

    def __init__(self, *message: object):
        super().__init__(*map(printable, message))


class BadArgument(Error, ValueError):
    """A value is wrong.  The message names it and its limit."""


class BadCell(Error, ValueError):
    """A cell's text is wrong.  The message begins with line:column."""


class NoMemory(Error, MemoryError):
    """An allocation failed; nothing was changed."""


class NoDevice(Error):
    """This machine has no such device, or its driver or module is missing."""


class Unsupported(Error, NotImplementedError):
    """Legal, but no algorithm of this device supports it."""


# Indexed by ecornn_status.
BY_STATUS = {1: BadArgument, 2: BadCell, 3: NoMemory, 4: NoDevice, 5: Unsupported}
