"""What wheels need from elsewhere, through pip, and kept in the user's cache.

- auditwheel, which says on which systems a wheel runs.
- libgomp, GCC's runtime of OpenMP, as the builders of wheels have it.  A distribution's own needs
  that distribution's glibc.  It comes out of a wheel of scikit-learn, whose hash is pinned here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

SOURCE = "scikit-learn==1.9.1"
# machine: the hash of its wheel, and the name that auditwheel gave the library.
SOURCE_OF = {
    "x86_64": ("52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df", "libgomp-e985bcbb.so.1.0.0"),
    "aarch64": ("4298fcc01b3d8fa9768d36894e99cce0747b3b2dd73bfd80779e393769d0afab", "libgomp-a49a47f9.so.1.0.0"),
}
AUDITWHEEL = "auditwheel==6.8.2"
# It has the plain name of torch's, so a process loads one libgomp, the first, and has one pool of threads.
PLAIN_NAME = b"libgomp.so.1"


def cache() -> Path:
    """The folder for what is downloaded; it is made."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "ecornn" / "wheel"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(*arguments: object) -> None:
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *map(str, arguments)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"pip could not fetch what wheels need: {done.stdout.strip()[-1000:]}")


def auditwheel() -> list[str]:
    """The command; the first time it is installed into an environment of its own."""
    version = "{}.{}".format(*sys.version_info[:2])
    folder = cache() / f"{AUDITWHEEL.replace('==', '-')}-python{version}"
    program = folder / "bin" / "auditwheel"
    if not program.exists():
        venv.create(folder, with_pip=False, clear=True)
        # The program is the last that pip writes: a broken download leaves none.
        python = folder / "bin" / "python"
        site = next(folder.glob("lib/python*/site-packages"))
        _pip("install", "--target", site, AUDITWHEEL)
        program.write_text(f"#!{python}\nfrom auditwheel.main import main\nraise SystemExit(main())\n")
    return [str(folder / "bin" / "python"), str(program)]


def _source(machine: str) -> Path:
    kept = cache() / f"{SOURCE.replace('==', '-')}-{machine}"
    if not any(kept.glob("*.whl")):
        kept.mkdir(exist_ok=True)
        wanted = kept / "requirements"
        wanted.write_text(f"{SOURCE} --hash=sha256:{SOURCE_OF[machine][0]}\n")
        _pip("download", "--no-deps", "--require-hashes", "--only-binary=:all:",
             f"--platform=manylinux_2_28_{machine}", "--python-version=3.11", "-d", kept,
             "-r", wanted)  # fmt: skip
    return next(kept.glob("*.whl"))


def libgomp(machine: str) -> tuple[bytes, bytes]:
    """The library libgomp.so.1 and the terms it comes with."""
    given = SOURCE_OF[machine][1].encode() + b"\0"
    with zipfile.ZipFile(_source(machine)) as wheel:
        names = wheel.namelist()
        library = wheel.read(next(name for name in names if re.search(r"/libgomp.*\.so", name)))
        terms = wheel.read(next(name for name in names if name.endswith("/licenses/COPYING")))
    if library.count(given) != 1:
        raise SystemExit(f"the libgomp of {SOURCE} has another name than it should")
    exception = terms[terms.index(b"GCC RUNTIME LIBRARY EXCEPTION") :].split(b"\n----")[0]
    return library.replace(given, PLAIN_NAME.ljust(len(given), b"\0")), exception
