"""Speech recognition like Deep Speech 2: convolutions, five bidirectional GRU layers, CTC.

    python speech_ctc.py --quick                        # a minute on a CPU, needs espeak-ng
    python speech_ctc.py --make-data speech.npz         # for a machine without espeak-ng
    python speech_ctc.py --data speech.npz --hidden 800 --precision amp-bf16

Two convolutions over log-mel spectrograms halve the frames; one nn.GRU or nn.LSTM of five layers
reads them both ways, utterances of all lengths packed together; a linear layer and nn.CTCLoss find
the letters.  The first pass takes short utterances first, later ones draw their batches.  At the
end: errors of letters on utterances that were kept apart, and some of what was understood.

The model is Amodei et al., "Deep Speech 2", 2016, smaller.  speech_data.py makes the speech.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

import kit
import kit_data
import speech_data
from speech_data import LETTERS, Speech


class Convolution(nn.Module):
    """A 2-d convolution, batch norm and a clipped ReLU; padding frames are 0 before and after."""

    def __init__(self, inputs: int, outputs: int, kernel: tuple[int, int],
                 stride: tuple[int, int]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.activation = nn.Hardtanh(0, 20)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """x: [N,C,mels,frames]; mask: [N,1,1,frames'], 1 for frames of the result that count."""
        return self.activation(self.norm(self.convolution(x))) * mask


class Recogniser(nn.Module):
    """Log-mel frames to logarithms of letters' probabilities."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.first = Convolution(1, args.channels, (21, 11), (2, 2))
        self.second = Convolution(args.channels, args.channels, (11, 11), (2, 1))
        bands = (args.mels + 3) // 4
        kind = nn.GRU if args.cell == "gru" else nn.LSTM
        self.rnn = kind(args.channels * bands, args.hidden, num_layers=args.layers,
                        bidirectional=True)
        self.letters = nn.Linear(2 * args.hidden, len(LETTERS))

    def forward(self, x: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """x: [N,frames,mels]; frames: [N] on the CPU.  Returns [output_frames(frames),N,letters]
        in float32."""
        count = output_frames(frames)
        steps = torch.arange(int(count.max()))
        mask = (steps < count[:, None]).to(x.device, x.dtype, non_blocking=True)[:, None, None]
        x = self.first(x.transpose(1, 2).unsqueeze(1).contiguous(), mask)
        x = self.second(x, mask)
        x = x.flatten(1, 2).permute(2, 0, 1)
        packed, _ = self.rnn(pack_padded_sequence(x, count, enforce_sorted=False))
        y, _ = pad_packed_sequence(packed)
        return self.letters(y).float().log_softmax(-1)


def output_frames(frames: torch.Tensor) -> torch.Tensor:
    """The number of frames after the first convolution, whose stride is 2."""
    return (frames + 1) // 2


class Batch:
    """Utterances on the device.  x: [N,frames,mels]; frames, lengths: [N] on the CPU;
    targets: all letters in a row."""

    def __init__(self, speech: Speech, rows: list[int], device: torch.device) -> None:
        features = [speech.features[row] for row in rows]
        self.texts = [speech.texts[row] for row in rows]
        self.frames = torch.tensor([len(f) for f in features])
        self.x = pad_sequence(features, batch_first=True).to(device)
        letters = [torch.tensor([LETTERS.index(c) for c in text]) for text in self.texts]
        self.lengths = torch.tensor([len(t) for t in letters])
        self.targets = torch.cat(letters).to(device)


def hide(x: torch.Tensor, draw: torch.Generator, bands: int = 8, frames: int = 30) -> torch.Tensor:
    """A copy of x [N,frames,mels] with a few neighbouring bands and frames of each utterance at 0.

    Up to `bands` and `frames` of them: Park et al. 2019, "SpecAugment".
    """
    hidden = torch.zeros(x.shape, dtype=torch.bool)
    for axis, most in ((1, frames), (2, bands)):
        size = x.shape[axis]
        width, place = (torch.rand(2, x.shape[0], generator=draw) *
                        torch.tensor([[min(most, size)], [size]])).long()
        distance = torch.arange(size) - place[:, None]
        covered = (distance >= 0) & (distance < width[:, None])
        hidden |= covered.unsqueeze(3 - axis)
    return x.masked_fill(hidden.to(x.device, non_blocking=True), 0.0)


def decode(scores: torch.Tensor, count: int) -> str:
    """The likeliest letter of each of `count` frames; repeats, then blanks, are left out.

    scores: [frames,letters].
    """
    best = scores[:count].argmax(-1).unique_consecutive().tolist()
    return "".join(LETTERS[k] for k in best if k)


def edits(a: str, b: str) -> int:
    """Letters to insert, delete or replace to make b of a (Levenshtein's distance)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@torch.no_grad()
def evaluate(model: nn.Module, batches: list[Batch]) -> list[tuple[str, str]]:
    """Pairs of the spoken and the recognised text."""
    model.eval()
    pairs = []
    for batch in batches:
        scores = model(batch.x, batch.frames).cpu()
        counts = output_frames(batch.frames).tolist()
        pairs += [(text, decode(scores[:, n], counts[n])) for n, text in enumerate(batch.texts)]
    model.train()
    return pairs


def train(run: kit.Run) -> None:
    """One side's training."""
    args = run.args
    speech = speech_data.load(args.data, args.mels, args.sentences, args.longest)
    held_out = max(1, len(speech) // 10)
    rows = list(range(len(speech)))
    training, testing = ([Batch(speech, part, run.device) for part in
                          speech_data.batches(speech, rows_of, args.batch)]
                         for rows_of in (rows[held_out:], rows[:held_out]))
    model = run.model(lambda: Recogniser(args))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion, draw = nn.CTCLoss(zero_infinity=True), torch.Generator().manual_seed(args.seed)
    source = kit_data.endless(training, args.seed, shuffle_first=False)
    for step, batch in zip(run.loop(), source):
        warm = min(1.0, (step + 1) / args.warm_up)
        for group in optimizer.param_groups:
            group["lr"] = args.lr * warm
        with run.autocast():
            x = hide(batch.x, draw) if args.hide else batch.x
            scores = model(x, batch.frames)
        loss = criterion(scores, batch.targets, output_frames(batch.frames), batch.lengths)
        run.optimise(loss, optimizer, clip=args.clip)
        run.record(loss, samples=len(batch.texts))
    pairs = evaluate(model, testing)
    wrong = sum(edits(said, heard) for said, heard in pairs)
    run.figure("errors per letter, held out", wrong / sum(len(said) for said, _ in pairs))
    print(f"\n{run.side} understood:")
    for said, heard in pairs[:args.show]:
        print(f"  said  {said}\n  heard {heard}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = kit.arguments(__doc__)
    kit_data.add_arguments(parser)
    parser.add_argument("--sentences", type=int, default=600, help="how many to use")
    parser.add_argument("--longest", type=float, default=60.0, help="seconds a sentence may take")
    parser.add_argument("--cell", choices=("gru", "lstm"), default="gru")
    parser.add_argument("--hidden", type=int, default=512, help="units of a layer and direction")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--channels", type=int, default=32, help="of the convolutions")
    parser.add_argument("--mels", type=int, default=40, help="bands of the spectrogram")
    parser.add_argument("--batch", type=int, default=16, help="utterances")
    parser.add_argument("--lr", type=float, default=5e-4, help="Adam's rate")
    parser.add_argument("--warm-up", type=int, default=20, help="steps until the rate is full")
    parser.add_argument("--clip", type=float, default=1.0, help="limit of the gradients' norm")
    parser.add_argument("--hide", action=argparse.BooleanOptionalAction, default=True,
                        help="hide bands and frames of what is trained on")
    parser.add_argument("--show", type=int, default=3, help="utterances to print at the end")
    quick = dict(steps=200, sentences=400, longest=2.0, hidden=64, channels=8, batch=8, lr=2e-3)
    return kit.parse(parser, steps=2000, quick=quick)


def main() -> int:
    """Make the speech if none is given, so that both sides hear the same, and train."""
    args = parse()
    return kit_data.main(args, lambda path: speech_data.make(path, args.sentences), train,
                         unit="utterances")


if __name__ == "__main__":
    raise SystemExit(main())
