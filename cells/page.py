#!/usr/bin/env python3
"""Writes cells/README.md, the page of the library, from the comments of its cells.

    cells/page.py            writes the page
    cells/page.py --check    says whether it is up to date, as tests/build/prose.sh does
"""
import re
import sys
from pathlib import Path

HEAD = """<!-- Written by cells/page.py from the comments of the cells: do not edit. -->
# The library of cells

{count} published cells in the language of [../doc/cells.md](../doc/cells.md). They are part of the library: a problem string
and `ecornn_cell_parse` take their names, as `ecornn plan lif/train/T100/N64/I128/H256` does. A text of your own comes
first if it has the same name, and so does a built-in cell. Each file has the equations of its cell; tests compare
values and gradients with them. Change a copy if you need another slope, rate or constant.

| cell | what it is | source |
|---|---|---|
"""


def row(path):
    """A cell's line of the table."""
    words = " ".join(line[1:].strip() for line in path.read_text(encoding="utf-8").split("\n")
                     if line.startswith("#"))
    about, source, _ = re.fullmatch(r"(.*?) Source: (.*?) Equations: (.*)", words).groups()
    return f"| [`{path.stem}`]({path.name}) | {about.rstrip('.')} | {source.rstrip('.')} |\n"


def main():
    """Writes or compares."""
    here = Path(__file__).resolve().parent
    cells = sorted(here.glob("*.cell"), key=lambda path: path.stem)
    text = HEAD.format(count=len(cells)) + "".join(map(row, cells))
    page = here / "README.md"
    if sys.argv[1:] == ["--check"]:
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            sys.exit("cells/README.md differs from the cells: run cells/page.py")
    else:
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
