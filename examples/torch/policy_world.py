"""Poles on carts for policy_ppo.py.  Velocities are hidden, so a policy needs memory.

Barto, Sutton and Anderson 1983, "Neuronlike adaptive elements", the usual sizes.  All carts move
together in tensors of one device.  It knows nothing of models.
"""

from __future__ import annotations

import math

import torch

GRAVITY, CART, POLE, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5  # m/s2, kg, kg, m
FORCE, STEP = 10.0, 0.02  # N, s
EDGE, TILT = 2.4, math.radians(12)  # an episode ends beyond them: m, rad
OBSERVED = 2  # numbers of an observation: position and angle


class Carts:
    """`count` carts.  An action is 0 (push left) or 1 (right); each step is worth a reward of 1.

    An episode ends when a pole tilts too far, a cart leaves the track, or after `limit` steps.
    The cart then starts anew at once.  falls: episodes so far that ended before their limit.
    """

    def __init__(self, count: int, limit: int, device: torch.device, seed: int) -> None:
        self.count, self.limit, self.device = count, limit, device
        self.draw = torch.Generator(device).manual_seed(seed)
        self.state = self.fresh()
        self.age = torch.zeros(count, device=device, dtype=torch.long)
        self.falls = torch.zeros((), device=device, dtype=torch.long)

    def fresh(self) -> torch.Tensor:
        """States at the start of an episode: position, velocity, angle, its velocity; [4,N]."""
        return self.random(4, self.count) * 0.1 - 0.05

    def random(self, *shape: int) -> torch.Tensor:
        """Evenly spread numbers of 0 to 1 from the carts' own generator."""
        return torch.rand(*shape, device=self.device, generator=self.draw)

    def observe(self) -> torch.Tensor:
        """[N,2]: position and angle, each divided by the value at which an episode ends."""
        return torch.stack([self.state[0] / EDGE, self.state[2] / TILT], -1)

    def step(self, actions: torch.Tensor) -> torch.Tensor:
        """Push each cart; actions: [N].  Returns [N] of bool: whose episode has ended."""
        x, speed, angle, turn = self.state
        push = (actions * 2 - 1) * FORCE
        sine, cosine, mass = angle.sin(), angle.cos(), CART + POLE
        pull = (push + POLE * HALF_LENGTH * turn.square() * sine) / mass
        turning = (GRAVITY * sine - cosine * pull) / (
            HALF_LENGTH * (4 / 3 - POLE * cosine.square() / mass))
        moving = pull - POLE * HALF_LENGTH * turning * cosine / mass
        state = torch.stack([x + STEP * speed, speed + STEP * moving,
                             angle + STEP * turn, turn + STEP * turning])
        self.age += 1
        fallen = (state[0].abs() > EDGE) | (state[2].abs() > TILT)
        self.falls = self.falls + fallen.sum()
        ended = fallen | (self.age >= self.limit)
        self.state = torch.where(ended, self.fresh(), state)
        self.age *= ~ended
        return ended
