#!/usr/bin/env python3
"""Compares the machine code of kernels: same_code.py BEFORE AFTER

Both are object files (or cubins), or folders of them.  Kernels are compared by name, over all files
of a side together; what file a kernel is in does not matter.  Needs cuobjdump of the CUDA toolkit.
With --names=no kernels may have new names: then all code of one side must be on the other.
"""
import collections
import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile


def files_of(path):
    if os.path.isfile(path):
        return [path]
    return [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in sorted(names)
            if name.endswith((".o", ".cubin"))]


def cubins_of(path):
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".cubin"):
        return [data]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cuobjdump", "-xelf", "all", os.path.abspath(path)], cwd=folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))]


def sections_of(data):
    """(name, content) of each section of a 64-bit ELF file."""
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    base = headers[names][4]
    for header in headers:
        end = data.index(b"\0", base + header[0])
        yield data[base + header[0]:end].decode(), data[header[4]:header[4] + header[5]]


def kernels_of(path):
    found = {}
    for file in files_of(path):
        for cubin in cubins_of(file):
            architecture = struct.unpack_from("<I", cubin, 0x30)[0]
            for name, code in sections_of(cubin):
                if name.startswith(".text."):
                    # a name with internal linkage has its file's path and a number of that
                    kernel = re.sub(r"_INTERNAL_[0-9a-f]+_\d+_\w+?_cu_[0-9a-f]{8}_\d+", "", name[6:])
                    key = (architecture, kernel)
                    found.setdefault(key, []).append(hashlib.sha256(code).hexdigest())
    return {key: sorted(codes) for key, codes in found.items()}


def main(arguments):
    by_name = "--names=no" not in arguments
    before, after = (kernels_of(path) for path in arguments if not path.startswith("--"))
    count = sum(len(codes) for codes in before.values())
    if count == 0:
        return "no kernels in the first"
    if by_name:
        different = sorted({key for key in before.keys() | after.keys()
                            if before.get(key) != after.get(key)})
    else:
        sides = [collections.Counter(code for codes in side.values() for code in codes)
                 for side in (before, after)]
        apart = (sides[0] - sides[1]) + (sides[1] - sides[0])
        different = sorted(key for side in (before, after) for key, codes in side.items()
                           if any(code in apart for code in codes))
    for architecture, name in different:
        print(f"differs: {name} ({architecture:#x})")
    print(f"{count} kernels, {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
