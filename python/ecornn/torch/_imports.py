"""Calls a function once another package's module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of a module."""

    def __init__(self, name: str, work):
        self.name, self.work = name, work

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                self.work(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_imported(name: str, work) -> None:
    """Calls work(module), now or after the module's import."""
    if name in sys.modules:
        work(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, work))
