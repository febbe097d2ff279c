#!/usr/bin/env python3
"""Writes python/ecornn/_structs.py, the constants and structures of the public headers, for ctypes.

    python/mirrors.py            writes the file
    python/mirrors.py --check    says whether it is up to date

The file is committed, since wheels are installed without a compiler; tests/build/mirrors.sh compares it.
A structure is its fields with the letters of struct for their types. Those of runs are packed by one call of
struct.pack: a ctypes.Structure costs as much for every field. All others become ctypes.Structures, which know their
size.
"""
import os
import re
import sys

HEADERS = ["ecornn/types.h", "ecornn.h", "ecornn/experimental.h"]
# Structures of runs, which are packed by one call.
PACKED = {"io", "gradient", "attention_io", "attention_gradient"}
# struct's letter for each type of C; a pointer is P, an enumeration i.
LETTERS = {"char": "s", "float": "f", "double": "d", "int32_t": "i", "uint32_t": "I", "uint64_t": "Q", "size_t": "N"}

HEAD = '''"""Constants and structures of the public headers, written by python/mirrors.py: do not edit."""

from ctypes import (Structure, c_char, c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p,
                    sizeof)

_TYPES = {"s": c_char, "f": c_float, "d": c_double, "i": c_int32, "I": c_uint32, "Q": c_uint64, "N": c_size_t,
          "P": c_void_p}


class Sized(Structure):
    """A structure whose first field is its size."""

    def __init__(self, **fields):
        super().__init__(size=sizeof(self), **fields)


def _mirrors(fields):
    """Gives a structure its fields: struct's letter for the type of each, after the length of an array."""
    def mirror(structure):
        pairs = [field.split(":") for field in fields.split()]
        structure._fields_ = [(name, _TYPES[of[-1]] * int(of[:-1]) if of[:-1] else _TYPES[of]) for name, of in pairs]
        return structure

    return mirror


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


def fields(body, constants, enums):
    """The fields of a structure: "name:letter", with a length before the letter."""
    for declaration in filter(None, (line.strip() for line in body.split(";"))):
        found = re.fullmatch(r"(.*?)(\w+)(?:\[(\w+)\])?", declaration, re.S)
        type_, name, count = (found.group(1).replace("const ", "").strip(), found.group(2), found.group(3))
        if count and not count.isdigit():
            count = constants[count.removeprefix("ECORNN_")]
        letter = "P" if "*" in type_ else "i" if type_ in enums else LETTERS[type_]
        yield f"{name}:{count or ''}{letter}"


def write(text):
    """The Python source."""
    constants = dict(enumerators(text))
    enums = re.findall(r"typedef enum \{[^}]*\} (\w+);", text)
    lines = [f"{name} = {value}" for name, value in constants.items()]
    for body, name in re.findall(r"typedef (?:struct|ecornn_\w+) \{([^}]*)\} (\w+);", text):
        said, short = " ".join(fields(body, constants, enums)), name.removeprefix("ecornn_")
        if short in PACKED:
            lines += ["", f"# {name}", f'{short.upper()} = "{said}"']
            continue
        made = "".join(word.capitalize() for word in short.split("_"))
        lines += ["", "", f'@_mirrors("{said}")', f"class {made}(Sized):", f'    """{name}."""', ""]
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
