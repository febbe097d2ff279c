"""Sentence pairs for translate.py: the messages of programs and their translations.

Catalogues of gettext lie on most machines (/usr/share/locale/*/LC_MESSAGES/*.mo).  Both languages
are cut into the same units by byte-pair encoding, Sennrich et al. 2016, on characters.  A file
keeps pairs and units for machines without catalogues.  It knows nothing of models.
"""

from __future__ import annotations

import heapq
import random
import re
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LOCALES = "/usr/share/locale"
SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>")
PAD, BEGIN, END, UNKNOWN = range(4)
SPACE = "\u2581"  # stands for the space before a word, so that joined units are the text
LONGEST = 200  # characters of a message


@dataclass
class Pairs:
    """sources[k], targets[k]: unit numbers of one pair, without marks.  units: their texts."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    units: list[str]

    def __len__(self) -> int:
        return len(self.sources)

    def text(self, numbers: list[int]) -> str:
        """The text of unit numbers, up to END."""
        numbers = list(numbers)
        if END in numbers:
            numbers = numbers[:numbers.index(END)]
        return "".join(self.units[k] for k in numbers).replace(SPACE, " ").strip()


def catalogues(language: str, root: str = LOCALES) -> list[Path]:
    """The .mo files of a language."""
    return sorted(Path(root, language, "LC_MESSAGES").glob("*.mo"))


def languages(root: str = LOCALES) -> list[str]:
    """Languages that have catalogues, the one with most messages first."""
    sizes = {path.name: sum(map(message_count, catalogues(path.name, root)))
             for path in Path(root).glob("*")}
    return sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])


def message_count(path: Path) -> int:
    """The number of messages by the head of a .mo file; 0 if it is not such a file."""
    with open(path, "rb") as file:
        head = file.read(12)
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(head[:4])
    return struct.unpack_from(order + "I", head, 8)[0] if order and len(head) == 12 else 0


def read_catalogue(path: Path) -> list[tuple[str, str]]:
    """Messages of a .mo file, without contexts; of a plural only the first form.

    gettext's manual, "The Format of GNU MO Files".  Raises ValueError on files that are damaged or
    not in UTF-8.
    """
    count, data = message_count(path), path.read_bytes()
    order = "<" if data[:1] == b"\xde" else ">"

    def strings(table: int) -> list[str]:
        spans = list(struct.iter_unpack(order + "II", data[table:table + 8 * count]))
        parts = [data[start:start + length] for length, start in spans]
        return [part.split(b"\0")[0].split(b"\4")[-1].decode() for part in parts]

    if not count:
        return []
    keys, values = (strings(table) for table in struct.unpack_from(order + "II", data, 12))
    return [(key, value) for key, value in zip(keys, values) if key]  # the empty key is the head


def messages(language: str, root: str = LOCALES) -> dict[str, str]:
    """English messages and their translations, cleaned; untranslated and long ones left out."""
    found = {}
    for path in catalogues(language, root):
        try:
            entries = read_catalogue(path)
        except (OSError, ValueError, struct.error):
            continue
        for source, target in ((clean(key), clean(value)) for key, value in entries):
            if source != target and all(3 <= len(s) <= LONGEST for s in (source, target)):
                found.setdefault(source, target)
    return found


def clean(text: str) -> str:
    """One line, without the marks of shortcuts (_File, &File)."""
    return " ".join(re.sub(r"(?<!\w)[_&](?=\w)", "", text).split())


def words(text: str) -> list[str]:
    """Words, each with SPACE before it where the text has a space; other characters in runs."""
    pattern = rf"{SPACE}?\w+|{SPACE}?[^\w{SPACE}]+|{SPACE}"
    return re.findall(pattern, SPACE + text.replace(" ", SPACE))


def learn_merges(counts: Counter, number: int) -> list[tuple[str, str]]:
    """Up to `number` pairs of neighbours to join, the most frequent first.

    counts: how often each word occurs.  A heap gives the next pair; its counts may be old, so each
    is compared with the true one when it comes up.
    """
    spelt = [list(word) for word in counts]
    weights = list(counts.values())
    totals, places = Counter(), defaultdict(set)
    for k, units in enumerate(spelt):
        for pair in zip(units, units[1:]):
            totals[pair] += weights[k]
            places[pair].add(k)
    heap = [(-total, pair) for pair, total in totals.items()]
    heapq.heapify(heap)
    merges: list[tuple[str, str]] = []
    while heap and len(merges) < number:
        total, best = heapq.heappop(heap)
        if -total != totals[best]:
            continue
        if -total < 2:
            break
        merges.append(best)
        changed = set()
        for k in places.pop(best):
            for pair in zip(spelt[k], spelt[k][1:]):
                totals[pair] -= weights[k]
                changed.add(pair)
            spelt[k] = join(spelt[k], best)
            for pair in zip(spelt[k], spelt[k][1:]):
                totals[pair] += weights[k]
                places[pair].add(k)
                changed.add(pair)
        for pair in changed:
            if totals[pair] > 0:
                heapq.heappush(heap, (-totals[pair], pair))
    return merges


def join(units: list[str], pair: tuple[str, str]) -> list[str]:
    """The units with each occurrence of the pair made one unit."""
    result, k = [], 0
    while k < len(units):
        if tuple(units[k:k + 2]) == pair:
            result.append(units[k] + units[k + 1])
            k += 2
        else:
            result.append(units[k])
            k += 1
    return result


class Encoder:
    """Texts to unit numbers.  counts: words to learn from; size: units, SPECIAL among them."""

    def __init__(self, counts: Counter, size: int) -> None:
        letters = Counter()
        for word, count in counts.items():
            for letter in word:
                letters[letter] += count
        # Letters come before merges, so that a smaller unit number means a more frequent unit.
        alphabet = [letter for letter, _ in letters.most_common(size // 4)]
        merges = learn_merges(counts, size - len(SPECIAL) - len(alphabet))
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        joined = dict.fromkeys(a + b for a, b in merges)
        self.units = [*SPECIAL, *alphabet, *(unit for unit in joined if unit not in letters)]
        self.numbers = {unit: number for number, unit in enumerate(self.units)}
        self.known: dict[str, list[int]] = {}

    def __call__(self, text: str) -> list[int]:
        return [number for word in words(text) for number in self.word(word)]

    def word(self, word: str) -> list[int]:
        """Unit numbers of a word: the merge that was learned first is made first."""
        if word not in self.known:
            units, never = list(word), len(self.ranks)
            while len(units) > 1:
                pairs = list(zip(units, units[1:]))
                best = min(pairs, key=lambda pair: self.ranks.get(pair, never))
                if best not in self.ranks:
                    break
                units = join(units, best)
            self.known[word] = [self.numbers.get(unit, UNKNOWN) for unit in units]
        return self.known[word]


def make(path: str, language: str, count: int | None, size: int, seed: int = 1,
         root: str = LOCALES) -> str:
    """Write up to `count` pairs of English and `language` in `size` units.  Returns one line.

    language "most": the one with the largest catalogues.  Raises RuntimeError if there is none.
    """
    if language == "most":
        language = next(iter(languages(root)), "any language")
    found = list(messages(language, root).items())
    if not found:
        raise RuntimeError(f"no catalogues of {language} in {root}: install some, or give --data "
                           f"FILE.npz, made on another machine with --make-data FILE.npz")
    random.Random(seed).shuffle(found)
    found = found[:count]
    counts = Counter(word for pair in found for text in pair for word in words(text))
    encoder = Encoder(counts, size)
    sides = [[encoder(pair[side]) for pair in found] for side in range(2)]
    arrays = {}
    for name, texts in zip(("source", "target"), sides):
        arrays[name] = np.array([number for text in texts for number in text], np.uint16)
        arrays[name + "_lengths"] = np.array([len(text) for text in texts], np.uint16)
    units = "\n".join(encoder.units).encode()
    np.savez_compressed(path, units=np.frombuffer(units, np.uint8), **arrays)
    means = [sum(map(len, texts)) / len(texts) for texts in sides]
    return (f"{len(found)} pairs of en and {language}, {len(encoder.units)} units, "
            f"{means[0]:.1f} and {means[1]:.1f} units a text, "
            f"{Path(path).stat().st_size / 1e6:.1f} MB")


def load(path: str, limit: int | None = None, longest: int = 50) -> Pairs:
    """Read what `make` wrote: the first `limit` pairs of those with up to `longest` units."""
    with np.load(path) as file:
        units = file["units"].tobytes().decode().split("\n")
        sides = [np.split(file[name].astype(np.int64), np.cumsum(file[name + "_lengths"])[:-1])
                 for name in ("source", "target")]
    fit = [pair for pair in zip(*sides) if max(map(len, pair)) <= longest][:limit]
    return Pairs([a for a, _ in fit], [b for _, b in fit], units)
