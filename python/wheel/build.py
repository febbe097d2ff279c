"""Wheels of the Python package from what make built: `make wheel` calls this.

`ecornn` has the package and the library for CPUs in one file: OpenBLAS is linked into it, under
names that nobody else sees, and GCC's libgomp lies beside it.  `ecornn-cu13` (or cu12) has the
module for GPUs; NVIDIA's libraries come from NVIDIA's own packages.  `ecornn-onnxruntime` has the
plug-in for ONNX Runtime.  All are for every Python from 3.9 on: nothing in them is compiled against
Python.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from pathlib import Path

import fetch
import link
import pack

MEGABYTE = 1 << 20
MOST = {"ecornn": 15 * MEGABYTE, "module": 100 * MEGABYTE}  # bytes; PyPI takes no more than 100 MB
ROOT = link.HERE.parent.parent
SUMMARY = "Recurrent layers, fused, on CPUs and NVIDIA GPUs"

# Where distributions keep the terms of what is linked in.
OPENBLAS_TERMS = ("/usr/share/doc/libopenblas*/copyright", "/usr/share/licenses/openblas*/*")
GPL_TERMS = ("/usr/share/common-licenses/GPL-3", "/usr/share/licenses/*/*GPL*3*")

# What the module needs of NVIDIA's packages, by CUDA's generation, and where those put libraries.
NVIDIA = {
    "13": (["nvidia-cublas>=13,<14", "nvidia-cuda-nvrtc>=13,<14"], ["cu13/lib"]),
    "12": (
        ["nvidia-cublas-cu12>=12,<13", "nvidia-cuda-nvrtc-cu12>=12,<13"],
        ["cublas/lib", "cuda_nvrtc/lib"],
    ),
}
PLUGIN_TEXT = '''"""The plug-in of ecornn for ONNX Runtime 1.23 and later:

onnxruntime.register_execution_provider_library("ecornn", ecornn_onnxruntime.get_library_path())
"""
from pathlib import Path


def get_library_path() -> str:
    """The library that ONNX Runtime loads."""
    return str(Path(__file__).parent / "lib" / "ecornn-ort.so")


def get_ep_name() -> str:
    """The name of its execution provider: ep_name of its devices."""
    return "EcornnExecutionProvider"
'''
MODULE_TEXT = '''"""The module for NVIDIA GPUs of ecornn: lib/ecornn-cuda.so, which ecornn finds by itself."""
'''


def in_libs(part: str) -> str:
    """What libtool links in place of an .la or .lo of this build."""
    path = Path(part)
    return str(path.parent / ".libs" / path.with_suffix({".la": ".a", ".lo": ".o"}[path.suffix]).name)


def terms(patterns: tuple[str, ...], what: str) -> bytes:
    """The first file that one of the patterns finds."""
    for pattern in patterns:
        for path in sorted(Path("/").glob(pattern[1:])):
            return path.read_bytes()
    raise SystemExit(f"no terms of {what} in {' or '.join(patterns)}")


def fields(summary: str, licence: str, needs: list[str], licences: list[str]):
    """Fields of METADATA that both wheels have."""
    # No home page: the project states none.
    author = re.search(r'^authors:\n  - name: "(.*)"', (ROOT / "CITATION.cff").read_text(), re.M)
    most = [("Summary", summary), ("Author", author[1]), ("License-Expression", licence)]
    most += [("License-File", name) for name in licences]
    most += [("Requires-Python", ">=3.9")]
    return most + [("Requires-Dist", need) for need in needs]


def package_files() -> dict[str, bytes]:
    """The package's own files, as they are installed."""
    root = ROOT / "python"
    paths = [path for path in (root / "ecornn").rglob("*") if path.suffix in (".py", ".pyi", ".typed")]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def framework_module(options: argparse.Namespace, name: str, parts: list[str]) -> bytes:
    """Runs of layers on addresses, as operators of torch, or as handlers of XLA for jax."""
    module, exported = Path(options.work) / f"ecornn-{name}.so", Path(options.work) / f"{name}.map"
    exported.write_text(f"{{ global: ecornn_{name}_*; local: *; }};\n")
    link.link(module, [*map(in_libs, parts)], exported, [], options.cc)
    return module.read_bytes()


def soname(options: argparse.Namespace) -> str:
    return "libecornn.so." + options.version.partition(".")[0]


def library_wheel(options: argparse.Namespace) -> Path:
    """The wheel `ecornn`."""
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    gomp, exception = fetch.libgomp(options.machine)
    (work / "libgomp.so.1").write_bytes(gomp)
    library = work / soname(options)
    if b"GOMP_parallel" not in Path(options.blas).read_bytes():
        unfit(f"{options.blas} is not OpenBLAS with OpenMP (Debian: libopenblas-openmp-dev)")
    ours = ["-Wl,--whole-archive", *map(in_libs, options.library), "-Wl,--no-whole-archive"]
    beside = [str(work / "libgomp.so.1"), "-Wl,-rpath,$ORIGIN"]
    link.link(library, [*ours, options.blas], Path("lib/ecornn.map"), beside, options.cc)
    files = package_files()
    files[f"ecornn/lib/{library.name}"] = library.read_bytes()
    files["ecornn/lib/libgomp.so.1"] = gomp
    for name, parts in (("run", options.run), ("torch", options.torch), ("jax", options.jax)):
        files[f"ecornn/lib/ecornn-{name}.so"] = framework_module(options, name, parts)
    licences = {
        "COPYING": (ROOT / "COPYING").read_bytes(),
        "OpenBLAS": terms(OPENBLAS_TERMS, "OpenBLAS"),
        "libgomp": exception.rstrip() + b"\n\n" + terms(GPL_TERMS, "the GPL, version 3"),
    }
    licence = "Apache-2.0 AND BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1"
    extras = [("Provides-Extra", name) for name in ("torch", "cu12", "cu13")]
    needs = ["numpy", 'torch; extra == "torch"']
    needs += [f'ecornn-cu{n}=={options.version}; extra == "cu{n}"' for n in (12, 13)]
    about = {f"licenses/{name}": text for name, text in licences.items()}
    text = (ROOT / "python" / "README.md").read_text()
    about["METADATA"] = pack.metadata(
        "ecornn", options.version, fields(SUMMARY, licence, needs, sorted(licences)) + extras, text
    )
    return pack.write(Path(options.out), "ecornn", options.version, options.machine, files, about)


def module_wheel(options: argparse.Namespace) -> Path:
    """The wheel `ecornn-cu13`, or of another generation of CUDA."""
    work = Path(options.work)
    cublas = Path(options.cuda) / "libcublas.so"
    generation = re.search(r"libcublas\.so\.(\d+)", link.run("readelf", "-d", cublas))[1]
    needs, folders = NVIDIA[generation]
    module, exported = work / "ecornn-cuda.so", work / "module.map"
    exported.write_text("{ global: eco_module_open; local: *; };\n")
    objects = [*map(in_libs, options.module), str(Path(options.cuda) / "libcudart_static.a")]
    paths = [f"-Wl,-rpath,$ORIGIN/../../nvidia/{folder}" for folder in folders]
    libraries = [f"-L{options.cuda}", "-lcublasLt", "-lcublas", "-lstdc++"]
    link.link(module, objects, exported, [*libraries, *paths], options.cc)
    name, package = f"ecornn-cu{generation}", f"ecornn_cu{generation}"
    files = {f"{package}/__init__.py": MODULE_TEXT.encode()}
    files[f"{package}/lib/ecornn-cuda.so"] = module.read_bytes()
    summary = f"The module of ecornn for NVIDIA GPUs, CUDA {generation}"
    needs = [f"ecornn=={options.version}", *needs]
    text = f"Install it with `pip install ecornn-cu{generation}`; `ecornn` finds it by itself.\n"
    about = {"licenses/COPYING": (ROOT / "COPYING").read_bytes()}
    about["METADATA"] = pack.metadata(
        name, options.version, fields(summary, "Apache-2.0", needs, ["COPYING"]), text
    )
    return pack.write(Path(options.out), name, options.version, options.machine, files, about)


def plugin_wheel(options: argparse.Namespace) -> Path:
    """The wheel `ecornn-onnxruntime`, which runs the library of `ecornn`."""
    work = Path(options.work)
    plugin, exported = work / "ecornn-ort.so", work / "ort.map"
    exported.write_text("{ global: CreateEpFactories; ReleaseEpFactory; local: *; };\n")
    beside = [str(work / soname(options)), "-Wl,-rpath,$ORIGIN/../../ecornn/lib"]
    link.link(plugin, [*map(in_libs, options.ort)], exported, beside, options.cc)
    files = {"ecornn_onnxruntime/__init__.py": PLUGIN_TEXT.encode()}
    files["ecornn_onnxruntime/lib/ecornn-ort.so"] = plugin.read_bytes()
    about = {"licenses/COPYING": (ROOT / "COPYING").read_bytes()}
    summary = "Recurrent nodes of ONNX Runtime by ecornn"
    # Not onnxruntime: its GPU packages have other names.
    about["METADATA"] = pack.metadata(
        "ecornn-onnxruntime", options.version,
        fields(summary, "Apache-2.0", [f"ecornn=={options.version}"], ["COPYING"]),
        (ROOT / "doc" / "guide" / "onnxruntime.md").read_text(),
    )  # fmt: skip
    return pack.write(Path(options.out), "ecornn-onnxruntime", options.version, options.machine, files, about)


def audit(wheel: Path, most: int) -> None:
    """Stops where the wheel does not run where its tag says, or is too large.

    auditwheel looks for libraries in the wheel alone, not on this system, which may have another ecornn.
    NVIDIA's libraries and ours are in wheels that METADATA asks for: only those may be missing.
    """
    shown = json.loads(link.run(*fetch.auditwheel(), "show", "--json", "--ldpaths", "", wheel))
    upgrades = [more.get("libs_to_eliminate", []) for more in shown["policy_upgrades"].values()]
    outside = {name for names in [shown["external_libs"], *upgrades] for name in names}
    wrong = [f"needs {name}" for name in sorted(outside) if not re.match(r"lib(cublas(Lt)?|ecornn)\.so", name)]
    oldest = tuple(map(int, re.findall(r"\d+", shown["sym_tag"])[:2]))
    wrong += [f"runs only from {shown['sym_tag']} on"] * (oldest > link.OLDEST)
    wrong += ["needs a newer processor"] * shown["unsupported_isa"]
    if wrong:
        raise SystemExit(f"auditwheel: {wheel.name} does not fit its tag: it {', '.join(wrong)}")
    size = wheel.stat().st_size
    print(f"{wheel}: {size / MEGABYTE:.1f} MB; auditwheel: runs from {shown['sym_tag']} on")
    if size > most:
        raise SystemExit(f"{wheel.name} has {size} bytes, more than {most}")


def unfit(why: str) -> None:
    """This build or system makes no wheels: status 77, which is no failure for the test."""
    print(f"no wheels: {why}", file=sys.stderr)
    raise SystemExit(77)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", required=True, help="folder for the wheels")
    parser.add_argument("--work", required=True, help="folder for what is linked")
    parser.add_argument("--cc", required=True, type=shlex.split)
    parser.add_argument("--flags", default="", help="the build's flags, which wheels cannot all take")
    parser.add_argument("--blas", default="", help="an archive: OpenBLAS with OpenMP")
    parser.add_argument("--library", required=True, type=shlex.split, help="its parts, .la")
    parser.add_argument("--run", required=True, type=shlex.split, help="its parts, .lo")
    parser.add_argument("--torch", required=True, type=shlex.split, help="its parts, .lo")
    parser.add_argument("--jax", required=True, type=shlex.split, help="its parts, .lo")
    parser.add_argument("--ort", default=[], type=shlex.split, help="its parts, .lo")
    parser.add_argument("--module", default=[], type=shlex.split, help="its parts, .lo and .la")
    parser.add_argument("--cuda", default="", help="folder of CUDA's libraries")
    options = parser.parse_args()
    options.machine, _, system = link.run(*options.cc, "-dumpmachine").strip().partition("-")
    if options.machine not in fetch.SOURCE_OF or "linux" not in system:
        unfit(f"they are for Linux on {' and '.join(fetch.SOURCE_OF)}")
    flag = re.search(r"-m(arch|tune|cpu)=\S*|-fsanitize\S*|-flto\S*", options.flags)
    if flag:
        unfit(f"the build has {flag[0]}")
    options.blas = options.blas or str(link.library_file(options.cc, "libopenblas.a"))
    audit(library_wheel(options), MOST["ecornn"])
    if options.ort:
        audit(plugin_wheel(options), MOST["ecornn"])
    if options.module:
        audit(module_wheel(options), MOST["module"])


if __name__ == "__main__":
    main()
