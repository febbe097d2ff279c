"""The options that all examples have.  kit.py passes them on; it knows what they do."""

from __future__ import annotations

import argparse

import torch

SIDES = ("torch", "ecornn")
PRECISIONS = {"f32": None, "tf32": None, "amp-bf16": torch.bfloat16, "amp-f16": torch.float16}


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all examples have.  An example adds its own, then calls parse.

    description: the example's docstring; its first paragraph is shown by --help.
    """
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    cuda = torch.cuda.is_available()
    parser.add_argument("--rnn", choices=(*SIDES, "both"), default="both", help="sides to run")
    parser.add_argument("--device", default="cuda" if cuda else "cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--steps", type=int, help="steps of training")
    parser.add_argument("--seed", type=int, default=1, help="of weights and dropout")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32",
                        help="f32 forbids TF32, also to cuDNN; tf32 allows it; amp: autocast")
    parser.add_argument("--compile", action="store_true", help="pass the model to torch.compile")
    parser.add_argument("--rounds", type=int, default=1,
                        help="of both sides in turn; each step counts its shortest time")
    parser.add_argument("--threads", type=int, help="of torch on a CPU (default: torch's choice)")
    parser.add_argument("--exact", action="store_true",
                        help="no dropout, f32; fail if losses differ by more than 1e-4")
    parser.add_argument("--plot", metavar="FILE", help="loss against time as PNG (matplotlib)")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--quick", action="store_true", help="sizes for a small CPU, 1 min")
    return parser


def parse(parser: argparse.ArgumentParser, argv: list[str] | None = None, *, steps: int = 100,
          quick: dict | None = None) -> argparse.Namespace:
    """Parse argv (default: the command line).  Exits with a message on wrong options.

    steps: the default of --steps.  quick: defaults that --quick puts in the place of others; an
    option that the user gives wins over both.
    """
    parser.set_defaults(steps=steps)
    if parser.parse_args(argv).quick:
        parser.set_defaults(**(quick or {}))
    args = parser.parse_args(argv)
    if args.steps < 1:
        parser.error(f"--steps {args.steps}: at least 1")
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: at least 1")
    if torch.device(args.device).type == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device {args.device}: torch finds no GPU")
    if args.exact:
        if args.precision != "f32":
            parser.error(f"--exact compares f32, not {args.precision}")
        for name in [name for name in vars(args) if "dropout" in name]:
            setattr(args, name, 0.0)
    return args
