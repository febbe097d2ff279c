#!/usr/bin/env python3
"""Writes python/ecornn/_structs.py, the constants and structures of the public headers, for ctypes.

    python/mirrors.py            writes the file
    python/mirrors.py --check    says whether it is up to date

The file is committed, since wheels are installed without a compiler; tests/build/mirrors.sh compares it.
A structure of runs is packed by one call of struct.pack and becomes names and letters for it: a ctypes.Structure
costs as much for every field. All others become ctypes.Structures, which know their size.
"""
import os
import re
import sys

HEADERS = ["ecornn/types.h", "ecornn.h", "ecornn/experimental.h"]
# Structures of runs, which are packed by one call.
PACKED = {"io", "gradient", "attention_io", "attention_gradient"}
# For each type of C the one of ctypes and struct's letter for it.
TYPES = {"char": ("c_char", "s"), "float": ("c_float", "f"), "double": ("c_double", "d"),
         "int32_t": ("c_int32", "i"),
         "uint32_t": ("c_uint32", "I"), "uint64_t": ("c_uint64", "Q"), "size_t": ("c_size_t", "N")}
POINTER, ENUM = ("c_void_p", "P"), ("c_int", "i")

HEAD = '''"""Constants and structures of the public headers, written by python/mirrors.py: do not edit."""

from ctypes import (Structure, c_char, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64,
                    c_void_p, sizeof)


class Sized(Structure):
    """A structure whose first field is its size."""

    def __init__(self, **fields):
        super().__init__(size=sizeof(self), **fields)


'''


def read(folder):
    """The text of the headers without comments."""
    text = "".join(open(os.path.join(folder, name), encoding="utf-8").read() for name in HEADERS)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("struct ecornn_", "ecornn_")


def enumerators(text):
    """(name, value) of every enumerator, in order."""
    for name, value in re.findall(r"#define ECORNN_(\w+) (\d+)\n", text):
        yield name, int(value)
    for body in re.findall(r"\benum \{(.*?)\}", text, re.S):
        value = -1
        for item in filter(None, (part.strip() for part in body.split(","))):
            name, _, given = (part.strip() for part in item.partition("="))
            value = eval(re.sub(r"(\d)u\b", r"\1", given)) if given else value + 1
            yield name.removeprefix("ECORNN_"), value


def fields(body, constants, enums, known):
    """(name, type for ctypes, format of struct) of every field of a structure."""
    for declaration in filter(None, (line.strip() for line in body.split(";"))):
        found = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", declaration, re.S)
        type_, name, count = (found.group(1).replace("const ", "").strip(), found.group(2), found.group(3))
        if count:
            count = int(count) if count.isdigit() else constants[count.removeprefix("ECORNN_")]
        if type_ in known:
            kind = (known[type_], None)
        else:
            kind = POINTER if "*" in type_ else ENUM if type_ in enums else TYPES[type_]
        yield name, kind[0] + (f" * {count}" if count else ""), f"{count or ''}{kind[1]}"


def write(text):
    """The Python source."""
    constants, known = dict(enumerators(text)), {}
    enums = re.findall(r"typedef enum \{[^}]*\} (\w+);", text)
    lines = [f"{name} = {value}" for name, value in constants.items()]
    for body, name in re.findall(r"typedef (?:struct|ecornn_\w+) \{([^}]*)\} (\w+);", text):
        listed = list(fields(body, constants, enums, known))
        short = name.removeprefix("ecornn_")
        if short in PACKED:
            said = " ".join(f"{field}:{letter}" for field, _, letter in listed)
            lines += ["", f"# {name}", f'{short.upper()} = "{said}"']
            continue
        known[name] = "".join(word.capitalize() for word in short.split("_"))
        lines += ["", "", f"class {known[name]}(Sized):", f'    """{name}."""', "", "    _fields_ = ["]
        lines += [f'        ("{field}", {type_}),' for field, type_, _ in listed] + ["    ]", ""]
    return re.sub(r"\n\n\n+", "\n\n\n", HEAD + "\n".join(lines) + "\n")


def main():
    """Writes or compares."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(here, "ecornn", "_structs.py")
    source = write(read(os.path.join(here, "..", "include")))
    if sys.argv[1:] == ["--check"]:
        with open(path, encoding="utf-8") as file:
            if file.read() != source:
                sys.exit("python/ecornn/_structs.py differs from the headers: run python/mirrors.py")
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)


if __name__ == "__main__":
    main()
