"""
Vectors on the disk: index.json, and for each vector a safetensors file of F64 arrays (the length of
a JSON header in 8 little-endian bytes, the header, the numbers).
"""
import json
import os
import struct

import numpy as np


def write_arrays(path, arrays):
    header, at, pieces = {}, 0, []
    for name, array in arrays.items():
        piece = np.ascontiguousarray(array, dtype="<f8").tobytes()
        header[name] = {"dtype": "F64", "shape": list(array.shape),
                        "data_offsets": [at, at + len(piece)]}
        at += len(piece)
        pieces.append(piece)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(pieces))


def read_arrays(path):
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    arrays = {}
    for name, fact in json.loads(data[8:end]).items():
        first, last = fact["data_offsets"]
        numbers = np.frombuffer(data, dtype="<f8", count=(last - first) // 8, offset=end + first)
        arrays[name] = numbers.reshape(fact["shape"])
    return arrays


class Vector:
    """An entry of the index with its arrays: inputs and expected results by name."""

    def __init__(self, folder, entry):
        self.__dict__.update(entry)
        every = read_arrays(os.path.join(folder, entry["file"]))
        self.inputs = {row["name"]: every["input:" + row["name"]] for row in entry["inputs"]}
        self.expected = {row["name"]: every["expected:" + row["name"]]
                         for row in entry["expected"]}
        self.bound = {row["name"]: row["bound"] for row in entry["expected"]}


def read_vectors(folder):
    with open(os.path.join(folder, "index.json")) as file:
        index = json.load(file)
    return [Vector(folder, entry) for entry in index["vectors"]]
