#!/bin/sh
# Names of device code have one meaning: none is defined at file scope in two of its files.
#
# Prints each that is, with its files.  Functions, types, enumerators, constants and macros count.
# These may be in several files:
# - words of a cell's printed text, and what it works on (doc/cells.md): each template has its own, and
#   values with derivatives have theirs (gpu/persistent/dual.cuh);
# - names of the two ways of persistent kernels, in files forward* and backward*: parts of one meaning;
# - overloads that a template of gpu/tile calls;
# - macros that are undefined again, or that a file of kernels sets and others have a default for.
set -eu
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
cd "${srcdir:-.}"
PYTHONDONTWRITEBYTECODE=1 exec python3 - <<'EOF'
import re
import sys
from pathlib import Path

NO_NAMES = {"if", "while", "for", "switch", "return", "defined", "alignas", "static_assert",
            "__launch_bounds__", "__align__", "__cluster_dims__", "asm", "decltype", "sizeof"}


WORDS_OF_CELLS = re.compile(r"(load|store|v)_[a-z]+|element|CELL\w*")
OVERLOADS = {"fetch_matrix", "multiply_fetched"}


def without_comments(text):
    def blank(found):
        return "\n" * found.group().count("\n") if found.group()[0] == "/" else '""'
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def macros_of(text):
    """Names, and the text without preprocessor lines."""
    names, rest, lines = set(), [], iter(text.split("\n"))
    set_elsewhere = set(re.findall(r"#\s*(?:undef|ifndef|if !defined)[ (]+(\w+)", text))
    for line in lines:
        if not re.match(r"\s*#", line):
            rest.append(line)
            continue
        found = re.match(r"\s*#\s*define\s+(\w+)(.*)", line)
        if found and (found.group(2).strip() or not found.group(1).endswith("_CUH")):
            names.add(found.group(1))
        while line.endswith("\\"):
            line = next(lines, "")
    return names - set_elsewhere, "\n".join(rest)


def chunks(text):
    """(head, body) of each declaration at file scope: what is before its braces, and in them."""
    depth, start, head, body_start = 0, 0, "", 0
    for at, sign in enumerate(text):
        if sign == "{":
            if depth == 0:
                head, body_start = text[start:at], at + 1
                if re.search(r'\bextern\s*""\s*$', head):
                    start, head = at + 1, ""
                    continue
            depth += 1
        elif sign == "}" and depth > 0:
            depth -= 1
            if depth == 0 and not re.search(r"[=,(]\s*$|\b(struct|enum|union|class)\b[^()]*$", head):
                yield head, text[body_start:at], ""
                start, head = at + 1, ""
        elif sign == ";" and depth == 0:
            yield (head or text[start:at]), (text[body_start:at] if head else None), text[start:at]
            start, head = at + 1, ""


def without_brackets(text, pair):
    """Less all that stands between them; of <> and ()."""
    open_, close = pair
    while True:
        shorter = re.sub(re.escape(open_) + "[^" + re.escape(open_ + close) + "]*" + re.escape(close),
                         " ", text)
        if shorter == text:
            return text
        text = shorter


def names_of(path):
    names, text = macros_of(without_comments(path.read_text()))
    for head, body, whole in chunks(text):
        head = re.sub(r"^\s*template\s*<[^{;]*?>\s*(?=(struct|ECO_DEVICE|static|inline|__global__|using|"
                      r"constexpr|extern|[A-Za-z_]))", "", head)
        if re.search(r"\benum\b", head) and "(" not in head:
            names |= set(re.findall(r"(?:^|,)\s*([A-Za-z_]\w*)", without_brackets(body or "", "()")))
        found = re.match(r"\s*(?:typedef\s+)?(?:struct|union|class|enum)\s+(?:alignas\s*\([^)]*\)\s*)?(\w+)"
                         r"\s*(?::[^{]*)?$", head)
        if found and body is not None:
            names.add(found.group(1))
            continue
        if re.match(r"\s*typedef\b", whole):
            found = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", whole)
            names.add(found.group(1))
            continue
        function = [name for name in re.findall(r"([A-Za-z_]\w*)\s*\(", without_brackets(head, "<>"))
                    if name not in NO_NAMES and not name.isupper()]
        if function and body is not None and not re.search(r"=\s*$", head):
            names.add(function[0])
            continue
        found = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*=", whole or head)
        if found and re.search(r"\b(const|constexpr|static|__constant__|__device__)\b", head):
            names.add(found.group(1))
    return names


def may(name, paths):
    ways = all(re.search(r"/persistent/(forward|backward)\w*\.cuh$", path) for path in paths)
    words = [path for path in paths if not re.search(r"/cell/(math|words|templates)\.cuh$|/persistent/|/scan/words|/wide_step/(element|backward)", path)]
    return ways or name in OVERLOADS or (WORDS_OF_CELLS.fullmatch(name) and not words)


def main(folder):
    root = Path(folder)
    files = [path for path in sorted(root.glob("gpu/**/*.cu*")) + sorted(root.glob("gpu/**/*.inc"))
             if "instances" not in path.parts and path.name not in ("instances.inc", "cells.inc", "headers.inc")]
    if not files:
        return "no device code"
    where = {}
    for path in files:
        for name in names_of(path):
            where.setdefault(name, []).append(str(path.relative_to(root)))
    twice = {name: paths for name, paths in where.items() if len(paths) > 1 and not may(name, paths)}
    for name, paths in sorted(twice.items()):
        print(f"{name}: {', '.join(paths)}")
    print(f"{len(files)} files, {len(where)} names, {len(twice)} in two files")
    return 1 if twice else 0


sys.exit(main("."))
EOF
