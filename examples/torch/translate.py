"""Translation with attention: a bidirectional LSTM encoder, additive attention, an LSTM decoder.

    python translate.py --quick                             # a minute on a CPU
    python translate.py --input-feeding --language de       # attention's result goes into each step
    python translate.py --fused-attention                   # ecornn's side has its attention, too
    python translate.py --make-data de.npz --language de    # for a machine without catalogues
    python translate.py --data de.npz --hidden 1024 --precision amp-bf16

The pairs are messages of programs and their translations.  Source texts of all lengths are packed
together.  Without --input-feeding the decoder runs over all steps at once and attention follows it
(Luong et al. 2015); with it the decoder runs step by step, as in Bahdanau et al. 2015 and most
systems of that time.  At the end: BLEU and exact matches of texts that were kept apart, and some
translations.  translate_data.py makes pairs and units.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

import kit
import kit_data
import translate_data
from translate_data import BEGIN, END, PAD, Pairs

State = tuple[torch.Tensor, torch.Tensor]


class Attention(nn.Module):
    """Scores w tanh(A query + B memory), their softmax over the source, the mean of the memory.

    fused: ecornn.torch.attention, which makes no array [T,S,N,H] of what tanh gives; or None.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fused = None
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(2 * hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.result = nn.Linear(3 * hidden, hidden)

    def forward(self, y: torch.Tensor, source: Source) -> torch.Tensor:
        """y: [T,N,H] of the decoder. Returns [T,N,H]: the attention's context mixed with y."""
        if self.fused:
            found = self.fused(self.query(y), source.keys, source.memory, self.score.weight[0],
                               lengths=source.lengths)
        else:
            scores = self.score(torch.tanh(self.query(y)[:, None] + source.keys)).squeeze(-1)
            scores = scores.masked_fill(source.padding, torch.finfo(scores.dtype).min)
            found = torch.einsum("tsn,snh->tnh", scores.softmax(1), source.memory)
        return torch.tanh(self.result(torch.cat([found, y], -1)))


class Source:
    """What the decoder needs of an encoded batch.  memory: [S,N,2H]; keys: [S,N,H];
    padding: [S,N] of bool; lengths: [N]; state: the decoder's first."""

    def __init__(self, memory: torch.Tensor, keys: torch.Tensor, padding: torch.Tensor,
                 state: State) -> None:
        self.memory, self.keys, self.padding, self.state = memory, keys, padding, state
        self.lengths = (~padding).sum(0, dtype=torch.int32)


class Translator(nn.Module):
    """Encoder, attention and decoder over `units` units, which both languages share."""

    def __init__(self, args: argparse.Namespace, units: int) -> None:
        super().__init__()
        hidden, fed = args.hidden, args.hidden if args.input_feeding else 0
        self.input_feeding, self.layers = args.input_feeding, args.layers
        self.embedding = nn.Embedding(units, args.embedding, padding_idx=PAD)
        self.encoder = nn.LSTM(args.embedding, hidden, args.layers, bidirectional=True)
        self.bridge = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(2))
        self.decoder = nn.LSTM(args.embedding + fed, hidden, args.layers)
        self.attention = Attention(hidden)
        self.dropout = nn.Dropout(args.dropout)
        self.output = nn.Linear(hidden, units)

    def encode(self, source: torch.Tensor, lengths: torch.Tensor) -> Source:
        """source: [S,N] of unit numbers; lengths: [N] on the CPU."""
        x = self.dropout(self.embedding(source))
        packed, state = self.encoder(pack_padded_sequence(x, lengths, enforce_sorted=False))
        memory, _ = pad_packed_sequence(packed)
        # [layers*2,N,H] -> [layers,N,2H]: both directions' last states make the decoder's first.
        pairs = [s.unflatten(0, (self.layers, 2)).transpose(1, 2).flatten(2) for s in state]
        h, c = (linear(pair) for linear, pair in zip(self.bridge, pairs))
        return Source(memory, self.attention.key(memory), source == PAD, (torch.tanh(h), c))

    def decode(self, target: torch.Tensor, source: Source, state: State,
               fed: torch.Tensor | None) -> tuple[torch.Tensor, State, torch.Tensor]:
        """target: [T,N] of unit numbers; fed: attention's last result [N,H], None at the start.

        Returns logits [T,N,units], the last state, and attention's last result.
        """
        x = self.dropout(self.embedding(target))
        if not self.input_feeding:
            y, state = self.decoder(x, state)
            found = self.attention(y, source)
        else:
            if fed is None:
                fed = state[0].new_zeros(state[0].shape[1:])
            results = []
            for step in x.to(fed.dtype).split(1):
                y, state = self.decoder(torch.cat([step, fed[None]], -1), state)
                fed = self.attention(y, source)[0].to(fed.dtype)
                results.append(fed)
            found = torch.stack(results)
        return self.output(self.dropout(found)), state, found[-1]

    def forward(self, source: torch.Tensor, lengths: torch.Tensor,
                target: torch.Tensor) -> torch.Tensor:
        """Logits [T,N,units] of the units that follow `target` [T,N], which begins with BEGIN."""
        encoded = self.encode(source, lengths)
        return self.decode(target, encoded, encoded.state, None)[0]

    @torch.no_grad()
    def translate(self, source: torch.Tensor, lengths: torch.Tensor, steps: int) -> torch.Tensor:
        """The likeliest unit of each step, [steps,N]."""
        encoded = self.encode(source, lengths)
        unit, state, fed = source.new_full((1, source.shape[1]), BEGIN), encoded.state, None
        result = []
        for _ in range(steps):
            logits, state, fed = self.decode(unit, encoded, state, fed)
            unit = logits.argmax(-1)
            result.append(unit)
        return torch.cat(result)


class Batch:
    """Pairs on the device.  source: [S,N]; lengths: [N] on the CPU; target: [T,N], with BEGIN;
    following: [T,N], with END; count: units to guess; rows: which pairs they are."""

    def __init__(self, pairs: Pairs, rows: list[int], device: torch.device) -> None:
        self.rows = rows
        self.lengths = torch.tensor([len(pairs.sources[row]) for row in rows])
        self.source = pad_sequence([torch.from_numpy(pairs.sources[row]) for row in rows],
                                   padding_value=PAD).to(device)
        marked = [torch.tensor([BEGIN, *pairs.targets[row], END]) for row in rows]
        self.target = pad_sequence([t[:-1] for t in marked], padding_value=PAD).to(device)
        self.following = pad_sequence([t[1:] for t in marked], padding_value=PAD).to(device)
        self.count = sum(len(t) - 1 for t in marked)


def batches(pairs: Pairs, rows: list[int], size: int, device: torch.device) -> list[Batch]:
    """`rows` in batches of texts of similar length."""
    order = sorted(rows, key=lambda row: (len(pairs.targets[row]), len(pairs.sources[row])))
    return [Batch(pairs, order[k:k + size], device) for k in range(0, len(order), size)]


def bleu(guesses: list[str], truths: list[str]) -> float:
    """Papineni et al. 2002 over all texts: precision of 1 to 4 words, 0 to 100."""
    logs, lengths = 0.0, [0, 0]
    texts = [[translate_data.words(text) for text in side] for side in (guesses, truths)]
    for order in range(1, 5):
        hits = total = 0
        for guess, truth in zip(*texts):
            a, b = (Counter(zip(*(text[k:] for k in range(order)))) for text in (guess, truth))
            hits += sum((a & b).values())
            total += sum(a.values())
        if not hits:
            return 0.0
        logs += math.log(hits / total) / 4
    lengths = [sum(map(len, side)) for side in texts]
    return 100 * math.exp(logs + min(0.0, 1 - lengths[1] / max(1, lengths[0])))


def evaluate(run: kit.Run, model: nn.Module, pairs: Pairs, testing: list[Batch]) -> None:
    """Translate the texts that were kept apart; figures, and some of them in print."""
    model.eval()
    guesses = {}
    for batch in testing:
        with run.autocast():
            units = model.translate(batch.source, batch.lengths, len(batch.following) + 10)
        guesses.update(zip(batch.rows, (pairs.text(column) for column in units.T.tolist())))
    truths = {row: pairs.text(pairs.targets[row]) for row in guesses}
    run.figure("BLEU, held out", bleu(list(guesses.values()), list(truths.values())))
    run.figure("exact matches, percent",
               100 * sum(guesses[row] == truths[row] for row in guesses) / len(guesses))
    print(f"\n{run.side} translates:")
    for row in sorted(guesses)[:run.args.show]:
        print(f"  text   {pairs.text(pairs.sources[row])}\n  guess  {guesses[row]}\n"
              f"  truth  {truths[row]}")


def train(run: kit.Run) -> None:
    """One side's training."""
    args = run.args
    pairs = translate_data.load(args.data, args.pairs, args.longest)
    held_out = min(args.held_out, len(pairs) // 10)
    training = batches(pairs, list(range(held_out, len(pairs))), args.batch, run.device)
    testing = batches(pairs, list(range(held_out)), args.batch, run.device)
    model = run.model(lambda: Translator(args, len(pairs.units)))
    if args.fused_attention and run.side == "ecornn":
        from ecornn.torch import attention

        model.attention.fused = attention
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    for _, batch in zip(run.loop(), kit_data.endless(training, args.seed)):
        with run.autocast():
            logits = model(batch.source, batch.lengths, batch.target)
            loss = criterion(logits.flatten(0, 1).float(), batch.following.flatten())
        run.optimise(loss, optimizer, clip=args.clip)
        run.record(loss, samples=batch.count)
    evaluate(run, model, pairs, testing)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = kit.arguments(__doc__)
    kit_data.add_arguments(parser)
    parser.add_argument("--language", default="most",
                        help="such as de (default: the one with most messages)")
    parser.add_argument("--pairs", type=int, help="how many to use (default: all)")
    parser.add_argument("--units", type=int, default=8000, help="to cut words into")
    parser.add_argument("--longest", type=int, default=50, help="units of a text, at most")
    parser.add_argument("--input-feeding", action="store_true",
                        help="attention's result goes into the decoder's next step")
    parser.add_argument("--fused-attention", action="store_true",
                        help="ecornn's side: attention by ecornn, too")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--embedding", type=int, default=512)
    parser.add_argument("--layers", type=int, default=1, help="of encoder and decoder")
    parser.add_argument("--dropout", type=float, default=0.2, help="of embeddings and results")
    parser.add_argument("--batch", type=int, default=64, help="pairs")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's rate")
    parser.add_argument("--clip", type=float, default=1.0, help="limit of the gradients' norm")
    parser.add_argument("--held-out", type=int, default=500, help="pairs to test with")
    parser.add_argument("--show", type=int, default=4, help="translations to print at the end")
    quick = dict(steps=600, pairs=4000, units=1000, longest=30, hidden=96, embedding=96,
                 batch=32, lr=4e-3, held_out=100)
    return kit.parse(parser, steps=4000, quick=quick)


def main() -> int:
    """Make the pairs if none are given, so that both sides get the same, and train."""
    args = parse()
    return kit_data.main(args, lambda path: translate_data.make(path, args.language, args.pairs,
                                                                args.units), train, unit="units")


if __name__ == "__main__":
    raise SystemExit(main())
