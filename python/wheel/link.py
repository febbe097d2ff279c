"""Links what the build compiled into a shared library for older systems: glibc 2.28.

A library that is linked on a newer system asks for the newest version of every function of glibc.
Nearly all of those functions have an older version beside it, which does the same.  Here the objects
are joined, their references renamed to the older versions, and then linked.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

OLDEST = (2, 28)
HERE = Path(__file__).resolve().parent

# Functions without an older version, and what stands for them: old_stat.c.
REPLACED = {name: f"eco_old_{name}" for name in ("stat", "lstat", "fstat", "fstatat")}

# Newer headers rename these; the functions of old do the same for what C17 knows.
RENAMED = re.compile(r"^__isoc23_(strto[a-z]+|v?[fs]?scanf)$")

# In these lay what is part of libc.so.6 today.  Both old and new systems have them.
PARTS_OF_OLD = ("libpthread.so.0", "libdl.so.2", "librt.so.1")


def run(*command: object) -> str:
    """The standard output of a command that has to work."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)[:300]}\n{done.stderr.strip()[-3000:]}")
    return done.stdout


def library_file(cc: list[str], name: str) -> Path:
    """Where the compiler finds a library of the system."""
    path = Path(run(*cc, f"-print-file-name={name}").strip())
    if not path.is_absolute():
        raise SystemExit(f"{cc[0]} finds no {name}")
    return path


def tool(cc: list[str], name: str) -> str:
    """The compiler's nm or objcopy."""
    return run(*cc, f"-print-prog-name={name}").strip()


def newest(versions: list[str]) -> str:
    """The newest of GLIBC_2.3.4, ... that OLDEST has; "" if there is none."""
    known = [tuple(map(int, version[6:].split("."))) for version in versions]
    old = max((version for version in known if version <= OLDEST), default=None)
    return "GLIBC_" + ".".join(map(str, old)) if old else ""


def too_new(cc: list[str]) -> dict[str, str]:
    """Functions whose default version is newer than OLDEST: their newest older version or ""."""
    versions: dict[str, list[str]] = {}
    default: dict[str, str] = {}
    for name in ("libc.so.6", "libm.so.6"):
        listed = run(tool(cc, "nm"), "-D", "--defined-only", "--with-symbol-versions", library_file(cc, name))
        for symbol, at, version in re.findall(r" (\w+)(@@?)(GLIBC_[\d.]+)$", listed, re.MULTILINE):
            versions.setdefault(symbol, []).append(version)
            if at == "@@":
                default[symbol] = version
    return {
        symbol: newest(versions[symbol])
        for symbol, version in default.items()
        if newest([version]) == ""
    }


def new_name(symbol: str, newer: dict[str, str]) -> str:
    """What stands for a function that is too new."""
    if symbol in REPLACED:
        return REPLACED[symbol]
    if RENAMED.match(symbol):
        return symbol[len("__isoc23_") :]
    if not newer[symbol]:
        raise SystemExit(f"{symbol} is not in glibc {'.'.join(map(str, OLDEST))}")
    return f"{symbol}@{newer[symbol]}"


def bind(objects: list[str], cc: list[str], folder: Path) -> Path:
    """Joins objects and archives (as the linker takes them) into one whose references are old."""
    shim, joined, names = folder / "old_stat.o", folder / "joined.o", folder / "names"
    run(*cc, "-O2", "-fPIC", "-fvisibility=hidden", "-c", HERE / "old_stat.c", "-o", shim)
    run(*cc, "-r", "-nostdlib", "-o", joined, shim, *objects)
    newer = too_new(cc)
    used = run(tool(cc, "nm"), "--undefined-only", "--format=just-symbols", joined).split()
    pairs = [f"{symbol} {new_name(symbol, newer)}\n" for symbol in used if symbol in newer]
    names.write_text("".join(pairs))
    run(tool(cc, "objcopy"), f"--redefine-syms={names}", joined)
    return joined


def link(
    output: Path, objects: list[str], exported: Path, others: list[str], cc: list[str]
) -> None:
    """Writes the stripped library `output`; its exported names are those of a version script."""
    output.parent.mkdir(parents=True, exist_ok=True)
    joined = bind(objects, cc, output.parent)
    parts = [str(library_file(cc, name)) for name in PARTS_OF_OLD]
    run(
        *cc, "-shared", "-s", "-o", output, f"-Wl,-soname,{output.name}", joined,
        f"-Wl,--version-script={exported}", "-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,-z,relro",
        "-Wl,-z,now", "-Wl,--build-id=none",
        "-Wl,--enable-new-dtags", *others, "-lm", "-Wl,--no-as-needed", *parts,
    )  # fmt: skip
    for left in ("old_stat.o", "joined.o", "names"):
        (output.parent / left).unlink()
