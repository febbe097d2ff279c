#!/bin/sh
# The tutorial's C: each block of a page is in the example that the page names, and the example
# prints what the page says.  Its Python is run by python/tests/test_tutorial.py.
set -eu
command -v python3 > /dev/null || { echo "no python3: skipped"; exit 77; }
SOURCE=${srcdir:-.} PYTHONDONTWRITEBYTECODE=1 ASAN_OPTIONS=detect_leaks=0 exec python3 - <<'END'
import os
import re
import subprocess
import sys
from pathlib import Path

NUMBER = re.compile(r"-?\d+\.?\d*")
source = Path(os.environ["SOURCE"])
wrong = []


def same(said, line):
    """The same words; numbers may differ as they do between instruction sets."""
    pairs = zip(NUMBER.findall(said), NUMBER.findall(line))
    return (NUMBER.sub("#", said).split() == NUMBER.sub("#", line).split()
            and all(abs(float(a) - float(b)) <= 0.002 for a, b in pairs))


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.S | re.M)


pages = [source / f"doc/guide/tutorial-{name}.md" for name in ("run", "train", "cell")]
for page in pages:
    text = page.read_text()
    example = re.search(r"`(examples/\w+)\.c`", text).group(1)
    program = (source / f"{example}.c").read_text()
    excerpts, outputs = blocks(text, "c"), blocks(text, "text")
    if not excerpts or not outputs:
        wrong.append(f"{page}: no code, or no output")
    wrong += [f"{page}: not in {example}.c:\n{block}" for block in excerpts if block not in program]
    printed = subprocess.run([f"./{example}"], capture_output=True, text=True, check=True).stdout
    lines = iter(printed.splitlines())
    for said in "".join(outputs).splitlines():  # in this order; the page may leave out others
        if not any(same(said, line) for line in lines):
            wrong.append(f"{page}: {example} does not print '{said}', but\n{printed}")
            break
print("\n".join(wrong) or f"{len(pages)} pages")
sys.exit(1 if wrong else 0)
END
