"""The trainings speech_ctc, translate and policy_ppo of examples/torch run, and agree with torch.

Sizes end in seconds.  ECORNN_TESTS=all runs each as a user starts it, too.  Where no libecornn is found, only
torch's side runs.  What they work on is checked by hand: units, catalogues, letters, poles.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "torch"
if not (FOLDER / "kit.py").exists():
    pytest.skip("installed without the examples", allow_module_level=True)
sys.path[:0] = [str(FOLDER), str(ROOT / "python")]

import kit  # noqa: E402
import policy_ppo  # noqa: E402
import policy_world  # noqa: E402
import speech_ctc  # noqa: E402
import speech_data  # noqa: E402
import translate  # noqa: E402
import translate_data  # noqa: E402


SIDES = ["torch"] if kit.find_ecornn() else ["torch", "ecornn"]


def process(name: str, *options: str) -> subprocess.CompletedProcess:
    """Run an example as a user starts it."""
    command = [sys.executable, str(FOLDER / name), *options]
    paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))})


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["here", "process"])
def start(request: pytest.FixtureRequest, here: Callable) -> Callable:
    return process if request.param else here


def run(start: Callable, name: str, folder: Path, *options: str) -> dict:
    """Run an example with --quick on the CPU.  Returns what it writes with --json."""
    report = folder / "report.json"
    done = start(name, "--quick", "--device", "cpu", "--threads", "1", "--rnn",
                 "both" if len(SIDES) == 2 else "torch", "--json", str(report), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "peak MB" in done.stdout
    figures = json.loads(report.read_text())
    assert list(figures["results"]) == SIDES
    for result in figures["results"].values():
        assert np.isfinite(result["loss"]).all() and min(result["seconds"]) > 0
    return figures


def write_catalogue(path: Path, pairs: dict[str, str], order: str = "<") -> None:
    """A .mo file, as gettext's manual describes it."""
    data, tables = b"", [b"", b""]
    start = 28 + 16 * len(pairs)
    for side, texts in enumerate((pairs.keys(), pairs.values())):
        for text in texts:
            raw = text.encode()
            tables[side] += struct.pack(order + "II", len(raw), start + len(data))
            data += raw + b"\0"
    head = struct.pack(order + "7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + tables[0] + tables[1] + data)


@pytest.fixture
def locales(tmp_path: Path) -> str:
    """A folder of catalogues of a language "xx", whose words are reversed."""
    words = "file not found cannot open read the directory list of a string write".split()
    draw = np.random.default_rng(1)
    texts = sorted({" ".join(draw.choice(words, draw.integers(2, 9))) for _ in range(300)})
    pairs = {"": "Content-Type: text/plain; charset=UTF-8\n"}
    pairs.update((text, " ".join(word[::-1] for word in text.split())) for text in texts)
    write_catalogue(tmp_path / "xx" / "LC_MESSAGES" / "a.mo", pairs)
    return str(tmp_path)


@pytest.mark.skipif(not speech_data.have_espeak(), reason="espeak-ng is missing")
def test_speech(tmp_path: Path, start: Callable) -> None:
    figures = run(start, "speech_ctc.py", tmp_path, "--exact", "--steps", "6", "--sentences", "40",
                  "--batch", "4", "--layers", "2", "--hidden", "16", "--channels", "2")
    for side in SIDES:
        assert 0 < figures["summary"][side]["errors per letter, held out"]
    assert figures.get("difference", 0) < 1e-4


@pytest.mark.parametrize("feeding", [pytest.param((), marks=pytest.mark.long),
                                     pytest.param(("--input-feeding", "--layers", "2"),
                                                  marks=pytest.mark.long),
                                     pytest.param(("--fused-attention",), marks=pytest.mark.long),
                                     ("--fused-attention", "--input-feeding")])
def test_translate(tmp_path: Path, start: Callable, locales: str, feeding: tuple[str, ...]) -> None:
    data = str(tmp_path / "pairs.npz")
    translate_data.make(data, "xx", None, 100, root=locales)
    figures = run(start, "translate.py", tmp_path, "--exact", "--data", data, "--steps", "20", "--hidden",
                  "24", "--embedding", "16", "--batch", "16", *feeding)
    losses = figures["results"]["torch"]["loss"]
    assert losses[-1] < losses[0]
    assert figures.get("difference", 0) < 1e-4


def test_policy(tmp_path: Path, start: Callable) -> None:
    figures = run(start, "policy_ppo.py", tmp_path, "--steps", "3", "--environments", "8", "--rollout",
                  "32", "--limit", "50", "--hidden", "16")
    for side in SIDES:
        assert figures["summary"][side]["steps a second, acting"] > 0


def test_policy_refuses_exact() -> None:
    command = [sys.executable, str(FOLDER / "policy_ppo.py"), "--quick", "--exact"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "--exact" in done.stderr


@pytest.mark.parametrize("name, text", [("speech_ctc.py", "espeak-ng is missing"),
                                        ("translate.py", "no catalogues of xyz")])
def test_missing_data(tmp_path: Path, start: Callable, monkeypatch: pytest.MonkeyPatch, name: str,
                      text: str) -> None:
    """An error says in one line what to do, before anything is trained."""
    options = ["--language", "xyz"] if name == "translate.py" else []
    monkeypatch.setenv("PATH", str(tmp_path))
    done = start(name, "--quick", *options)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and text in said and "--make-data" in said
    assert "Traceback" not in said


def test_spelling_and_errors() -> None:
    assert speech_data.spelling("Don't do this, twice-over.") == "don't do this twice over"
    assert [speech_ctc.edits(*pair) for pair in
            (("", ""), ("abc", ""), ("kitten", "sitting"), ("ab", "ba"))] == [0, 3, 3, 2]
    letters = torch.tensor([speech_data.LETTERS.index(c) for c in "aa_ab__b"])
    scores = torch.nn.functional.one_hot(letters, len(speech_data.LETTERS))
    assert speech_ctc.decode(scores, 8) == "aabb"
    assert speech_ctc.decode(scores, 3) == "a"


def test_sound() -> None:
    """Sound survives its encoding as bytes, and a tone is in the band of its frequency."""
    seconds = np.arange(22050) / 22050
    tone = speech_data.resample(0.5 * np.sin(2 * np.pi * 1000 * seconds), 22050)
    assert abs(len(tone) - speech_data.RATE) <= 1 and abs(np.abs(tone).max() - 0.5) < 0.01
    heard = speech_data.from_mulaw(speech_data.to_mulaw(tone))
    assert np.abs(heard - tone).max() < 0.02
    filters = speech_data.mel_filters(40)
    assert (filters >= 0).all() and (filters.sum(0) > 0).all()
    bands = speech_data.log_mel(torch.from_numpy(heard), filters).mean(0)
    expected = filters[round(1000 * speech_data.WINDOW / speech_data.RATE)].argmax()
    assert bands.argmax() == expected


def test_hidden_parts() -> None:
    x = torch.ones(6, 50, 20)
    hidden = speech_ctc.hide(x, torch.Generator().manual_seed(2)) == 0
    assert hidden.any() and not hidden.all() and (x == 1).all()
    assert (hidden.all(2).sum(1) <= 30).all() and (hidden.all(1).sum(1) <= 8).all()
    # Only whole bands and whole frames are masked.
    assert (hidden == (hidden.all(2)[:, :, None] | hidden.all(1)[:, None])).all()


def test_units(locales: str, tmp_path: Path) -> None:
    """Units give back their texts; frequent words are one unit."""
    path = str(tmp_path / "units.npz")
    assert "xx" in translate_data.make(path, "most", None, 100, root=locales)
    pairs = translate_data.load(path)
    assert len(pairs.units) <= 100 and translate_data.SPACE + "directory" in pairs.units
    truth = translate_data.messages("xx", locales)
    for source, target in zip(pairs.sources, pairs.targets):
        assert truth[pairs.text(source)] == pairs.text([*target, translate_data.END, 7])
    assert len(translate_data.load(path, limit=5)) == 5
    assert max(map(len, translate_data.load(path, longest=6).targets)) <= 6


def test_merges() -> None:
    """The most frequent pair is merged first, and counts stay right as words change."""
    counts = Counter({"aab": 5, "ab": 4, "aaaa": 3})
    assert translate_data.learn_merges(counts, 2) == [("a", "a"), ("aa", "b")]
    assert translate_data.join(list("aaab"), ("a", "a")) == ["aa", "a", "b"]
    assert translate_data.learn_merges(Counter({"xyz": 1}), 5) == []


def test_catalogues(tmp_path: Path) -> None:
    pairs = {"": "head", "menu\x04_Open": "Öffnen", "%d file\0%d files": "%d Datei\0%d Dateien"}
    for order in "<>":
        path = tmp_path / order / "LC_MESSAGES" / "b.mo"
        write_catalogue(path, pairs, order)
        assert translate_data.read_catalogue(path) == [("_Open", "Öffnen"), ("%d file", "%d Datei")]
        assert translate_data.messages(order, str(tmp_path))["Open"] == "Öffnen"
    path.write_bytes(path.read_bytes()[:40])
    assert translate_data.messages(">", str(tmp_path)) == {}
    path.write_bytes(b"no catalogue")
    assert translate_data.languages(str(tmp_path)) == ["<"]


def test_bleu() -> None:
    text = "the file was not found in the list"
    assert translate.bleu([text], [text]) == pytest.approx(100)
    assert translate.bleu(["nothing of that at all"], [text]) == 0
    # 5 of 8 words, all in order: precision 1, and a penalty for what is missing.
    assert translate.bleu(["the file was not found"], [text]) == pytest.approx(
        100 * np.exp(1 - 8 / 5))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_pieces(cell: str) -> None:
    """A rollout that is cut into pieces gives the results of stepping through it."""
    torch.manual_seed(1)
    draw = np.random.default_rng(3)
    args = policy_ppo.argparse.Namespace(hidden=8, cell=cell)
    policy = policy_ppo.Policy(args)
    started = draw.random((12, 5)) < 0.2
    x, first = torch.randn(12, 5, 2), (torch.randn(1, 5, 8), torch.randn(1, 5, 8))
    first = first if cell == "lstm" else first[0]
    state, logits = first, []
    for t in range(12):
        state = policy_ppo.each(state, lambda s: s * torch.from_numpy(~started[t])[:, None])
        logit, _, state = policy(x[t:t + 1], state)
        logits.append(logit)
    for chosen in (np.arange(5), np.array([3, 1])):
        pieces = policy_ppo.Pieces(started, chosen, torch.device("cpu"))
        state = policy_ppo.each(first, lambda s: s[:, pieces.columns] * pieces.first)
        logit, _, _ = policy(x.flatten(0, 1)[pieces.steps], state, pieces.lengths)
        assert int(pieces.lengths.sum()) == 12 * len(chosen) == len(pieces.places)
        torch.testing.assert_close(logit.flatten()[pieces.places], pieces.real(torch.cat(logits)))


def test_carts() -> None:
    """Poles fall without a policy; carts start anew; an episode has a limit."""
    carts = policy_world.Carts(64, 500, torch.device("cpu"), 1)
    steps = ends = 0
    for _ in range(200):
        ended = carts.step((carts.random(64) < 0.5).long())
        assert (carts.age[ended] == 0).all() and (carts.state[:, ended].abs() <= 0.05).all()
        steps, ends = steps + 64, ends + int(ended.sum())
    assert 15 < steps / ends < 30  # a known figure of this problem: about 22
    carts = policy_world.Carts(3, 4, torch.device("cpu"), 1)
    assert [bool(carts.step(torch.tensor([0, 1, 0]).roll(t)).all()) for t in range(4)] == [
        False, False, False, True]
