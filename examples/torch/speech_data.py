"""Spoken sentences for speech_ctc.py: espeak-ng reads them out, torch.stft makes spectrograms.

The sentences come from the docstrings of Python's own library, so every machine has them.  Voice,
speed and pitch differ from sentence to sentence.  A file keeps the sound as mu-law bytes, 8000 a
second, for machines without espeak-ng; about 20 kB a sentence.  It knows nothing of models.
"""

from __future__ import annotations

import ast
import io
import math
import random
import re
import shutil
import subprocess
import wave
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

RATE = 8000  # samples a second
WINDOW, HOP = 256, 80  # 32 ms and 10 ms
LETTERS = "_ 'abcdefghijklmnopqrstuvwxyz"  # the first is CTC's blank
MU = 255.0  # the constant of G.711
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-029")
SPEAKERS = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5")


@dataclass
class Speech:
    """Utterances: features[k] is [frames,mels] float32, texts[k] what was said."""

    features: list[torch.Tensor]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)


def have_espeak() -> bool:
    """Whether the program espeak-ng is installed."""
    return shutil.which("espeak-ng") is not None


def sentences(count: int, seed: int) -> list[str]:
    """Up to `count` different sentences of 20 to 80 characters, without digits or code."""
    found: dict[str, None] = {}
    paths = sorted(Path(ast.__file__).parent.rglob("*.py"))
    random.Random(seed).shuffle(paths)
    for path in paths:
        if not {"test", "tests", "site-packages", "dist-packages"} & set(path.parts):
            found.update(dict.fromkeys(sentences_of(path)))
        if len(found) >= count:
            break
    return list(found)[:count]


def sentences_of(path: Path) -> list[str]:
    """The plain English sentences in the docstrings of a Python source."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    parts = [part for text in texts for part in re.split(r"(?<=[.!?])\s", text)]
    parts = [" ".join(part.split()) for part in parts]
    return [part for part in parts if 20 <= len(part) <= 80 and len(part.split()) >= 4
            and re.fullmatch(r"[A-Z][A-Za-z,' -]+[a-z][.!?]", part)]


def spelling(text: str) -> str:
    """The text in LETTERS, as the model should write it."""
    return " ".join(re.sub(r"[^a-z' ]", " ", text.lower()).split())


def speak(text: str, voice: str, speed: int, pitch: int) -> np.ndarray:
    """Sound of a sentence, float32 in -1..1, RATE a second.  Raises CalledProcessError."""
    command = ["espeak-ng", "--stdout", "-v", voice, "-s", str(speed), "-p", str(pitch), text]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    data = bytearray(done.stdout)
    # espeak-ng cannot seek in a pipe and leaves impossible lengths in the header.
    data[4:8] = (len(data) - 8).to_bytes(4, "little")
    data[40:44] = (len(data) - 44).to_bytes(4, "little")
    with wave.open(io.BytesIO(bytes(data))) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768.0
        return resample(sound, file.getframerate())


def resample(sound: np.ndarray, rate: int) -> np.ndarray:
    """Resample sound from `rate` samples a second to RATE, by cutting high frequencies off."""
    count = len(sound) * RATE // rate
    spectrum = np.fft.rfft(sound)[:count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * (count / len(sound))).astype(np.float32)


def to_mulaw(sound: np.ndarray) -> np.ndarray:
    """Encode sound in -1..1 as bytes."""
    x = np.clip(sound, -1, 1)
    return np.round((np.sign(x) * np.log1p(MU * np.abs(x)) / np.log1p(MU) + 1) * 127.5).astype("u1")


def from_mulaw(data: np.ndarray) -> np.ndarray:
    """Decode bytes to sound in -1..1."""
    x = data.astype(np.float32) / 127.5 - 1
    return np.sign(x) * np.expm1(np.abs(x) * np.float32(math.log1p(MU))) / np.float32(MU)


def make(path: str, count: int, seed: int = 1) -> str:
    """Have `count` sentences spoken and write them to `path`.  Returns one line about it.

    Raises RuntimeError where espeak-ng is missing.
    """
    if not have_espeak():
        raise RuntimeError("espeak-ng is missing: install it, or give --data FILE.npz, made on "
                           "another machine with --make-data FILE.npz")
    texts, draw = sentences(count, seed), random.Random(seed + 1)
    voices = [f"{draw.choice(ACCENTS)}+{draw.choice(SPEAKERS)}" for _ in texts]
    speeds = [draw.randint(140, 220) for _ in texts]
    pitches = [draw.randint(30, 70) for _ in texts]
    with ThreadPoolExecutor() as pool:
        sounds = [to_mulaw(s) for s in pool.map(speak, texts, voices, speeds, pitches)]
    lengths = np.array([len(s) for s in sounds], np.int64)
    spelt = "\n".join(spelling(text) for text in texts)
    np.savez_compressed(path, sound=np.concatenate(sounds), lengths=lengths,
                        texts=np.frombuffer(spelt.encode(), np.uint8))
    return (f"{len(texts)} sentences, {lengths.sum() / RATE / 60:.1f} minutes, "
            f"{Path(path).stat().st_size / 1e6:.1f} MB")


def mel_filters(mels: int) -> torch.Tensor:
    """Triangles [WINDOW/2+1,mels], equally wide on the mel scale from 60 Hz to RATE/2.

    The scale is O'Shaughnessy's, 2595 log10(1 + f/700).
    """
    def to_mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    corners = torch.linspace(to_mel(60), to_mel(RATE / 2), mels + 2)
    corners = 700 * (10 ** (corners / 2595) - 1)
    f = torch.arange(WINDOW // 2 + 1)[:, None] * (RATE / WINDOW)
    up = (f - corners[:-2]) / (corners[1:-1] - corners[:-2])
    down = (corners[2:] - f) / (corners[2:] - corners[1:-1])
    return torch.minimum(up, down).clamp(min=0)


def log_mel(sound: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """Log energies [frames,mels] of sound [samples], mean 0 and deviation 1 over the utterance."""
    window = torch.hann_window(WINDOW)
    spectrum = torch.stft(sound, WINDOW, HOP, window=window, return_complex=True)
    energy = torch.log(spectrum.abs().square().T @ filters + 1e-6)
    return (energy - energy.mean()) / energy.std()


def load(path: str, mels: int, limit: int | None = None, longest: float = 60.0) -> Speech:
    """Read what `make` wrote: the first `limit` utterances, without those over `longest` seconds."""
    with np.load(path) as file:
        sound, lengths = file["sound"], file["lengths"]
        texts = file["texts"].tobytes().decode().split("\n")
    ends, filters = np.cumsum(lengths), mel_filters(mels)
    speech = Speech([], [])
    for end, length, text in list(zip(ends, lengths, texts))[:limit]:
        if length <= longest * RATE:
            wave_form = torch.from_numpy(from_mulaw(sound[end - length:end]))
            speech.features.append(log_mel(wave_form, filters))
            speech.texts.append(text)
    return speech


def batches(speech: Speech, rows: list[int], size: int) -> list[list[int]]:
    """`rows` in batches of `size` utterances of similar length, short ones first.

    The last, smaller batch is left out unless it is the only one.
    """
    order = sorted(rows, key=lambda row: len(speech.features[row]))
    parts = [order[k:k + size] for k in range(0, len(order), size)]
    return [part for part in parts if len(part) == size] or parts
