"""Train a word-level language model with torch.nn's LSTM layers and with ecornn's.

--model medium: 2 layers of 650, dropout between them, as Zaremba, Sutskever and Vinyals
("Recurrent neural network regularization", 2014).  --model awd: 3 layers of 1150 between
embeddings of 400, with the dropouts of Merity, Keskar and Socher ("Regularizing and optimizing
LSTM language models", 2017), but for that on recurrent weights.  Locked dropout, one mask for all
steps of a row, is that of Gal and Ghahramani (2016).  Input and output embeddings are the same
weights (Press and Wolf, 2017; Inan and others, 2017).  The text: see words.py.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

import kit
import words

MODELS = {
    "medium": dict(layers=2, hidden=650, embedding=650, bptt=35, batch=20, masks="plain",
                   dropout=0.5, dropout_inside=0.5, dropout_input=0.5, dropout_words=0.0),
    "awd": dict(layers=3, hidden=1150, embedding=400, bptt=70, batch=80, masks="locked",
                dropout=0.4, dropout_inside=0.25, dropout_input=0.4, dropout_words=0.1),
}
QUICK = dict(steps=60, layers=2, hidden=128, embedding=128, bptt=20, batch=8, words=200_000,
             vocabulary=2000)
States = "list[tuple[Tensor, Tensor]]"


class Dropout(nn.Module):
    """Dropout of [T,N,I].  locked: one mask [1,N,I] for all steps."""

    def __init__(self, probability: float, locked: bool) -> None:
        super().__init__()
        self.probability, self.locked = probability, locked

    def forward(self, x: Tensor) -> Tensor:
        if not self.locked:
            return functional.dropout(x, self.probability, self.training)
        if not self.training or not self.probability:
            return x
        return x * functional.dropout(torch.ones_like(x[:1]), self.probability)


class LanguageModel(nn.Module):
    """Scores of the next word: embedding, LSTM layers, and the embedding again.

    args: vocabulary, embedding, layers, hidden, masks and the dropouts.  With plain masks between
    layers of one width the layers are one nn.LSTM; otherwise each is one of its own.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        locked = args.masks == "locked"
        self.drop_words = args.dropout_words
        self.encoder = nn.Embedding(args.vocabulary, args.embedding)
        if locked or args.hidden != args.embedding:
            ends = [args.embedding, *[args.hidden] * (args.layers - 1), args.embedding]
            self.layers = nn.ModuleList(nn.LSTM(a, b) for a, b in zip(ends, ends[1:]))
        else:
            inside = args.dropout_inside if args.layers > 1 else 0.0
            self.layers = nn.ModuleList([nn.LSTM(args.hidden, args.hidden, args.layers,
                                                 dropout=inside)])
        self.drop_input = Dropout(args.dropout_input, locked)
        self.drop_inside = Dropout(args.dropout_inside, locked)
        self.drop_output = Dropout(args.dropout, locked)
        self.decoder = nn.Linear(args.embedding, args.vocabulary)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor, states: States | None = None) -> tuple[Tensor, States]:
        """Scores [T,N,vocabulary] and the final states, for words [T,N] and initial states."""
        weight = self.encoder.weight
        if self.training and self.drop_words:  # a word is dropped at all of its positions
            weight = weight * functional.dropout(weight.new_ones(len(weight), 1), self.drop_words)
        y = self.drop_input(functional.embedding(x, weight))
        final = []
        for k, layer in enumerate(self.layers):
            y = self.drop_inside(y) if k else y
            y, state = layer(y, states[k] if states else None)
            final.append(state)
        return self.decoder(self.drop_output(y)), final


def columns(ids: Tensor, batch: int, device: torch.device) -> Tensor:
    """A text [words] as `batch` texts side by side, [words / batch, batch].

    Raises ValueError for a text too short to have two rows.
    """
    rows = len(ids) // batch
    if rows < 2:
        raise ValueError(f"{len(ids)} words are too few for a batch of {batch}")
    return ids[:rows * batch].view(batch, rows).t().contiguous().to(device)


class Batches:
    """Pieces of the text in turn, with the states carried from one to the next.

    At the text's end it begins again, with states of zero.  vary: lengths are drawn as in the
    AWD-LSTM's paper, mostly around bptt, sometimes around half of it, from a seed of their own.
    """

    def __init__(self, text: Tensor, bptt: int, vary: bool = False) -> None:
        if len(text) <= bptt:
            raise ValueError(f"{len(text)} rows of words are too few for {bptt} steps")
        self.text, self.bptt, self.vary = text, bptt, vary
        self.place = 0
        self.states: States | None = None
        self.lengths = random.Random(1)

    def next(self) -> tuple[Tensor, Tensor]:
        """Words [T,N] and the words that follow, [T,N]."""
        steps = self.bptt
        if self.vary:
            mean = steps if self.lengths.random() < 0.95 else steps / 2
            steps = max(5, round(self.lengths.gauss(mean, 5)))
        steps = min(steps, len(self.text) - 1)
        if self.place + steps >= len(self.text):
            self.place, self.states = 0, None
        x = self.text[self.place:self.place + steps]
        y = self.text[self.place + 1:self.place + 1 + steps]
        self.place += steps
        return x, y

    def keep(self, states: States) -> None:
        """The states that the next piece begins with; no gradient passes to the last piece."""
        self.states = [tuple(s.detach() for s in state) for state in states]


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Mean loss over all words, in nats."""
    return functional.cross_entropy(scores.flatten(0, 1), y.flatten())


def perplexity(run: kit.Run, model: nn.Module, text: Tensor, bptt: int) -> float:
    """The loss of a text [rows,N]; the model is left in training mode."""
    model.eval()
    batches, total, count = Batches(text, bptt), 0.0, 0
    with torch.no_grad(), run.autocast():
        for _ in range((len(text) - 1) // bptt):
            x, y = batches.next()
            scores, states = model(x, batches.states)
            batches.keep(states)
            total, count = total + cross_entropy(scores, y), count + 1
    model.train()
    return math.exp(min(float(total) / count, 700.0))


def optimizer_of(args: argparse.Namespace, model: nn.Module) -> torch.optim.Optimizer:
    """SGD or AdamW with the options' learning rate and weight decay."""
    if args.optimizer == "sgd":
        # At 20 weights that differ by 1e-7 give losses that differ by 2e-3 after 100 steps.
        return torch.optim.SGD(model.parameters(), lr=args.lr or (1.0 if args.exact else 20.0),
                               weight_decay=args.weight_decay)
    return torch.optim.AdamW(model.parameters(), lr=args.lr or 1e-3,
                             weight_decay=args.weight_decay)


def train_steps(run: kit.Run, model: nn.Module, batches: Batches) -> None:
    """The training: run.args.steps pieces of the text."""
    optimizer = optimizer_of(run.args, model)
    for _ in run.loop():
        x, y = batches.next()
        with run.autocast():
            scores, states = model(x, batches.states)
            loss = cross_entropy(scores, y)
        batches.keep(states)
        run.optimise(loss, optimizer, clip=run.args.clip)
        run.record(loss, samples=x.numel())


def train(run: kit.Run) -> None:
    """One side's training and its validation."""
    args = run.args
    ids, valid, vocabulary = words.load(args.text, args.words, args.vocabulary)
    args.vocabulary = len(vocabulary)
    text = columns(ids, args.batch, run.device)
    model = run.model(lambda: LanguageModel(args))
    train_steps(run, model, Batches(text, args.bptt, args.vary))
    valid = columns(valid, min(args.batch, 10), run.device)
    bptt = min(args.bptt, len(valid) - 1)
    run.figure("validation perplexity", perplexity(run, model, valid, bptt))


def options(description: str | None, argv: list[str] | None = None,
            more: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.Namespace:
    """The parsed command line.  A model's sizes are defaults that options and --quick replace.

    more: a function that adds options to the parser.
    """
    parser = kit.arguments(description)
    if more:
        more(parser)
    parser.add_argument("--model", choices=MODELS, default="medium")
    for name, kind in (("layers", int), ("hidden", int), ("embedding", int), ("bptt", int),
                       ("batch", int), ("dropout", float), ("dropout-inside", float),
                       ("dropout-input", float), ("dropout-words", float)):
        parser.add_argument(f"--{name}", type=kind, help="default: the model's")
    parser.add_argument("--masks", choices=("plain", "locked"),
                        help="dropout of each step anew, or one mask for all; default: the model's")
    parser.add_argument("--vary", action="store_true", help="pieces of text of varied length")
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--lr", type=float,
                        help="default: 20 for sgd (1 with --exact), 0.001 for adamw")
    parser.add_argument("--weight-decay", type=float, default=1.2e-6)
    parser.add_argument("--clip", type=float, default=0.25, help="largest norm of the gradient")
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=10_000_000, help="of text, at most")
    parser.add_argument("--text", metavar="PATH", help="a file or folder of text to learn from")
    parser.set_defaults(**MODELS[parser.parse_args(argv).model])
    return kit.parse(parser, argv, steps=400, quick=QUICK)


if __name__ == "__main__":
    raise SystemExit(kit.main(options(__doc__), train, unit="words"))
