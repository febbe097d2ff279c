"""Locks that fork opens in the new process, where the threads that hold them are missing."""

from __future__ import annotations

import os
import threading
import weakref

_all: weakref.WeakSet = weakref.WeakSet()


def make_lock() -> threading.Lock:
    lock = threading.Lock()
    _all.add(lock)
    return lock


def _open_all() -> None:
    for lock in list(_all):
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_open_all)
