"""The programs of examples/torch run, both sides learn the same, and their kit is right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "torch"
if not FOLDER.is_dir():
    pytest.skip("no examples/torch beside this test", allow_module_level=True)
sys.path.insert(0, str(FOLDER))

import kit  # noqa: E402
import kit_report  # noqa: E402
import language_model  # noqa: E402
import language_model_ddp  # noqa: E402
import words  # noqa: E402

TINY = "--words 20000 --vocabulary 300 --hidden 24 --embedding 24 --bptt 9 --batch 4".split()
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node 2".split()
# Program and options: each ends in seconds.
RUNS = {
    "language model": ["language_model.py", "--exact", *TINY],
    "locked dropout": ["language_model.py", "--model", "awd", "--vary", "--optimizer", "adamw",
                       *TINY, "--hidden", "40", "--layers", "3"],
    "two processes": ["language_model_ddp.py", "--exact", *TINY],
}


def run(program: str, *options: str) -> subprocess.CompletedProcess:
    """Runs a program; returns its result. torchrun starts the one for many processes."""
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    start = TORCHRUN if "_ddp" in program else []
    return subprocess.run([sys.executable, *start, str(FOLDER / program), "--quick", "--device",
                           "cpu", *options], capture_output=True, text=True, env=environment)


def need_ecornn() -> None:
    assert kit.find_ecornn() is None


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if k else ())
                                  for k, name in enumerate(RUNS)])
def test_both_sides(name: str, tmp_path: Path) -> None:
    need_ecornn()
    program, *options = RUNS[name]
    file = tmp_path / "figures.json"
    done = run(program, "--steps", "12", "--json", str(file), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())
    sides = figures["results"]
    assert list(sides) == ["torch", "ecornn"]
    assert sides["torch"]["weights"] == sides["ecornn"]["weights"]
    assert all(len(side["loss"]) == len(side["seconds"]) == 12 for side in sides.values())
    assert figures["difference"] < (1e-4 if "--exact" in options else 1e-2)
    assert "words a second" in done.stdout and "gain" in done.stdout


def test_gradients_of_two_processes(capfd: pytest.CaptureFixture) -> None:
    need_ecornn()
    status = language_model_ddp.main(["--quick", "--device", "cpu", "--gpus", "2", "--check", "--rnn", "ecornn", *TINY])
    done = capfd.readouterr()
    assert status == 0, done.out + done.err
    assert "ecornn: gradients of 2 processes" in done.out


def options(*argv: str):
    return language_model.options("", ["--rnn", "torch", "--device", "cpu", *argv])


def test_without_ecornn(capfd: pytest.CaptureFixture) -> None:
    status = kit.main(options("--quick", "--steps", "3", *TINY), language_model.train, unit="words")
    done = capfd.readouterr()
    assert status == 0, done.out + done.err
    assert "words a second" in done.out and "ecornn" not in done.out


def test_failure_is_told(capfd: pytest.CaptureFixture) -> None:
    assert kit.main(options("--quick", *TINY, "--text", "/nowhere"), language_model.train) == 1
    assert "no text in /nowhere" in capfd.readouterr().err


def test_defaults_give_way() -> None:
    args = options("--model", "awd", "--quick", "--batch", "3")
    assert (args.batch, args.hidden, args.masks, args.dropout) == (3, 128, "locked", 0.4)
    exact = options("--exact")
    assert exact.dropout == exact.dropout_inside == exact.dropout_words == 0
    for wrong in (["--exact", "--precision", "tf32"], ["--steps", "0"], ["--rounds", "0"]):
        with pytest.raises(SystemExit):
            options(*wrong)


def test_difference_of_curves() -> None:
    assert kit_report.difference([2.0, 4.0], [2.0, 4.4]) == pytest.approx(0.1)
    assert kit_report.difference([1.0], [float("nan")]) == float("inf")
    assert kit_report.difference([1.0, 1.0], [1.0, 1.0]) == 0


def test_rounds_become_one() -> None:
    rounds = [{"loss": [1.0], "seconds": [2.0, 5.0], "peak_bytes": 7},
              {"loss": [1.0], "seconds": [3.0, 4.0], "peak_bytes": 8}]
    assert kit_report.merged(rounds) == {"loss": [1.0], "seconds": [2.0, 4.0], "peak_bytes": 8}


def test_seconds_to_a_loss() -> None:
    result = {"loss": [4.0, 3.0, 2.0], "seconds": [1.0, 1.0, 1.0]}
    assert kit_report.seconds_to(result, 3.0) == 2.0
    assert kit_report.seconds_to(result, 1.0) is None


def test_words_are_the_same_each_time() -> None:
    first = words.load(None, 5000, 200)
    again = words.load(None, 5000, 200)
    assert all(torch.equal(a, b) for a, b in zip(first[:2], again[:2]))
    assert first[2] == again[2] and len(first[2]) == 200


def test_words_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("Don't stop. It's 3.14 of 100!\n\nThe end ends.")
    assert words.words_of(file) == ["don't", "stop", "<eos>", "it's", "<number>", "of", "<number>",
                                    "<eos>", "the", "end", "ends"]
    source = tmp_path / "a.py"
    source.write_text('"""Prose here."""\ncode = 1  # not this\n# but this\n')
    assert words.words_of(source) == ["prose", "here", "<eos>", "but", "this"]


@pytest.mark.parametrize("vary", [False, True])
def test_pieces_follow_each_other(vary: bool) -> None:
    text = torch.arange(400).view(2, 200).t()
    batches = language_model.Batches(text, 10, vary)
    place, lengths = 0, set()
    for _ in range(60):
        x, y = batches.next()
        if x[0, 0] == 0:
            assert batches.states is None
            place = 0
        assert x[0, 0] == place and torch.equal(y, x + 1)
        place += len(x)
        lengths.add(len(x))
        batches.keep([(torch.ones(1), torch.ones(1))])
    assert (len(lengths) > 1) == vary


def test_locked_dropout_has_one_mask() -> None:
    drop = language_model.Dropout(0.5, locked=True)
    y = drop(torch.ones(5, 4, 32))
    assert torch.equal(y, y[:1].expand(5, 4, 32)) and set(y.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(drop.eval()(y), y)
