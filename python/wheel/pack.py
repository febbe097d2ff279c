"""Writes a wheel: a zip file with a list of what is in it.  The same files give the same bytes."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

# A zip file holds no earlier day; the time of the build would make every wheel another one.
DATE = (1980, 1, 1, 0, 0, 0)


def metadata(name: str, version: str, fields: list[tuple[str, str]], description: str) -> bytes:
    """The file METADATA: the fields in their order, then the description in Markdown."""
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"{field}: {value}" for field, value in fields]
    lines += ["Description-Content-Type: text/markdown", "", description]
    return "\n".join(lines).encode()


def _hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def write(
    folder: Path, name: str, version: str, machine: str, files: dict[str, bytes], about: dict[str, bytes]
) -> Path:
    """Writes NAME-VERSION-TAG.whl into a folder: files as they are installed, and those about it."""
    tag = f"py3-none-manylinux_2_28_{machine}"
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: ecornn {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries = {path: files[path] for path in sorted(files)}
    entries.update({f"{info}/{path}": about[path] for path in sorted(about)})
    entries[f"{info}/WHEEL"] = wheel.encode()
    record = [f"{path},{_hash(data)},{len(data)}\n" for path, data in entries.items()]
    entries[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for entry, data in entries.items():
            member = zipfile.ZipInfo(entry, DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3  # Unix: the rights below
            member.external_attr = (0o100755 if ".so" in entry else 0o100644) << 16
            file.writestr(member, data, compresslevel=9)
    return path
