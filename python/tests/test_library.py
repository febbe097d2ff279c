"""Where the C library comes from. Each case is a process, because a library is loaded once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = os.environ.get("ECORNN_LIBRARY", "")
PACKAGE = Path(__file__).resolve().parent.parent / "ecornn"
NAME = re.search('^NAME = "(.*)"', (PACKAGE / "_library.py").read_text(), re.M)[1]
SAYS = "from ecornn import _library; print(_library.path)"

needs_path = pytest.mark.skipif(not os.path.isabs(LIBRARY), reason="ECORNN_LIBRARY is no path")


def says(packages: Path, library: str | None, text: str = SAYS) -> subprocess.CompletedProcess:
    """Runs a program that finds the package in that folder, with that ECORNN_LIBRARY."""
    environment = {name: value for name, value in os.environ.items() if name != "ECORNN_LIBRARY"}
    environment.update(PYTHONPATH=str(packages), PYTHONDONTWRITEBYTECODE="1")
    if library is not None:
        environment["ECORNN_LIBRARY"] = library
    return subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd="/", capture_output=True, text=True
    )


def installed(folder: Path) -> Path:
    """A package as a wheel installs it: with the library inside."""
    (folder / "ecornn" / "lib").mkdir(parents=True)
    for path in PACKAGE.glob("*.py"):
        (folder / "ecornn" / path.name).write_bytes(path.read_bytes())
    (folder / "ecornn" / "lib" / NAME).symlink_to(LIBRARY)
    return folder


@needs_path
def test_the_environment_comes_first(tmp_path):
    done = says(installed(tmp_path), LIBRARY)
    assert done.stdout.strip() == LIBRARY


@needs_path
def test_the_packages_own_comes_next(tmp_path):
    done = says(installed(tmp_path), None)
    assert done.stdout.strip() == str(tmp_path / "ecornn" / "lib" / NAME)


@needs_path
def test_the_systems_where_asked_for(tmp_path):
    done = says(installed(tmp_path), "system")
    assert done.stdout.strip() == NAME or "set ECORNN_LIBRARY" in done.stderr


def test_a_library_that_is_not_there(tmp_path):
    done = says(PACKAGE.parent, str(tmp_path / "none.so"))
    assert done.returncode != 0
    assert "no libecornn" in done.stderr and "none.so" in done.stderr


def test_a_library_of_something_else():
    done = says(PACKAGE.parent, "libm.so.6")
    assert done.returncode != 0
    assert "libm.so.6 has no ecornn_version" in done.stderr


@needs_path
def test_the_module_of_a_package(tmp_path):
    """The package ecornn_cu13, installed with it, names the path of the module for GPUs."""
    packages = installed(tmp_path)
    (packages / "ecornn_cu13" / "lib").mkdir(parents=True)
    (packages / "ecornn_cu13" / "__init__.py").write_text("")
    (packages / "ecornn_cu13" / "lib" / "ecornn-cuda.so").write_text("")
    text = "import os, ecornn; print(os.environ.get('ECORNN_MODULE_DIR'))"
    environment = os.environ.pop("ECORNN_MODULE_DIR", None)
    try:
        done = says(packages, None, text)
    finally:
        if environment is not None:
            os.environ["ECORNN_MODULE_DIR"] = environment
    assert done.stdout.strip() == str(packages / "ecornn_cu13" / "lib")
