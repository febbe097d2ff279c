"""Times of several sides on a GPU, in turns."""
import statistics

import torch

ROUNDS = 9


def time_in_turns(sides, runs):
    """{name: (median, largest less smallest)} in microseconds a run, of ROUNDS rounds of so many runs.

    sides: {name: what runs once}.  A round before the first is not counted.
    """
    times = {name: [] for name in sides}
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for round_ in range(ROUNDS + 1):
        for name, run in sides.items():
            run()
            begin.record()
            for _ in range(runs):
                run()
            end.record()
            end.synchronize()
            if round_:
                times[name].append(1e3 * begin.elapsed_time(end) / runs)
    return {name: (statistics.median(t), max(t) - min(t)) for name, t in times.items()}
