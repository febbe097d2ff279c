#!/usr/bin/env python3
"""Checks the words of the tree: prose.py, from the root of the sources; prints what is wrong.

- Counts that may only fall (COUNTS): habits of writing that a reader trips over, in comments of
  the library, and sizes of documents, code and tests.  "prose.py counts" prints them as they are.
- Every link, quoted path, `file.c`, `eco_name` and (doc/PAGE.md, "Heading") of documents exists, and
  the paths and headings of comments; doc/trust.md names no file or program that is gone.
- Every environment variable that the sources read is in doc/guide/environment.md or
  doc/contributing/testing.md.
- Every table in doc/measurements has a head and a line in its README; plots are those of the tables,
  and the page of the library of cells is that of its cells.
"""
import ast
import re
import subprocess
import sys
from pathlib import Path

LIBRARY = "lib common cpu gpu include".split()
PRODUCT = [*LIBRARY, "tools"]
FOLDERS = LIBRARY + "bench cells doc examples ort python tests tools cmake".split()
TEXT = {".c", ".h", ".cu", ".cuh", ".inc", ".cell", ".awk", ".py", ".sh", ".am", ".tap", ".map"}
REWRITTEN = re.compile(r"(cpu|gpu)/ops/|lib/(net|models|tangent)")  # whole files will be replaced
ENVIRONMENT = ["doc/guide/environment.md", "doc/contributing/testing.md"]
ALL = "|".join(FOLDERS)
BUILT = ("common/paths.h", "include/ecornn/version.h")
PLACES = (".", "include", "gpu", "gpu/gemm")    # folders to which paths in documents are relative
HEAD = "^# (machine|device): .*\n# commit: .*\n(# sources: .*\n)?# command: "

# what: (the most there may be, where it is to end, what counts)
COUNTS = {
    "comments that begin with Of, As, Where, Which, So, And, Behind":
        (4, 30, r"/\*\*?<? ?(Of|As|Where|Which|So|And|Behind) "),
    "lines with so many, so much, so few": (4, 20, r"\bso (many|much|few)\b"),
    "lines with who, whoever, somebody, nobody": (1, 10, r"\b([Ww]ho(ever)?|([Nn]o|[Ss]ome)body)\b"),
    "lines with lie, lies, lay, beside, anew, behind":
        (28, 60, r"\b(lie|lies|lay|beside|anew|behind)\b"),
    "words in README.md": (896, 900, ["split", "README.md"]),
    "words in doc/guide and doc/*.md": (22163, 18990, ["split", "doc/*.md", "doc/guide/*.md"]),
    "words in doc/measurements": (500, 3000, ["split", "doc/measurements/*.md"]),
    "tables in doc/measurements": (12, 12, ["files", "doc/measurements/*.csv"]),
    "lines in NEWS": (39, 40, ["splitlines", "NEWS"]),
    "functions with more than six parameters": (4, 8, lambda: sum(n > 6 for _, n in functions())),
    "functions of more than 60 lines": (0, 0, lambda: sum(lines > 60 for lines, _ in functions())),
    "functions of python/ecornn with more than six parameters":
        (19, 19, lambda: sum(n > 6 for n in python_parameters())),
    "lines of lib, common, cpu, gpu, include, tools":
        (86661, 70500, ["tracked lines", *PRODUCT]),
    "lines of python/ecornn": (13103, 11000, ["tracked lines", "python/ecornn"]),
    "lines of python/native": (4969, 3300, ["tracked lines", "python/native"]),
    "lines of ort, the plug-in for ONNX Runtime": (2104, 1500, ["tracked lines", "ort/*.[ch]"]),
    "lines of tests, without *.csv and tests/data":
        (39287, 35000, ["tracked lines", "tests", ":!*.csv", ":!tests/data"]),
    "files of the product that name resets or reset_state":
        (55, 55, lambda: naming(PRODUCT, "resets|reset_state")),
    "files of product and python with both dinitial and dfinal":
        (11, 12, lambda: naming([*PRODUCT, "python", ":!python/tests"], "dinitial", "dfinal")),
    "files of tests with both dinitial and dfinal":
        (11, 12, lambda: naming(["tests"], "dinitial", "dfinal")),
}
wrong = []


def complain(path, line, what):
    wrong.append(f"{path}:{line}: {what}")


def read(path):
    return Path(path).read_text(errors="replace")


def sources(folders=FOLDERS):
    return [path for folder in folders for path in sorted(Path(folder).rglob("*"))
            if path.suffix in TEXT and path.is_file()]


def functions():
    """Lines and parameters of every function of the library, by clang-format's layout."""
    for path in sources(LIBRARY):
        for found in re.finditer(r"^[A-Za-z_][^;{}()=#]*\(((?:[^(){};]|\([^()]*\))*)\)\n\{\n.*?^\}", read(path),
                                 re.M | re.S):
            parameters = re.sub(r"/\*.*?\*/|<[^<>]*>|\[[^]]*\]|\([^()]*\)", "", found[1], flags=re.S)
            yield found[0].count("\n") + 1, parameters.count(",") + 1


def python_parameters():
    """Parameters of every function of the Python package, the first of a method among them."""
    for path in Path("python/ecornn").rglob("*.py"):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.FunctionDef):
                yield len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)


def tracked(*words):
    """Files that git knows, without what a build has written; none outside a repository."""
    try:
        run = subprocess.run(["git", "ls-files", "-z", *words], capture_output=True, text=True)
    except OSError:
        return []
    return [path for path in run.stdout.split("\0") if path and Path(path).is_file()]


def naming(folders, *words):
    """The number of files that have all these words."""
    return sum(all(re.search(rf"\b(?:{word})\b", text) for word in words)
               for text in map(read, tracked(*folders)))


def count(what):
    if callable(what):
        return what()
    if isinstance(what, str):
        return sum(len(re.findall(f"(?:{what}).*", read(path)))
                   for path in sources(LIBRARY) if not REWRITTEN.match(str(path)))
    kind, *globs = what
    if kind == "tracked lines":
        return sum(read(path).count("\n") for path in tracked(*globs))
    paths = [path for glob in globs for path in Path(".").glob(glob)]
    return len(paths) if kind == "files" else sum(len(getattr(read(path), kind)()) for path in paths)


def look_at_counts():
    for name, (most, bar, what) in COUNTS.items():
        now = count(what)
        if "counts" in sys.argv:
            print(f"{now:6} of {most:6}, bar {bar:6}: {name}")
        if now > most:
            wrong.append(f"{name}: {now}, and {most} before; rewrite what was added")


def headings(path):
    return {re.sub(r"[`*]", "", line.lstrip("# ")).lower() for line in read(path).split("\n")
            if line.startswith("#")}


def look_at_headings(path, text):
    """Checks references (doc/PAGE.md, "Heading"), which in comments may span two lines."""
    joined = re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]*", " ", text)
    for page, more in re.findall(r'([\w./-]+\.md)\)?((?:,|,? and)? "[^"]+"(?: and "[^"]+")*)', joined):
        page = next((p for p in (Path(page), path.parent / page) if p.is_file()), None)
        for heading in re.findall('"([^"]+)"', more) if page else []:
            if heading.lower() not in headings(page):
                complain(path, 1, f'{page} has no heading "{heading}"')


def look_for(path, text, pattern):
    """Files, and functions and types that begin with eco_, must exist; `vec_NAME.h` is any file."""
    for found in re.finditer(pattern, text):
        name = found[1]
        if not (re.search(r"[A-Z]{4}|^\w\.", name) or name in BUILT or name in names
                or any(Path(folder, name).exists() for folder in PLACES) or Path(f"{name}.c").exists()):
            complain(path, text.count("\n", 0, found.start()) + 1, f"no {name}")


def look_at_source(path, text):
    folders = ALL if path.suffix in (".c", ".h", ".cu", ".cuh", ".cell") else "doc"
    look_for(path, text, rf"(?<![\w./-])((?:{folders})/[\w./-]*\.(?:md|csv|cuh?|c|h|py|sh))\b")
    look_at_headings(path, text)


def look_at_page(path):
    text = re.sub(r"```.*?```", lambda found: "\n" * found.group().count("\n"), read(path), flags=re.S)
    look_for(path, text, r"`([\w./-]+\.(?:c|h|cuh?|py|sh)|eco_\w+)`")
    look_at_headings(path, text)
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            page, _, heading = target.partition("#")
            page = path.parent / page if page else path
            if not page.exists() or heading and heading not in {
                    re.sub(r"[^\w -]", "", one).replace(" ", "-") for one in headings(page)}:
                complain(path, number, f"no {target}")
        if len(line) > 120 and not re.match(r"\s*(\||!?\[|<|    )", line):
            complain(path, number, f"a line of {len(line)} characters")


def look_at_environment(path, text, table):
    found = re.findall(r'(?:eco_environment|getenv)\("(\w+)"\)|"(ECORNN_[A-Z_]+)"', text)
    if path.suffix not in (".c", ".h", ".cu", ".cuh", ".py"):
        found += re.findall(r"\$\{?(ECORNN_[A-Z_]+)|\b(ECORNN_[A-Z_]+)=", text)
    for name in sorted({a or b for a, b in found} - table):
        complain(path, 1, f"reads {name}, which {ENVIRONMENT[0]} has not")


texts = {path: read(path) for path in sources()}
names = {path.name for path in texts} | set(re.findall(r"\beco_\w+", "".join(texts.values())))
pages = [Path("README.md"), Path("cells/README.md"), Path("python/README.md"), *sorted(Path("doc").rglob("*.md"))]
variables = {name for page in ENVIRONMENT for name in re.findall(r"`([A-Z_]+)`", read(page))}
variables |= {"srcdir", "ECORNN_LT_VERSION"}
look_at_counts()
for page in pages:
    look_at_page(page)
for source, words in texts.items():
    look_at_source(source, words)
for source in [*texts, *filter(Path.exists, (Path("quickstart"), Path(".ci/run")))]:
    look_at_environment(source, read(source), variables)
for csv in sorted(Path("doc/measurements").glob("*.csv")):
    if not re.search(HEAD, read(csv), re.M) or f"({csv.name})" not in read(csv.parent / "README.md"):
        complain(csv, 1, "no # machine, # commit, # command; or not in doc/measurements/README.md")
look_for("doc/trust.md", read("doc/trust.md"), rf"(?<![\w./-])((?:{ALL})/[\w./-]*\w)")
for block in re.findall(r"```c\n(.*?)```", read("README.md"), flags=re.S):
    if block not in read("examples/hello.c"):
        complain("README.md", 1, "its program is not of examples/hello.c")
for script in ("doc/plots/plot.py", "cells/page.py"):
    made = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    if made.returncode:
        wrong.append(made.stdout + made.stderr)
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(1 if wrong else 0)
