"""``python -m ecornn``: prints what is installed, and checks each device against the reference.
Exits with 0 if every device agrees with the reference.  ``python -m ecornn export`` writes C;
``python -m ecornn check`` tells what smaller weights cost on your data.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import accuracy, export
from ._errors import Error, printable
from ._info import info, self_check


def main(words: Sequence[str] = ()) -> int:
    """Prints the report.  Returns 0, 1 if a check failed, 2 if there are other arguments."""
    if words[:1] == ["export"]:
        return export.main(words[1:])
    if words[:1] == ["check"]:
        return accuracy.main(words[1:])
    if words:
        print(f"python -m ecornn takes check, export or no argument, not {words[0]!r}; the command ecornn "
              "does", file=sys.stderr)
        return 2
    found = info()
    print(f"ecornn {found['version']}, Python {found['python']}, numpy {found['numpy']}")
    print(f"library: {printable(found['library'])}")
    for module in found["modules"]:
        where = f" ({module['folder']})" if module["folder"] else ""
        print(f"module for GPUs, {module['where']}{where}: {'yes' if module['found'] else 'no'}")
    if found["no_gpu"]:
        print(f"no GPU: {found['no_gpu']}")
    bad = 0
    for device in found["devices"]:
        memory = device["memory_bytes"]
        units = "multiprocessors" if device["backend"] == "cuda" else "threads"
        size = f", {memory / 2**30:.1f} GiB" if memory else ""
        variant = f", {device['variant']}" if device["variant"] else ""
        print(f"{device['device']}: {device['name']}{variant}, {device['threads']} {units}{size}")
        if device["backend"] == "reference":
            continue
        try:
            error, limit = self_check(device["device"])
        except Error as failure:
            print(f"    check: failed: {failure}")
            bad += 1
            continue
        good = error <= limit
        bad += not good
        print(f"    check: {'good' if good else 'BAD'}, an LSTM and its gradient differ from the "
              f"reference by {error:.1e}, at most {limit:.0e}")
    return 1 if bad else 0


def run() -> int:
    """The command.  Returns its status, 1 if its output cannot be written. A pipe that its reader has
    closed is not reported. Characters that the output's encoding lacks are escaped."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            return main(sys.argv[1:])
        finally:  # also after argparse's help
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"python -m ecornn: {printable(error)}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python writes at its end
        return 1


if __name__ == "__main__":
    sys.exit(run())
