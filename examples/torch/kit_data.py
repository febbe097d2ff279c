"""What examples share that make their own data: one file, made once, which both sides read.

A machine that has what the data are made of may write the file for one that has not.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import kit

Item = TypeVar("Item")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options --data and --make-data."""
    parser.add_argument("--data", metavar="FILE", help="data of --make-data (default: made anew)")
    parser.add_argument("--make-data", metavar="FILE", help="write the data as .npz and end")


def main(args: argparse.Namespace, make: Callable[[str], str], train: Callable[[kit.Run], None],
         unit: str) -> int:
    """Make the data where none are given, train as kit.main does.  Returns the exit status.

    make: writes the data to a path and returns a line about them, or raises RuntimeError with what
    to do instead.  `train` finds the path in args.data.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = args.make_data
        if not args.data:
            made = args.data = made or str(Path(folder, "data.npz"))
        try:
            if made:
                print(make(made), flush=True)
        except (RuntimeError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        return 0 if args.make_data else kit.main(args, train, unit=unit)


def endless(items: Sequence[Item], seed: int, shuffle_first: bool = True) -> Iterator[Item]:
    """All items in random order, repeatedly; if asked for, the first time in their own order."""
    order, draw = list(items), random.Random(seed)
    if not shuffle_first:
        yield from order
    while True:
        draw.shuffle(order)
        yield from order
