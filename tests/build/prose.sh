#!/bin/sh
# The documents: no paragraph of more than 120 words, no sentence of more than 25 (of more than 40
# with its figures), no line of prose of more than 120 characters, links and names of files that are
# there, every variable of the environment in its table, README's program that of examples, tables
# with their heads, plots that are those of the tables; in NEWS no bullet of more than 25 words.
set -eu
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
cd "${srcdir:-.}"
PYTHONDONTWRITEBYTECODE=1 exec python3 - <<'EOF'
import re
import subprocess
import sys
from pathlib import Path

WORDS, WIDTH = 120, 120
SENTENCE, WITH_FIGURES = 25, 40
TABLE = "doc/guide/environment.md"
FOLDERS = "bench common cpu doc examples gpu include lib python tests tools".split()
wrong = []


def complain(path, line, what):
    wrong.append(f"{path}:{line}: {what}")


def paragraphs(path):
    """(line, lines) of each paragraph of prose; items of a list are paragraphs, tables and code none."""
    fence, now, start = False, [], 0
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("```"):
            fence = not fence
        item = re.match(r"\s*([-*+]|\d+\.)\s", line)
        no_prose = fence or not line.strip() or line.startswith(("#", "|", "<", "```")) or (
            line.startswith("    ") and not now)
        if now and (no_prose or item):
            yield start, now
            now = []
        if not no_prose:
            start = start if now else number
            now.append(line)
    if now:
        yield start, now


def look_at_sentences(path, start, text):
    """What is in `` is a word, so is a link's text; figures are none until there are many."""
    for sentence in re.split(r"(?<=[.!?])[)*_\"]*\s+", text):
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", sentence))
        all_of_it = [word for word in plain.split() if re.search(r"\w", word)]
        words = [word for word in all_of_it if re.search(r"[A-Za-z]", word)]
        if len(words) > SENTENCE or len(all_of_it) > WITH_FIGURES:
            complain(path, start, f"a sentence of {len(all_of_it)} words: {sentence[:40]}")


def look_at_prose(path):
    for start, lines in paragraphs(path):
        look_at_sentences(path, start, " ".join(lines))
        words = len(" ".join(lines).split())
        if words > WORDS:
            complain(path, start, f"a paragraph of {words} words")
        for k, line in enumerate(lines):
            if len(line) > WIDTH:
                complain(path, start + k, f"a line of {len(line)} characters")


def look_at_links(path):
    text = re.sub(r"```.*?```", lambda found: "\n" * found.group().count("\n"), path.read_text(),
                  flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"[a-z]+:|#", target):
                if not (path.parent / target.split("#")[0]).exists():
                    complain(path, number, f"no {target}")


def pattern(name):
    """`cpu/isa/vec_NAME.h` is any; what is built is in no tree."""
    return re.search(r"[A-Z]{4}", name) or name.endswith(".so")


def look_at_names(path):
    """Names of files, but in pages of measurements, which are of their time."""
    if path.parent.name == "measurements":
        return
    for number, line in enumerate(path.read_text().split("\n"), 1):
        for name in re.findall(r"`([A-Za-z0-9_./-]+\.[a-z]+)`", line):
            folder, slash, _ = name.partition("/")
            there = Path(name).exists() if slash else name in names
            if (folder in FOLDERS or name.endswith((".c", ".cu", ".cuh"))) and not there:
                if not pattern(name) and not any(place.joinpath(name).exists() for place in places):
                    complain(path, number, f"no {name}")


def sources():
    for folder in FOLDERS:
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".am", ".tap"):
                yield path
    for name in ("quickstart", ".ci/run"):
        if Path(name).exists():
            yield Path(name)


def look_at_environment():
    table = set(re.findall(r"`([A-Z_]+)`", Path(TABLE).read_text()))
    for path in sources():
        text = path.read_text(errors="replace")
        names = set(re.findall(r'(?:eco_environment|getenv)\("(\w+)"\)', text))
        names |= set(re.findall(r'"(ECORNN_[A-Z_]+)"', text))
        if path.suffix not in (".c", ".h", ".cu", ".cuh", ".py"):
            for found in re.finditer(r"\$\{?(ECORNN_[A-Z_]+)|\b(ECORNN_[A-Z_]+)=", text):
                names.add(found.group(1) or found.group(2))
        for name in sorted(names - table - {"srcdir", "ECORNN_LT_VERSION"}):
            complain(path, 1, f"reads {name}, which {TABLE} has not")


def look_at_readme():
    blocks = re.findall(r"```c\n(.*?)```", Path("README.md").read_text(), flags=re.S)
    if blocks != [Path("examples/hello.c").read_text()]:
        complain("README.md", 1, "its program is not examples/hello.c")


def look_at_tables():
    index = Path("doc/measurements/README.md").read_text()
    for path in sorted(Path("doc/measurements").glob("*.*")):
        if path.suffix == ".csv":
            head = [line for line in path.read_text().split("\n") if line.startswith("# ")]
            for key in ("machine", "commit", "command", "page"):
                if not any(line.startswith(f"# {key}: ") for line in head):
                    complain(path, 1, f"no line # {key}:")
        if path.suffix in (".csv", ".md") and path.name != "README.md":
            if f"({path.name})" not in index:
                complain(path, 1, "not in doc/measurements/README.md")


def look_at_news():
    for number, line in enumerate(Path("NEWS").read_text().split("\n"), 1):
        if len(line.split()) > 26 or len(line) > WIDTH:
            complain("NEWS", number, "a bullet of more than 25 words, or a long line")


places = [Path("gpu"), Path("gpu/gemm")]  # from where the pages on a GPU count
names = {path.name for folder in FOLDERS for path in Path(folder).rglob("*.*")}
pages = [Path("README.md"), Path("python/README.md"), *sorted(Path("doc").rglob("*.md"))]
for page in pages:
    look_at_prose(page)
    look_at_links(page)
    look_at_names(page)
look_at_environment()
look_at_news()
look_at_readme()
look_at_tables()
plots = subprocess.run([sys.executable, "doc/plots/plot.py", "--check"], capture_output=True, text=True)
if plots.returncode:
    wrong.append(plots.stdout + plots.stderr)
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(1 if wrong else 0)
EOF
