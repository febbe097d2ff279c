#!/usr/bin/env python3
"""Converts a model of charlm to a safetensors file: to_safetensors.py MODEL FILE.safetensors"""

import json
import struct
import sys


def main(model, path):
    with open(model, "rb") as file:
        data = file.read()
    cell_end = data.index(b"\ncell_bytes ") + 1
    lines = data[:cell_end].decode().splitlines()
    if lines[0] != "charlm 2, little-endian f32":
        sys.exit(f"{model} is '{lines[0][:60]}', must be 'charlm 2, little-endian f32'")
    text_begin = data.index(b"\n", cell_end) + 1
    text_end = text_begin + int(data[cell_end:text_begin].split()[1])
    tensors_end = data.index(b"end\n", text_end)
    facts = dict(line.split(" ", 1) for line in lines[1:])
    header, offset = {"__metadata__": {**facts, "cell_text": data[text_begin:text_end].decode()}}, 0
    for line in data[text_end:tensors_end].decode().splitlines():
        _, name, rows, columns = line.split()
        shape = [int(rows), int(columns)] if columns != "1" else [int(rows)]
        bytes = 4 * int(rows) * int(columns)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + bytes]}
        offset += bytes
    numbers = data[tensors_end + len(b"end\n"):]
    if len(numbers) != offset:
        sys.exit(f"{model} has {len(numbers)} bytes of numbers, must have {offset}")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format aligns its numbers
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + numbers)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
