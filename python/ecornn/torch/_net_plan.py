"""Plans of nets, and the texts that they are made from."""

from __future__ import annotations

import ctypes
import functools
import re

from .. import _library as lib
from .._library import check, library
from .._plan import Made
from ._spec import measure_seconds


class Plan(Made):
    """A plan of the library for runs of one shape, with data about its layers."""

    def __init__(self, on: str, text: str, cells: tuple[str, ...]):
        seconds = 0.0 if "/measure" in text or on == "reference" else measure_seconds(on)
        super().__init__(on, text.replace(";", f"/measure:{seconds};", 1) if seconds else text, cells)
        self.layers = [self._layer(index) for index in range(self.most.layers)]

    def _layer(self, index: int) -> lib.Sizes:
        plan, sizes = ctypes.c_void_p(), lib.Sizes()
        check(library.ecornn_plan_layer(self.handle, index, ctypes.byref(plan)))
        check(library.ecornn_plan_sizes(plan, ctypes.byref(sizes)))
        return sizes


plan_of = functools.lru_cache(maxsize=128)(Plan)


@functools.lru_cache(maxsize=128)
def plan_within(on: str, text: str, cells: tuple[str, ...], limit: int) -> Plan:
    """The plan of a net whose reserve and workspace fit a limit.  The text's memory: limits each
    layer alone, so this searches for the largest such limit that fits."""
    few, many, found, least = 0, limit + 1, None, None
    while many - few > max(limit >> 8, 1):
        each = limit if many > limit else (few + many) // 2
        try:
            plan = plan_of(on, with_words(text, "memory", f"memory:{each}"), cells)
        except lib.BY_STATUS[1]:
            few = each
            if each == limit:
                raise
            continue
        took = plan.most.reserve_bytes + plan.most.workspace_bytes
        least = took if least is None else min(least, took)
        if took > limit:
            many = each
        else:
            few, found = each, plan
            if each == limit:
                break
    if found is None:
        raise lib.BY_STATUS[1](f"memory_limit is {limit}, must be at least about {least} for "
                               f"this net: {text}")
    return found


def number(words: str, letter: str, default: int) -> int:
    found = re.search(rf"/{letter}(\d+)(?:/|$)", words)
    return int(found.group(1)) if found else default


def with_words(text: str, name: str, words: str) -> str:
    """A net's text with these words added to each layer that has none of its own."""
    first, *pieces = text.split(";")

    def layer(piece: str) -> str:
        if piece.strip().startswith(("join:", "dropout:")) or re.search(rf"/{name}:", piece):
            return piece
        return f"{piece.rstrip()}/{words}"

    if re.search(rf"/{name}:", first):
        return text
    return ";".join([first, *("+".join(map(layer, piece.split("+"))) for piece in pieces)])


def fit_saving(pieces: str, steps: int) -> str:
    """save:every:K with K limited to the layer's number of steps, as Layer does."""
    done = []
    for piece in pieces.split(";"):
        join = re.fullmatch(r"\s*join:(\d+)\s*", piece)
        steps = -(-steps // int(join.group(1))) if join else steps
        done.append(re.sub(r"(?<=/save:every:)\d+",
                           lambda every, most=steps: str(min(int(every.group()), most)), piece))
    return ";".join(done)
