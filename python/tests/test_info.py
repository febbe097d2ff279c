"""What the package reports about itself, and that importing it imports nothing else."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import subprocess
import sys

import pytest

import ecornn
from ecornn import _info


def python(*arguments, **environment):
    """The output of another Python that has this one's package and library."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(ecornn.__file__)))
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path, **environment})


def test_info_is_plain_data():
    found = ecornn.info()
    json.dumps(found)
    assert found["version"].startswith(ecornn.__version__)
    assert os.path.exists(found["library"]) and "libecornn" in found["library"]
    devices = {device["device"]: device for device in found["devices"]}
    assert devices["cpu"]["threads"] >= 1 and devices["cpu"]["backend"] == "cpu"
    assert "reference" in devices
    assert (found["no_gpu"] is None) == ("cuda:0" in devices)
    assert found["modules"][-1]["where"] == "beside the library"
    assert all(module["found"] is False or module["folder"] for module in found["modules"])


def test_a_module_s_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ECORNN_MODULE_DIR", str(tmp_path))
    assert ecornn.info()["modules"][0] == {
        "where": "ECORNN_MODULE_DIR", "folder": str(tmp_path), "found": False}
    (tmp_path / "ecornn-cuda.so").touch()
    assert ecornn.info()["modules"][0]["found"]


def test_the_command_prints_and_checks():
    wrong = python("-m", "ecornn", "word")
    assert wrong.returncode == 2 and "takes check, export or no argument, not 'word'" in wrong.stderr
    done = python("-m", "ecornn")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"ecornn {ecornn.__version__}")
    assert lines[1].startswith("library: ")
    assert sum("check: good" in line for line in lines) == sum(
        line.startswith(("cpu:", "cuda:")) for line in lines)


def test_the_command_fails_where_a_device_is_wrong(monkeypatch, capsys):
    main = importlib.import_module("ecornn.__main__")
    for broken, says in ((lambda device: (float("nan"), 1e-5), "BAD"),
                         (lambda device: (1.0, 1e-5), "BAD"), (_fails, "failed: no memory")):
        monkeypatch.setattr(main, "self_check", broken)
        assert main.main() == 1
        assert f"check: {says}" in capsys.readouterr().out


def _fails(device):
    raise ecornn.NoMemory("no memory")


def test_a_check_sees_a_nan(monkeypatch):
    from ecornn.layer import Run
    run = Run.backward

    def spoil(self, *arguments):
        grads = run(self, *arguments)
        if self._job.layer.device == "cpu":
            grads.parameters.block[3] = float("nan")
        return grads

    monkeypatch.setattr(Run, "backward", spoil)
    error, limit = _info.self_check("cpu")
    assert not error <= limit


def test_the_import_brings_nothing():
    code = ("import sys; before = set(sys.modules); import ecornn; "
            "print(*set(sys.modules) - before); "
            "ecornn.Layer; print('torch' in sys.modules)")
    modules, torch = python("-c", code).stdout.splitlines()
    assert torch == "False" and "numpy" not in modules
    assert len(modules.split()) < 60  # the package's four, ctypes, and what that needs


def test_every_name_of_the_package_is_there():
    for name in ecornn.__all__:
        assert getattr(ecornn, name) is not None and name in dir(ecornn)
    with pytest.raises(AttributeError, match="no_such"):
        ecornn.no_such
    assert os.path.exists(os.path.join(os.path.dirname(ecornn.__file__), "py.typed"))


@pytest.mark.parametrize("name", ["_info", "arrays", "results", "cell", "layer", "_run"])
def test_documented_examples_run(name):
    module = importlib.import_module("ecornn." + name)
    assert doctest.testmod(module).failed == 0


def test_a_missing_library_says_where_it_was_looked_for():
    done = python("-c", "import ecornn", ECORNN_LIBRARY="/nowhere/libecornn.so")
    assert done.returncode == 1 and "/nowhere/libecornn.so" in done.stderr
    assert "ECORNN_LIBRARY" in done.stderr
