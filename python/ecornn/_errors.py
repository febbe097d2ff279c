"""Exceptions: one for each status of the library, with the library's line of detail."""

from __future__ import annotations


class Error(RuntimeError):
    """A call of the library failed.  The message is the library's detail: value and limit."""

    status = "failed"


class BadArgument(Error, ValueError):
    """A value is wrong.  The message names it and its limit."""

    status = "bad argument"


class BadCell(Error, ValueError):
    """A cell's text is wrong.  The message begins with line:column."""

    status = "bad cell"


class NoMemory(Error, MemoryError):
    """An allocation failed; nothing was changed."""

    status = "no memory"


class NoDevice(Error):
    """This machine has no such device, or its driver or module is missing."""

    status = "no device"


class Unsupported(Error, NotImplementedError):
    """Legal, but no algorithm of this device supports it."""

    status = "unsupported"


# Indexed by ecornn_status.
BY_STATUS = {1: BadArgument, 2: BadCell, 3: NoMemory, 4: NoDevice, 5: Unsupported}
