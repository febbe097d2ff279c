"""What several of the package's tests use."""

from __future__ import annotations

import threading

import pytest


@pytest.fixture
def runs(monkeypatch):
    """A list that grows by one with every run of torch's layers by the library."""
    from ecornn.torch import _run

    found, forward = [], _run.forward
    monkeypatch.setattr(_run, "forward",
                        lambda *args, **more: found.append(1) or forward(*args, **more))
    return found


@pytest.fixture
def in_threads():
    """Calls work(k) in four threads, k = 0..3; what one raises is raised."""

    def call(work):
        failures = []

        def guarded(k):
            try:
                work(k)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=guarded, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for failure in failures:
            raise failure

    return call
