"""Time and results of whole programs of other packages, unchanged and with one line of ecornn.

    python rl.py ppo [ENVIRONMENTS STEPS]     sb3-contrib's RecurrentPPO on CartPole, with its defaults
    python rl.py vad                          silero-vad's speech timestamps in 60 s of sound

Seconds of CPU on one thread.  Every way runs in a process of its own.
"""
import contextlib
import hashlib
import math
import subprocess
import sys
import time
import warnings

import torch

warnings.simplefilter("ignore")


def ppo(way, environments=8, steps=2048):
    """Seconds of learning, and the sum of all parameters' sizes."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env

    agent = RecurrentPPO("MlpLstmPolicy", make_vec_env("CartPole-v1", environments, seed=0),
                         seed=0, device="cpu")
    if way == "replace":
        import ecornn.torch
        ecornn.torch.replace(agent.policy)
    elif way == "accelerate":
        import ecornn.rl
        ecornn.rl.accelerate(agent)
    start = time.process_time()
    agent.learn(steps)
    seconds = time.process_time() - start
    return seconds, f"{sum(p.double().abs().sum().item() for p in agent.policy.parameters()):.9g}"


def sound(seconds, rate=16000):
    """Voiced syllables and noise, [seconds * rate]."""
    t = torch.arange(seconds * rate) / rate
    voice = sum(torch.sin(2 * math.pi * f * t * (1 + 0.02 * torch.sin(10 * math.pi * t))) / (k + 1)
                for k, f in enumerate((130, 260, 390, 520, 1200, 2400)))
    noise = torch.randn(len(t), generator=torch.Generator().manual_seed(0))
    return 0.15 * (t % 3 < 1.7) * voice + 0.01 * noise


def vad(way):
    """Seconds of the fastest of five runs, and a hash of the timestamps."""
    from silero_vad import get_speech_timestamps, load_silero_vad

    context = contextlib.nullcontext()
    if way == "enabled":
        import ecornn.torch
        context = ecornn.torch.enabled()
    model, x, best = load_silero_vad(), sound(60), math.inf
    with context:
        for _ in range(5):
            start = time.process_time()
            found = get_speech_timestamps(x, model)
            best = min(best, time.process_time() - start)
    return best, f"{len(found)} parts {hashlib.sha256(str(found).encode()).hexdigest()[:8]}"


def main():
    what, *rest = sys.argv[1:]
    if rest and not rest[0].isdigit():
        torch.set_num_threads(1)
        seconds, result = {"ppo": ppo, "vad": vad}[what](rest[0], *map(int, rest[1:]))
        print(f"{what} {rest[0]:10} {seconds:8.3f} s   {result}", flush=True)
        return
    for way in {"ppo": ("unchanged", "replace", "accelerate"), "vad": ("unchanged", "enabled")}[what]:
        subprocess.run([sys.executable, __file__, what, way, *rest], check=True)


if __name__ == "__main__":
    main()
