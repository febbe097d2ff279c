#!/usr/bin/env python3
"""Measures the tables of doc/measurements again and lists what moved.  Uses the standard library only.

    claims.py run BUILD [--tables A,B] [--out FOLDER] [--seconds S] [--rerun]
                        every table this machine can measure, or those named
    claims.py compare BUILD [--out FOLDER]      what was measured against the committed tables
    claims.py keep BUILD [--out FOLDER]         copies what was measured to doc/measurements
    claims.py means                             geometric means of each committed table over its peer
    claims.py space                             plans with more than 1.25 times the peer's workspace
    claims.py status                            which committed tables are older than the kernels

Rows are written one by one to FOLDER (BUILD/claims), so an interrupted run continues where it stopped,
as long as kernels and planner are the same.  A row moved if its time differs by more than
5 % and by more than three spreads from the committed row of the same device.  `run` and `compare`
exit with 1 if a row moved or could not be measured, with 2 if nothing could be compared.
PEERS names a Python with torch for the tables of torch's layers (default: this one).
"""
import argparse
import csv
import hashlib
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "doc" / "measurements"
COLUMNS = ["problem", "way", "us", "spread us", "peer", "peer us", "peer spread us",
           "workspace MiB", "reserve MiB", "peer workspace MiB"]
MOVED, SPREADS = 0.05, 3  # a row moved if both are exceeded
SPACE = 1.25  # a workspace is large beyond this many of the peer's
THREADS = 1, 2, 8, 16  # of a CPU's tables, and all of its cores
PEERS = os.environ.get("PEERS", sys.executable)
MADE = "paths.h", "headers.inc"  # by make where the tree is configured in place
SOURCES = {"cpu": ("common", "lib", "cpu"), "gpu": ("common", "lib", "gpu")}


# ---- where and with which kernels -----------------------------------------------------------------

def sources(kind):
    """A fingerprint of the kernels and the planner for a kind of device, without comments and spaces."""
    total = hashlib.sha256()
    for folder in SOURCES[kind]:
        for path in sorted((ROOT / folder).rglob("*")):
            is_measured = "matrix" not in path.parts  # no table has a matrix state
            if is_measured and path.suffix in (".c", ".h", ".cu", ".cuh", ".inc", ".cell", ".awk"):
                text = path.read_text()
                if path.name in MADE or text.startswith("/* Printed by"):
                    continue
                text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
                total.update(f"{path.relative_to(ROOT)}:{''.join(text.split())}\n".encode())
    return total.hexdigest()[:12]


def output_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit():
    """The commit of the tree, with a + if it has changes; COMMIT where there is no git."""
    found = output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=10"])
    return found.strip() or os.environ.get("COMMIT", "unknown")


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def devices():
    """The devices of this machine: {"gpu": name, "cpu": name}."""
    found = {}
    gpu = output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).splitlines()
    if gpu:
        found["gpu"] = slug(gpu[0].replace("NVIDIA", ""))
    info = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", info)
    flags = info.split("flags", 1)[-1].split("\n", 1)[0].split()
    sets = [s for s in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if s in flags]
    name = re.sub(r"\((r|tm)\)|processor|cpu|@.*", "", name[1].lower()) if name else "unknown"
    found["cpu"] = slug(f"{name} {sets[0] if sets else 'plain'} {len(os.sched_getaffinity(0))}")
    return found


# ---- tables -----------------------------------------------------------------------------------------

def shapes(name):
    """The problems under [name] in bench/shapes.txt."""
    lines = (ROOT / "bench" / "shapes.txt").read_text().splitlines()
    inside, found = False, []
    for line in (line.split("#")[0].strip() for line in lines):
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif line and inside:
            found.append(line)
    if not found:
        sys.exit(f"claims.py: bench/shapes.txt has no list [{name}]")
    return found


def typed(problems, types, uses):
    """Each problem as each type in each use: lstm/T9/... becomes lstm/bf16/infer/T9/..."""
    return [p.replace("/", f"/{kind}/{use}/", 1) for kind in types for use in uses for p in problems]


def bench(*options):
    """A command of "ecornn bench"; a GPU's table takes rounds of milliseconds, not of seconds."""
    def command(build, problems, seconds):
        return [build / "bench/ecornn", "bench", "--csv", "-", "--seconds", str(seconds), *options,
                *problems]
    return command


def bench_gpu(*options):
    command = bench("--device", "cuda", *options)
    return lambda build, problems, seconds: command(build, problems, min(seconds, 0.02))


def threads():
    """The numbers of threads of a CPU's tables, as a list with commas."""
    cores = len(os.sched_getaffinity(0))
    return ",".join(map(str, sorted({count for count in THREADS if count < cores} | {cores})))


def bench_cpu(*options):
    return bench("--threads", threads(), *options)


def with_variables(variables, command):
    """The same command with these environment variables."""
    return lambda *arguments: ["env", *variables, *command(*arguments)]


AVX2 = "ECORNN_ISA=avx2", "ONEDNN_MAX_CPU_ISA=AVX2"  # neither library takes more


def blas_core():
    """OPENBLAS_CORETYPE for this processor: OpenBLAS takes SSE3 kernels on one that it does not know."""
    if "OPENBLAS_CORETYPE" in os.environ:
        return []
    flags = Path("/proc/cpuinfo").read_text().split()
    cores = {"avx512f": "SkylakeX", "avx2": "Haswell"}
    return [f"OPENBLAS_CORETYPE={core}" for flag, core in cores.items() if flag in flags][:1]


def steps_of(problem):
    """Steps of all layers."""
    size = {part[0]: int(part[1:]) for part in problem.split("/")[1:] if part[1:].isdigit()}
    return size["T"] * size.get("L", 1)


def from_bench(text, of_step=False):
    """The rows of ecornn bench --csv as rows of a table: times of a run or, if of_step, of a step."""
    for row in csv.DictReader(io.StringIO(text)):
        if "packing" in row["way"]:
            continue
        peer, us = row["versus"], 1e3 / (steps_of(row["problem"]) if of_step else 1)
        mib = lambda name: f"{float(row[name]) / 2**20:.1f}"
        half = lambda name: (float(row[f"{name}_high"]) - float(row[f"{name}_low"])) / 2 * us
        yield {"problem": row["problem"], "way": row["way"],
               "us": f"{float(row['ms']) * us:.5g}", "spread us": f"{half('ms'):.2g}",
               "peer": f"{peer} {row['versus_how']}".strip(),
               "peer us": f"{float(row['versus_ms']) * us:.5g}" if peer else "",
               "peer spread us": f"{half('versus_ms'):.2g}" if peer else "",
               "workspace MiB": mib("workspace_bytes"), "reserve MiB": mib("reserve_bytes"),
               "peer workspace MiB": mib("versus_workspace_bytes") if peer else ""}


def from_gpu(text):
    return from_bench(text, of_step=True)


def layers(device):
    def command(build, problems, seconds):
        del build, seconds
        return [PEERS, ROOT / "bench/python/layers.py", device, *problems]
    return command


def as_is(text):
    return csv.DictReader(io.StringIO(text))


class Table:
    """One table: its subject, its problems, and the command that measures some of them."""

    def __init__(self, kind, about, problems, command, read=as_is, at_once=6):
        self.kind, self.about, self.problems = kind, about, problems
        self.command, self.read, self.at_once = command, read, at_once


def listed(*names):
    return lambda: [problem for name in names for problem in shapes(name)]


def grid(names, types, uses):
    return lambda: typed([p for name in names for p in shapes(name)], types, uses)


ALL = {
    "gpu-grid": Table("gpu", "us a step and layer of the public grid, and of cuDNN",
                      grid(("gpu-grid", "gpu-grid-more"), ("bf16", "f16", "f32/fast", "f32"),
                           ("infer", "train")), bench_gpu("--versus", "cudnn"),
                      from_gpu, at_once=18),
    "gpu-many-rows": Table("gpu", "us a step and layer with 128 to 4096 rows, and of cuDNN",
                           listed("many-rows"), bench_gpu("--versus", "cudnn"), from_gpu,
                           at_once=20),
    "gpu-memory": Table("gpu", "us a step and layer of training that keeps less",
                        grid(("memory",), ("bf16",), ("train",)), bench_gpu(), from_gpu,
                        at_once=22),
    "gpu-torch": Table("gpu", "us a call of ecornn.torch, and of torch.nn",
                       listed("torch-layers"), layers("cuda"), at_once=2),
    "cpu-grid": Table("cpu", "us a run of the public grid, and of oneDNN",
                      listed("cpu-grid"), bench_cpu("--versus", "onednn"), from_bench, at_once=1),
    "cpu-avx2": Table("cpu", "us a run, and of oneDNN, both with AVX2 alone", listed("cpu-avx2"),
                      with_variables(AVX2, bench_cpu("--versus", "onednn")), from_bench, at_once=1),
    "cpu-loop": Table("cpu", "us a run, and of a loop of CBLAS products",
                      listed("small", "medium"),
                      with_variables(blas_core(), bench_cpu("--versus", "loop")), from_bench, at_once=1),
    "cpu-torch": Table("cpu", "us a call of ecornn.torch, and of torch.nn",
                       listed("torch-layers"), layers(f"cpu:{threads()}"), at_once=3),
}


# ---- files of rows ----------------------------------------------------------------------------------

def read(path):
    """The head of a table as a dictionary, and its rows by (problem, way)."""
    head, rows = {}, {}
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        found = re.fullmatch(r"# (\w+): (.*)", line)
        if found:
            head[found[1]] = found[2]
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        rows[row["problem"], row["way"]] = row
    return head, rows


def begin(path, table, device, command):
    words = " ".join(str(word).replace(f"{ROOT}/", "").replace(PEERS, "PYTHON") for word in command)
    path.write_text(f"# about: {table.about}\n# device: {device}\n# commit: {commit()}\n"
                    f"# sources: {sources(table.kind)}\n# command: {words}\n"
                    f"{','.join(COLUMNS)}\n")


def append(path, rows):
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        for row in rows:
            writer.writerow(row)


def run_table(name, table, device, options):
    """Measures the problems without a row; returns those that could not be measured."""
    path = options.out / f"{name}.{device}.csv"
    head, rows = read(path)
    if head.get("sources") != sources(table.kind) or options.rerun:
        shown = table.command(Path("BUILD"), ["PROBLEM..."], options.seconds)
        begin(path, table, device, shown)
        rows = {}
    there, failed = {problem for problem, _ in rows}, []
    todo = [problem for problem in table.problems() if problem not in there]
    for at in range(0, len(todo), table.at_once):
        some = todo[at:at + table.at_once]
        command = [str(word) for word in table.command(options.build, some, options.seconds)]
        done = subprocess.run(command, capture_output=True, text=True)
        found = list(table.read(done.stdout))
        append(path, found)
        missing = set(some) - {row["problem"] for row in found}
        if missing or done.returncode:
            print(f"{name}: {(done.stderr.strip().splitlines() or [done.returncode])[-1]}")
        failed += sorted(missing)
        print(f"{name}: {at + len(some)} of {len(todo)}", flush=True)
    return failed


# ---- commands ---------------------------------------------------------------------------------------

def difference(old, new):
    """(relative, moved) of two rows."""
    a, b = float(old["us"]), float(new["us"])
    spread = max(float(old["spread us"] or 0), float(new["spread us"] or 0))
    return b / a - 1, abs(b / a - 1) > MOVED and abs(b - a) > SPREADS * spread


def compare_table(name, path):
    """(rows compared, rows moved); prints the moved ones with both commits."""
    before, old = read(TABLES / path.name)
    after, new = read(path)
    moved = 0
    if not old:
        print(f"{path.name}: nothing committed for this device")
    for key in sorted(set(old) & set(new)):
        relative, is_moved = difference(old[key], new[key])
        if is_moved:
            moved += 1
            print(f"{name} {key[0]} {key[1]}: {old[key]['us']} us at {before.get('commit')}, "
                  f"{new[key]['us']} at {after.get('commit')}: {100 * relative:+.0f} %; peer "
                  f"{old[key]['peer us'] or '-'}, {new[key]['peer us'] or '-'}")
    gone = sorted(set(old) - set(new))
    for problem, way in gone:
        print(f"{name} {problem} {way}: not measured")
    print(f"{path.name}: {len(set(old) & set(new))} rows compared, {moved} moved, "
          f"{len(gone)} not measured")
    return len(set(old) & set(new)), moved + len(gone)


def measured(options):
    return sorted(options.out.glob("*.csv"))


def compare(options):
    found = [compare_table(path.name.split(".")[0], path) for path in measured(options)]
    if not sum(rows for rows, _ in found):
        print("nothing was compared")
        return 2
    return 1 if sum(moved for _, moved in found) else 0


def run(options):
    here, failed = devices(), []
    names = options.tables.split(",") if options.tables else list(ALL)
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        sys.exit(f"claims.py: no table {unknown[0]}; there are {', '.join(ALL)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        table = ALL[name]
        if table.kind in here:
            failed += run_table(name, table, here[table.kind], options)
        else:
            print(f"{name}: needs a {table.kind}")
    for problem in failed:
        print(f"not measured: {problem}")
    return max(compare(options), 1 if failed else 0)


def keep(options):
    for path in measured(options):
        (TABLES / path.name).write_text(path.read_text())
        print(f"doc/measurements/{path.name}")
    return 0


def means(options):
    """Prints, for each type, use and way, the number of problems and the speed-up over the peer."""
    del options
    for path in sorted(TABLES.glob("*.*.csv")):
        groups = {}
        for (problem, way), row in read(path)[1].items():
            if row["peer us"]:
                kind = re.findall(r"/(f64|f32/fast|f32|bf16|f16|infer|train|amp)(?=/|$)", problem)
                ratio = float(row["peer us"]) / float(row["us"])
                groups.setdefault(" ".join(kind + [way]), []).append((ratio, problem))
        for kind, found in groups.items():
            mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
            print(f"{path.name}: {kind}: {len(found)} problems, mean {mean:.2f}, "
                  f"least {min(found)[0]:.2f} ({min(found)[1]}), most {max(found)[0]:.2f}")
    return 0


def space(options):
    del options
    for path in sorted(TABLES.glob("*.*.csv")):
        size = {problem: (float(row["workspace MiB"]), float(row["peer workspace MiB"]))
                for (problem, _), row in read(path)[1].items() if row.get("peer workspace MiB")}
        large = {problem: both for problem, both in size.items() if both[0] > SPACE * both[1]}
        for problem, (ours, theirs) in sorted(large.items()):
            print(f"{problem}: {ours} MiB, peer {theirs}")
        if size:
            print(f"{path.name}: {len(large)} of {len(size)} take more than {SPACE} times as much")
    return 0


def status(options):
    del options
    for path in sorted(TABLES.glob("*.*.csv")):
        head, rows = read(path)
        kind = path.name.split("-")[0]
        fresh = head.get("sources") == sources(kind)
        print(f"{path.name}: {len(rows)} rows, {head.get('commit')}, "
              f"{'as the kernels are' if fresh else 'older than the kernels or the planner'}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare", "keep", "means", "space", "status"))
    parser.add_argument("build", type=Path, nargs="?", default=ROOT / "build",
                        help="the folder in which make ran (build, at the root of the sources)")
    parser.add_argument("--tables", metavar="A,B", help=f"of {', '.join(ALL)}; without: all of this machine")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where rows are written (BUILD/claims)")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="for each problem (1; on a GPU at most 0.02; tables of torch have their own)")
    parser.add_argument("--rerun", action="store_true", help="measure rows again that exist")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.out = (options.out or options.build / "claims").resolve()
    return globals()[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
