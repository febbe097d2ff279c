#!/usr/bin/env python3
"""Checks the words of the tree: prose.py, from the root of the sources; prints what is wrong.

- Counts that may only fall (COUNTS): habits of writing that a reader trips over, in comments of
  the library, and the sizes of the documents.  "prose.py counts" prints them as they are.
- Every link, quoted path, `file.c` and (doc/PAGE.md, "Heading") of documents and comments exists.
- Every environment variable that the sources read is in doc/guide/environment.md.
- doc/trust.md names no file or program that is gone.
- Every table in doc/measurements has its head and is used; every plot was drawn from its table.
"""
import re
import subprocess
import sys
from pathlib import Path

LIBRARY = "lib common cpu gpu include".split()
FOLDERS = LIBRARY + "bench doc examples python tests tools cmake".split()
TEXT = {".c", ".h", ".cu", ".cuh", ".inc", ".cell", ".awk", ".py", ".sh", ".am", ".tap", ".map"}
REWRITTEN = re.compile(r"(cpu|gpu)/ops/|lib/(net|models|tangent)")  # whole files will be replaced
ENVIRONMENT = "doc/guide/environment.md"

# what: (the most there may be, where it is to end, what counts)
COUNTS = {
    "comments that begin with Of, As, Where, Which, So, And, Behind":
        (122, 30, r"/\*\*?<? ?(Of|As|Where|Which|So|And|Behind) "),
    "lines with so many, so much, so few": (81, 20, r"\bso (many|much|few)\b"),
    "lines with who, whoever, somebody, nobody": (42, 10, r"\b([Ww]ho(ever)?|([Nn]o|[Ss]ome)body)\b"),
    "lines with lie, lies, lay, beside, anew, behind":
        (170, 60, r"\b(lie|lies|lay|beside|anew|behind)\b"),
    "words in README.md": (1000, 1000, ["README.md"]),
    "words in doc/guide and doc/*.md": (28700, 20000, ["doc/*.md", "doc/guide/*.md"]),
    "words in doc/measurements": (3000, 3000, ["doc/measurements/*.md"]),
    "tables in doc/measurements": (12, 12, None),
    "lines in NEWS": (48, 40, "NEWS"),
}
BUILT = ("lib/paths.h", "include/ecornn/version.h")
wrong = []


def complain(path, line, what):
    wrong.append(f"{path}:{line}: {what}")


def read(path):
    return Path(path).read_text(errors="replace")


def sources(folders=FOLDERS):
    return [path for folder in folders for path in sorted(Path(folder).rglob("*"))
            if path.suffix in TEXT and path.is_file()]


def count(what):
    if what is None:
        return len(list(Path("doc/measurements").glob("*.csv")))
    if isinstance(what, list):
        return sum(len(read(path).split()) for glob in what for path in Path(".").glob(glob))
    if what == "NEWS":
        return len(read(what).splitlines())
    return sum(len(re.findall(f".*(?:{what}).*", read(path)))
               for path in sources(LIBRARY) if not REWRITTEN.match(str(path)))


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


def is_there(name):
    """`vec_NAME.h` stands for any file; pages about the GPU name files from gpu and gpu/gemm."""
    return (re.search(r"[A-Z]{4}|^\w\.", name) or name in BUILT or name in names
            or any(Path(folder, name).exists() for folder in (".", "include", "gpu", "gpu/gemm")))


def look_at_headings(path, text):
    """(doc/PAGE.md, "Heading"), in comments also over the end of a line."""
    joined = re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]*", " ", text)
    for page, more in re.findall(r'([\w./-]+\.md)\)?((?:,|,? and)? "[^"]+"(?: and "[^"]+")*)', joined):
        page = next((p for p in (Path(page), path.parent / page) if p.is_file()), None)
        for heading in re.findall('"([^"]+)"', more) if page else []:
            if heading.lower() not in headings(page):
                complain(path, 1, f'{page} has no heading "{heading}"')


def look_at_paths(path, text):
    """doc/PAGE.md in every source, cpu/FILE.c in sources in C."""
    folders = "|".join(FOLDERS) if path.suffix in (".c", ".h", ".cu", ".cuh", ".cell") else "doc"
    pattern = rf"(?<![\w./-])((?:{folders})/[\w./-]*\.(?:md|csv|cuh?|c|h|py|sh))\b"
    for number, line in enumerate(text.split("\n"), 1):
        for name in re.findall(pattern, line):
            if not is_there(name):
                complain(path, number, f"no {name}")


def look_at_page(path):
    text = re.sub(r"```.*?```", lambda found: "\n" * found.group().count("\n"), read(path), flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            page, _, heading = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            if page and not (path.parent / page).exists():
                complain(path, number, f"no {target}")
            elif heading and heading not in {re.sub(r"[^\w -]", "", h).replace(" ", "-")
                                             for h in headings(path.parent / page if page else path)}:
                complain(path, number, f"no heading {target}")
        for name in re.findall(r"`([\w./-]+\.(?:c|h|cu|cuh|py|sh))`", line):
            if not is_there(name):
                complain(path, number, f"no {name}")
        if len(line) > 120 and not re.match(r"\s*(\||!?\[|<|    )", line):
            complain(path, number, f"a line of {len(line)} characters")
    look_at_headings(path, text)


def look_at_trust():
    """The figures of doc/trust.md may name nothing that is gone: files, and programs by their path."""
    for number, line in enumerate(read("doc/trust.md").split("\n"), 1):
        for name in re.findall(rf"(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)", line):
            if not Path(name).exists() and not Path(f"{name}.c").exists():
                complain("doc/trust.md", number, f"no {name}")


def look_at_environment():
    table = set(re.findall(r"`([A-Z_]+)`", read(ENVIRONMENT))) | {"srcdir", "ECORNN_LT_VERSION"}
    for path in sources() + [p for p in (Path("quickstart"), Path(".ci/run")) if p.exists()]:
        text = read(path)
        found = set(re.findall(r'(?:eco_environment|getenv)\("(\w+)"\)|"(ECORNN_[A-Z_]+)"', text))
        if path.suffix not in (".c", ".h", ".cu", ".cuh", ".py"):
            found |= set(re.findall(r"\$\{?(ECORNN_[A-Z_]+)|\b(ECORNN_[A-Z_]+)=", text))
        for name in sorted({a or b for a, b in found} - table):
            complain(path, 1, f"reads {name}, which {ENVIRONMENT} has not")


def look_at_tables():
    index = read("doc/measurements/README.md")
    for path in sorted(Path("doc/measurements").glob("*.csv")):
        if not re.search("^# (machine|device): .*\n# commit: .*\n(# sources: .*\n)?# command: ", read(path), re.M):
            complain(path, 1, "no lines # machine, # commit and # command at its head")
        if f"({path.name})" not in index:
            complain(path, 1, "not in doc/measurements/README.md")


names = {path.name for path in sources()}
pages = [Path("README.md"), Path("python/README.md"), *sorted(Path("doc").rglob("*.md"))]
look_at_counts()
for page in pages:
    look_at_page(page)
for source in sources():
    look_at_paths(source, read(source))
    look_at_headings(source, read(source))
for block in re.findall(r"```c\n(.*?)```", read("README.md"), flags=re.S):
    if block not in read("examples/hello.c"):
        complain("README.md", 1, "its program is not of examples/hello.c")
look_at_environment()
look_at_trust()
look_at_tables()
plots = subprocess.run([sys.executable, "doc/plots/plot.py", "--check"], capture_output=True, text=True)
if plots.returncode:
    wrong.append(plots.stdout + plots.stderr)
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(1 if wrong else 0)
