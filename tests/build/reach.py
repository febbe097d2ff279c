#!/usr/bin/env python3
"""What a run can reach: reach.py SOURCES OBJECT..., from the folder of the build.

The graph of functions and tables is read from the object files: a function reaches what its code
refers to, and a table what it points at.  From `ecornn_forward` and an algorithm's function, which is
called through a table of pointers:
- the number of source files that are reached has a limit;
- so are functions of files that choose (CHOOSE): choices are made when a plan is made.
The limits may only fall.  "reach.py -v ..." lists the files, and the path to each such function.
"""
import bisect
import collections
import re
import subprocess
import sys
from pathlib import Path

# name: (functions that a run begins with, most source files, most functions that choose)
RUNS = {
    "cpu": ("ecornn_forward eco_cpu_run_tape", 43, 0),
    "persistent": ("ecornn_forward eco_gpu_run_persistent", 45, 0),
    "fused": ("ecornn_forward eco_gpu_run_fused", 43, 0),
    "scan": ("ecornn_forward eco_gpu_run_scan", 44, 0),
    "step": ("ecornn_forward eco_gpu_run_step", 42, 0),
}
# The run of a layer: models, nets and tangents are plans of their own, which run those of layers.  The
# system's calls call nothing of ours.
WITHOUT = {"common/compose/models.c", "common/compose/models_run.c", "common/compose/net_run.c",
           "common/compose/tangent_run.c", "common/compose/tangent_weights.c", "common/os_posix.c",
           "lib/net.c", "lib/tangent.c"}
CHOOSE = re.compile(r"cpu/algo/(?!run\.c)|common/(force|plan/(planner|strategy)|tune/.*)\.c|"
                    r"gpu/(algo/|.*/(algo|choose|chunks|cost|kernels|rates|requirements|tiling)\.c)")
LEAF = re.compile(r"cpu/isa/")  # kernels, which call nothing of ours


def source_of(path):
    """gpu/algo/.libs/ecornn_cuda_la-cost.o: gpu/algo/cost.c"""
    folder, name = path.rsplit("/", 1)
    name = re.sub(r"^[a-z0-9_]*_la-", "", name)
    return folder.replace("/.libs", "") + "/" + name[:-2] + ".c"


def object_of(path):
    """The object file that libtool's file names."""
    if not path.endswith(".lo"):
        return path
    text = Path(path).read_text()
    name = re.search(r"^(?:non_)?pic_object='(.*\.o)'", text, re.M).group(1)
    return f"{path.rsplit('/', 1)[0]}/{name}"


class Graph:
    def __init__(self):
        self.edges = collections.defaultdict(set)
        self.home = {}  # name of a global symbol: its node
        self.code = set()  # nodes that are functions

    def node(self, source, name):
        return self.home.get(name) or (source, name)

    def resolve(self):
        """Edges to global names become edges to their nodes."""
        self.edges = {start: {self.home.get(end[1], end) if end[0] is None else end for end in ends}
                      for start, ends in self.edges.items()}


class Symbols:
    """Of an object: the symbol at an offset of a section."""

    def __init__(self):
        self.of = collections.defaultdict(list)

    def add(self, section, offset, size, name):
        bisect.insort(self.of[section], (offset, size, name))

    def at(self, section, offset):
        of = self.of.get(section, [])
        k = bisect.bisect_right(of, (offset, float("inf"), "")) - 1
        if k >= 0 and of[k][0] <= offset < of[k][0] + max(of[k][1], 1):
            return of[k][2]
        return None


SYMBOL = re.compile(r"^([0-9a-f]{8,}) (.)......\s*(\S+)\s+([0-9a-f]{8,}) (?:\.hidden )?(\S+)$")
RELOCATION = re.compile(r"^([0-9a-f]{8,}) (\S+)\s+(\S+?)([+-]0x[0-9a-f]+)?$")
CALL = re.compile(r"\s(?:call|j[a-z]+|lea)\s.*<([\w.]+?)(?:\+0x[0-9a-f]+)?>$")


def read_tables(graph, path, text, source):
    symbols, section, relocations = Symbols(), None, []
    for line in text.splitlines():
        if m := SYMBOL.match(line):
            offset, scope, where, size, name = m.groups()
            if where in ("*UND*", "*COM*", "*ABS*") or name == where:
                continue
            symbols.add(where, int(offset, 16), int(size, 16), name)
            if scope in "gu":
                graph.home[name] = (source, name)
        elif line.startswith("RELOCATION RECORDS FOR ["):
            section = line[24:-2]
        elif section and (m := RELOCATION.match(line)):
            relocations.append((section, *m.groups()))
    for section, offset, kind, name, addend in relocations:
        if section.startswith((".debug", ".eh_frame")):
            continue
        start, plus = symbols.at(section, int(offset, 16)), int(addend or "0", 16)
        if start is None:
            continue
        if name in symbols.of:  # a section
            end = symbols.at(name, plus + (4 if "PC32" in kind or "PLT" in kind else 0))
            if end is not None and end != start:
                graph.edges[(source, start)].add((source, end))
        else:
            known = any(name == symbol for of in symbols.of.values() for _, _, symbol in of)
            graph.edges[(source, start)].add((source if known else None, name))


def read_calls(graph, text, source_by_path):
    """Calls within a section, which have no relocation."""
    source = function = None
    for line in text.splitlines():
        if ":     file format" in line:
            source = source_by_path[line.split(":     file format")[0]]
        elif line.endswith(">:"):
            function = line[line.index("<") + 1:-2]
            graph.code.add((source, function))
        elif (m := CALL.search(line)) and m.group(1) != function:
            graph.edges[(source, function)].add((source, m.group(1)))


def read(paths):
    graph = Graph()
    source_by_path = {path: source_of(path) for path in paths}
    run = lambda *words: subprocess.run(["objdump", *words], check=True, capture_output=True,
                                        text=True).stdout
    for path in paths:
        read_tables(graph, path, run("-t", "-r", path), source_by_path[path])
    code = [path for path in paths if not LEAF.match(source_by_path[path])]
    read_calls(graph, run("-d", "--no-show-raw-insn", *code), source_by_path)
    graph.resolve()
    return graph


def reach(graph, roots):
    """Each node that is reached: the node before it."""
    before = {}
    queue = collections.deque()
    for name in roots.split():
        source, _, function = name.rpartition(":")
        root = (source, function) if source else graph.home.get(name)
        if root is None or root not in graph.edges:
            sys.exit(f"reach.py: no function {name}")
        before[root] = None
        queue.append(root)
    while queue:
        node = queue.popleft()
        for end in graph.edges.get(node, ()):
            if end[0] is not None and end[0] not in WITHOUT and end not in before:
                before[end] = node
                if not LEAF.match(end[0]):
                    queue.append(end)
    return before


def main():
    words = sys.argv[1:]
    verbose = words[0] == "-v"
    root, *paths = words[verbose:]
    paths = [p for p in map(object_of, paths) if (Path(root) / source_of(p)).exists()]
    graph, bad = read(paths), 0
    for name, (roots, most, choosing) in RUNS.items():
        if "eco_gpu" in roots and not any(p.startswith("gpu/algo/") for p in paths):
            continue
        before = reach(graph, roots)
        files = sorted({source for source, _ in before})
        chosen = [node for node in sorted(before) if CHOOSE.match(node[0]) and node in graph.code]
        print(f"{name}: {len(before)} functions and tables in {len(files)} files, limit {most}; "
              f"{len(chosen)} functions choose, limit {choosing}")
        bad += (len(files) > most) + (len(chosen) > choosing)
        if verbose:
            print("  " + " ".join(files))
        for node in chosen if verbose or len(chosen) > choosing else ():
            path, at = [], node
            while at is not None:
                path.append(at[1])
                at = before[at]
            print(f"  {node[0]}: {' < '.join(path)}")
    sys.exit(bad > 0)


main()
