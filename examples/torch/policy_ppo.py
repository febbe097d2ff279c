"""A policy with memory learns to balance poles whose velocities it does not see, by PPO.

    python policy_ppo.py --quick                            # a minute on a CPU
    python policy_ppo.py --environments 1024 --cell gru

Acting runs an LSTM or GRU one time step at a time over all environments, without gradients, its
states carried on and set to 0 where an episode ends.  Learning runs over what was seen, 128 time
steps: it is cut where episodes end, and the pieces, of all lengths, are packed together.  The loss
that is shown is the part of the return that is missing: 1 - steps a fall / --limit.

Sides draw the same random numbers, but a rounded probability can change an action, and the runs
then part; compare the speed, and the return roughly.  Schulman et al. 2017; Ni et al. 2021 on
recurrent policies.  policy_world.py has the environment.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Union

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import kit
from policy_world import OBSERVED, Carts

State = Union[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]


def each(state: State, function) -> State:
    """Apply `function` to a GRU's state, or to both states of an LSTM."""
    return tuple(map(function, state)) if isinstance(state, tuple) else function(state)


class Policy(nn.Module):
    """Maps observations to the logit of a push to the right and the value of the future."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.hidden, self.lstm = args.hidden, args.cell == "lstm"
        self.input = nn.Linear(OBSERVED, args.hidden)
        self.rnn = (nn.LSTM if self.lstm else nn.GRU)(args.hidden, args.hidden)
        self.heads = nn.Linear(args.hidden, 2)
        with torch.no_grad():
            self.heads.weight[0] *= 0.01  # begin with both actions equally likely

    def first_state(self, count: int, device: torch.device) -> State:
        """Zeros for `count` environments."""
        zeros = torch.zeros(1, count, self.hidden, device=device)
        return (zeros, zeros) if self.lstm else zeros

    def forward(self, x: torch.Tensor, state: State, lengths: torch.Tensor | None = None
                ) -> tuple[torch.Tensor, torch.Tensor, State]:
        """x: [T,N,2]; lengths: [N] on the CPU, or None: all T.  Returns logits and values [T,N]."""
        x = torch.tanh(self.input(x))
        if lengths is None:
            y, state = self.rnn(x, state)
        else:
            packed, state = self.rnn(pack_padded_sequence(x, lengths, enforce_sorted=False), state)
            y, _ = pad_packed_sequence(packed)
        logit, value = self.heads(y).float().unbind(-1)
        return logit, value, state


@dataclass
class Rollout:
    """What was seen and done, [T,N] each but observations, [T,N,2].

    state: at the first step.  started: whether a step is an episode's first.  values: [T+1,N].
    falls: how many poles fell.
    """

    state: State
    observations: torch.Tensor
    started: torch.Tensor
    actions: torch.Tensor
    logs: torch.Tensor
    values: torch.Tensor
    ended: torch.Tensor
    falls: torch.Tensor


class Player:
    """Carts that a policy pushes, and its states for them."""

    def __init__(self, policy: nn.Module, args: argparse.Namespace, device: torch.device,
                 seed: int) -> None:
        self.policy = policy
        self.carts = Carts(args.environments, args.limit, device, seed)
        self.state = policy.first_state(args.environments, device)
        self.started = torch.ones(args.environments, dtype=torch.bool, device=device)

    def think(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One step of the policy.  Returns observations [1,N,2], logits and values [1,N]."""
        self.state = each(self.state, lambda s: s * ~self.started[:, None])
        x = self.carts.observe()[None]
        logit, value, self.state = self.policy(x, self.state)
        return x, logit, value

    @torch.no_grad()
    def play(self, steps: int, sure: bool = False) -> Rollout:
        """Push `steps` times.  sure: always the likelier action, none at random."""
        state = each(self.state, lambda s: s * ~self.started[:, None])
        rows, falls = [], self.carts.falls
        for _ in range(steps):
            started = self.started[None]
            x, logit, value = self.think()
            chance = 0.5 if sure else self.carts.random(1, self.carts.count)
            action = (logit.sigmoid() > chance).long()
            self.started = self.carts.step(action[0])
            rows.append((x, started, action, log_chance(logit, action), value, self.started[None]))
        x, started, actions, logs, values, ended = map(torch.cat, zip(*rows))
        # The next step is only evaluated here; the next rollout takes it.
        kept = self.state
        values = torch.cat([values, self.think()[2]])
        self.state = kept
        falls = self.carts.falls - falls
        return Rollout(state, x, started, actions, logs, values, ended, falls)


def log_chance(logit: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Logarithm of the probability of each action."""
    return nn.functional.logsigmoid(logit * (2 * action - 1))


def advantages(seen: Rollout, discount: float, trace: float) -> torch.Tensor:
    """[T,N]: how much better than expected each step was (Schulman et al. 2016).

    A step is worth 1 - discount, so that values stay below 1.
    """
    going_on = (~seen.ended).float()
    errors = 1 - discount + discount * seen.values[1:] * going_on - seen.values[:-1]
    result, total = torch.empty_like(errors), torch.zeros_like(errors[0])
    for t in reversed(range(len(errors))):
        total = errors[t] + discount * trace * going_on[t] * total
        result[t] = total
    return result


class Pieces:
    """Episodes and parts of them in a rollout of some environments, as padded sequences.

    started: [T,N] of bool, in numpy.  steps: [longest,pieces], where each step lies in the rollout
    seen as [T*N]; lengths: [pieces] on the CPU; places: where real steps lie in
    [longest*pieces]; first: 1 for pieces that go on from before, else 0.
    """

    def __init__(self, started: np.ndarray, chosen: np.ndarray, device: torch.device) -> None:
        count, width = started.shape
        begins = started[:, chosen].T.copy()
        begins[:, 0] = True
        row, t = np.nonzero(begins)
        lengths = np.diff(np.append(row * count + t, len(chosen) * count))
        offsets = np.arange(lengths.max())[:, None]
        steps = np.minimum(t + offsets, count - 1) * width + chosen[row]
        self.lengths = torch.from_numpy(lengths)
        self.steps, self.places, self.columns, goes_on = (
            torch.from_numpy(a).to(device) for a in (
                steps, np.flatnonzero(offsets < lengths), chosen[row],
                (t == 0) & ~started[0, chosen[row]]))
        self.first = goes_on[:, None].float()

    def real(self, values: torch.Tensor) -> torch.Tensor:
        """Values [T,N] of a rollout at the pieces' real steps, in a row."""
        return values.flatten()[self.steps.flatten()[self.places]]


def improve(run: kit.Run, policy: nn.Module, optimizer: torch.optim.Optimizer, seen: Rollout,
            draw: np.random.Generator) -> None:
    """Some epochs of PPO over what was seen, by parts of the environments."""
    args = run.args
    gains = advantages(seen, args.discount, 0.95)
    returns = gains + seen.values[:-1]
    started = seen.started.cpu().numpy()
    for _ in range(args.epochs):
        for chosen in np.array_split(draw.permutation(args.environments), args.parts):
            pieces = Pieces(started, chosen, run.device)
            state = each(seen.state, lambda s: s[:, pieces.columns] * pieces.first)
            with run.autocast():
                x = seen.observations.flatten(0, 1)[pieces.steps]
                logit, value, _ = policy(x, state, pieces.lengths)
            logit, value = (v.flatten()[pieces.places] for v in (logit, value))
            gain = pieces.real(gains)
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            ratio = (log_chance(logit, pieces.real(seen.actions)) - pieces.real(seen.logs)).exp()
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            action_loss = -torch.minimum(ratio * gain, clipped * gain).mean()
            value_loss = (value - pieces.real(returns)).square().mean()
            entropy = (nn.functional.softplus(logit) - logit * logit.sigmoid()).mean()
            run.optimise(action_loss + 0.5 * value_loss - args.entropy * entropy, optimizer, 0.5)


def fall_steps(seen: Rollout, limit: int) -> torch.Tensor:
    """Steps of all carts by falls: how long a pole stands.  At most `limit`."""
    return (seen.ended.numel() / seen.falls.clamp(min=1)).clamp(max=limit)


def train(run: kit.Run) -> None:
    """One side's training."""
    args = run.args
    policy = run.model(lambda: Policy(args))
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr, eps=1e-5)
    player = Player(policy, args, run.device, args.seed)
    draw = np.random.default_rng(args.seed)
    for step in run.loop():
        for group in optimizer.param_groups:
            group["lr"] = args.lr * (1 - step / args.steps)
        with run.autocast():
            seen = player.play(args.rollout)
        improve(run, policy, optimizer, seen, draw)
        run.record(1 - fall_steps(seen, args.limit) / args.limit, seen.ended.numel())
    with run.autocast():
        evaluate(run, Player(policy, args, run.device, args.seed + 1))


def evaluate(run: kit.Run, player: Player) -> None:
    """Act for a whole episode's limit without learning; figures of return and speed."""
    finish = torch.cuda.synchronize if run.device.type == "cuda" else (lambda: None)
    player.play(2)
    finish()
    begun = time.perf_counter()
    seen = player.play(run.args.limit, sure=True)
    finish()
    run.figure("steps a second, acting", seen.ended.numel() / (time.perf_counter() - begun))
    run.figure(f"steps a fall, at most {run.args.limit}", fall_steps(seen, run.args.limit))


def main() -> int:
    """The command line."""
    parser = kit.arguments(__doc__)
    parser.add_argument("--cell", choices=("lstm", "gru"), default="lstm")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--environments", type=int, default=256)
    parser.add_argument("--limit", type=int, default=500, help="steps of an episode, at most")
    parser.add_argument("--rollout", type=int, default=128, help="steps between improvements")
    parser.add_argument("--epochs", type=int, default=4, help="times a rollout is learned from")
    parser.add_argument("--parts", type=int, default=4, help="of the environments, in an epoch")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's rate at the start")
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--clip", type=float, default=0.2, help="PPO's limit of change")
    parser.add_argument("--entropy", type=float, default=0.001, help="worth of trying things")
    quick = dict(steps=40, hidden=32, environments=32, limit=200, rollout=64, lr=3e-3)
    args = kit.parse(parser, steps=100, quick=quick)
    if args.exact:
        parser.error("--exact: actions are drawn, so that losses differ")
    return kit.main(args, train, unit="steps")


if __name__ == "__main__":
    raise SystemExit(main())
