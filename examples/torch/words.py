"""Text for the language models: the words of docstrings and comments that every machine has.

Python's standard library comes first, then torch, in the order of their paths: with the same
versions it is the same text everywhere.  A file or folder of one's own can be read instead.
"""

from __future__ import annotations

import os
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

# Docstrings and other long strings; comments that have a line of their own.
PROSE = re.compile(r'"""(.*?)"""|^[ \t]*#+[ \t:!]*([^\n]*)', re.DOTALL | re.MULTILINE)
# A sentence ends before a blank or an empty line; numbers are one word; "don't" is one, too.
WORD = re.compile(r"[.!?](?=\s)|\n\s*\n|\d[\d.]*|[a-z]+(?:_[a-z]+)*(?:'[a-z]+)?")
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "__pycache__", "encodings"}
UNKNOWN, END, NUMBER = "<unk>", "<eos>", "<number>"
HELD_OUT = 20  # one file in HELD_OUT is kept for validation


def sources(path: str | None) -> Iterator[Path]:
    """Files in a fixed order: those of `path` if it is given, else the sources of Python and torch."""
    if path and Path(path).is_file():
        yield Path(path)
        return
    roots = [path] if path else [sysconfig.get_paths()["stdlib"], os.path.dirname(torch.__file__)]
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(set(folders) - SKIPPED)
            yield from (Path(folder, name) for name in sorted(files)
                        if path or name.endswith(".py"))


def words_of(file: Path) -> list[str]:
    """The words of a file in lower case.  Of a Python source only docstrings and comments count."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # a broken link, a binary file
        return []
    if file.suffix == ".py":
        text = "\n".join("".join(parts) for parts in PROSE.findall(text))
    words: list[str] = []
    for word in WORD.findall(text.lower()):
        if word[0].isdigit():
            word = NUMBER
        elif not word[0].isalpha():
            word = END
        if word != END or (words and words[-1] != END):
            words.append(word)
    return words


def collect(path: str | None, limit: int) -> tuple[list[str], list[str]]:
    """Words for training and for validation: together `limit` words, or all if there are fewer.

    Raises ValueError if there is no text.
    """
    train: list[str] = []
    valid: list[str] = []
    for k, file in enumerate(sources(path)):
        (valid if k % HELD_OUT == HELD_OUT - 1 else train).extend(words_of(file))
        if len(train) + len(valid) >= limit:
            break
    if len(valid) < len(train) // 100:  # few files, or large ones
        cut = len(train) - max(1, len(train) // HELD_OUT)
        train, valid = train[:cut], train[cut:]
    if not valid:
        raise ValueError(f"no text in {path or 'the libraries'}")
    return train, valid


def load(path: str | None, limit: int, size: int) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Training and validation text as [words] int64, and the vocabulary.

    The vocabulary has the `size` - 1 most frequent words of the training text, and <unk> for all
    others as number 0.
    """
    train, valid = collect(path, limit)
    counts = Counter(train)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:size - 1]
    vocabulary = [UNKNOWN, *frequent]
    number = {word: k for k, word in enumerate(vocabulary)}
    ids = [torch.tensor([number.get(word, 0) for word in words]) for words in (train, valid)]
    return ids[0], ids[1], vocabulary
