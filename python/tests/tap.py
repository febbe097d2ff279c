"""pytest's results as TAP, for make check: `pytest -p tap` writes one line for each case."""

from __future__ import annotations

import pytest


def _line(text: str) -> None:
    # TAP needs separate lines, and pytest may be in the middle of one.
    print(f"\n{text}", flush=True)


class Tap:
    """Counts cases; the plan comes last, so that a run that breaks off has none."""

    def __init__(self) -> None:
        self.cases = 0

    def say(self, ok: bool, name: str, directive: str = "") -> None:
        """One case; a directive is `SKIP why` or `TODO why`."""
        self.cases += 1
        name = name.replace("#", "\\#")
        _line(f"{'ok' if ok else 'not ok'} {self.cases} - {name}{directive and ' # '}{directive}")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report) -> None:
        """A case has ended, or its set-up or tear-down has failed."""
        if report.skipped:
            expected = hasattr(report, "wasxfail")
            why = report.wasxfail if expected else str(report.longrepr[-1])
            self.say(not expected, report.nodeid, f"{'TODO' if expected else 'SKIP'} {why}")
        elif report.when == "call" or report.failed:
            self.say(report.passed, report.nodeid)

    def pytest_collectreport(self, report) -> None:
        """A file that cannot be imported is a failed case; one that skips itself, a skipped one."""
        if report.failed:
            self.say(False, report.nodeid or "collection")
        elif report.skipped:
            self.say(True, report.nodeid, f"SKIP {report.longrepr[-1]}")

    def pytest_sessionfinish(self) -> None:
        """All cases are known."""
        _line(f"1..{self.cases}")


def pytest_configure(config) -> None:
    """Called by pytest when it loads the plugin."""
    if not hasattr(config, "workerinput"):  # the first process writes for those that pytest -n starts
        config.pluginmanager.register(Tap(), "ecornn-tap")
