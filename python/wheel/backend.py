"""The source distribution for PyPI, and what pip builds from one (PEP 517): configure and `make wheel`.

`backend.py TARBALL FOLDER` writes it from the tarball of `make dist`: the same files and PKG-INFO.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import build
import pack

ROOT = build.ROOT


def sdist(tarball: Path, folder: Path) -> Path:
    """Writes ecornn-VERSION.tar.gz; the same tarball gives the same bytes."""
    version = re.search(r"ecornn-(.*)\.tar\.xz$", tarball.name)[1]
    fields = build.fields(build.SUMMARY, "Apache-2.0", ["numpy"], [])
    text = (ROOT / "python" / "README.md").read_text()
    about = pack.metadata("ecornn", version, fields, text)
    path = folder / f"ecornn-{version}.tar.gz"
    with tarfile.open(tarball) as source, path.open("wb") as file:
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target:
                for member in source:
                    target.addfile(member, source.extractfile(member) if member.isreg() else None)
                info = tarfile.TarInfo(f"ecornn-{version}/PKG-INFO")
                info.size, info.mtime = len(about), member.mtime
                target.addfile(info, io.BytesIO(about))
    return path


def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    """pip calls this in the unpacked source distribution, or in a checkout; one that is configured in its own
    folder builds there, as it is configured."""
    configured = (ROOT / "config.status").exists()
    bootstrap = [] if (ROOT / "configure").exists() else [[ROOT / "autogen.sh"]]
    jobs = f"-j{os.cpu_count()}"
    with tempfile.TemporaryDirectory() as folder:
        configure = [*bootstrap, [ROOT / "configure", "-q", "--without-cuda", "CFLAGS=-O2"]]
        make = ["make", "-s", jobs, "wheel", "WHEEL_MORE=", "WHEEL_MORE_FLAGS=", f"WHEEL_OUT={folder}/out"]
        for command in (*([] if configured else configure), [*make, f"PYTHON={sys.executable}"]):
            if subprocess.run(command, cwd=ROOT if configured else folder).returncode != 0:
                raise SystemExit(f"{command[0]} failed: see the lines above")
        wheel = next(Path(folder, "out").glob("ecornn-*.whl"))
        Path(wheel_directory, wheel.name).write_bytes(wheel.read_bytes())
    return wheel.name


if __name__ == "__main__":
    print(sdist(Path(sys.argv[1]), Path(sys.argv[2])))
