"""Train the language model on several GPUs of one or more machines, or on CPU processes.

One process a GPU, torch's DistributedDataParallel over NCCL (gloo on CPUs).  Start it as it is,
with --gpus K, or through torchrun: torchrun --nproc-per-node 4 language_model_ddp.py.  --batch is
that of one process.  First one process trains alone, then all do: the efficiency is the words a
second of K over K times those of one.  --check compares gradients of K processes with those of
one that sees all of the batch.

Buckets: gradients are summed in groups of --bucket-mb, begun as soon as backward has all of a
group's.  An LSTM layer's gradients arrive all at once, at its end; the shared embedding's, the
largest of the medium model, arrive last, so that no later work hides their sum.  Small buckets
(1 to 5 MB) start earlier, and cost more calls; --bucket-mb 1000 sums all at the end.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import kit
import kit_report
import language_model as lm
import words

CHECK_STEPS = 3
CHECK_LIMIT = 1e-4


def more_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program to those of language_model.py."""
    count = torch.cuda.device_count()
    parser.add_argument("--gpus", type=int, default=count if count else 2,
                        help="processes, one a GPU; torchrun's number goes before it")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="of gradients summed at once")
    parser.add_argument("--check", action="store_true", help="compare gradients, do not train")


def wrap(model: nn.Module, run: kit.Run) -> DistributedDataParallel:
    """The model whose gradients are means over all processes.

    gradient_as_bucket_view: gradients live in the buckets, which saves a copy of them all.
    """
    ids = [run.device.index] if run.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=run.args.bucket_mb,
                                   gradient_as_bucket_view=True, broadcast_buffers=False)


def data(run: kit.Run, batch: int) -> Tensor:
    """The training text as `batch` columns, [rows,batch]; also settles the vocabulary's size."""
    args = run.args
    ids, _, vocabulary = words.load(args.text, args.words, args.vocabulary)
    args.vocabulary = len(vocabulary)
    return lm.columns(ids, batch, run.device)


def share(text: Tensor, args: argparse.Namespace) -> Tensor:
    """This process' columns of [rows, processes * args.batch]."""
    first = dist.get_rank() * args.batch
    return text[:, first:first + args.batch].contiguous()


def train(run: kit.Run, together: bool) -> None:
    """A training on this process' columns, alone or with gradients shared."""
    text = share(data(run, run.args.batch * dist.get_world_size()), run.args)
    model = run.model(lambda: lm.LanguageModel(run.args))
    # Masks of dropout differ from process to process, as rows do.
    torch.manual_seed(run.args.seed + 1 + dist.get_rank())
    lm.train_steps(run, wrap(model, run) if together else model,
                   lm.Batches(text, run.args.bptt, run.args.vary))


def measure(side: str, args: argparse.Namespace) -> dict | None:
    """One process alone, then all together.  Rank 0 gets the result of all; others None."""
    rank, world = dist.get_rank(), dist.get_world_size()
    alone = 0.0
    if rank == 0:
        run = kit.Run(side, args, "words")
        run.progress.name = f"{side} 1"
        train(run, together=False)
        alone = kit_report.summary(run.result())["rate"]
    release(args)
    run = kit.Run(side, args, "words", quiet=rank != 0)
    run.progress.name, run.progress.processes = f"{side} {world}", world
    train(run, together=True)
    result = run.result()
    losses = torch.tensor(result["loss"])
    dist.all_reduce(losses, group=host_group())
    release(args)
    if rank:
        return None
    if run.device.type == "cpu":
        result["peak_bytes"] = None  # training alone has raised the peak already
    result["loss"] = (losses / world).tolist()
    result["samples"] = [world * n for n in result["samples"]]
    result["figures"] = {"words a second of 1": alone, f"efficiency of {world}, %":
                         100 * kit_report.summary(result)["rate"] / (world * alone)}
    return result


def release(args: argparse.Namespace) -> None:
    """Wait for all processes, on the host, and give cached memory back."""
    dist.barrier(group=host_group())
    if torch.device(args.device).type == "cuda":
        torch.cuda.empty_cache()


@functools.lru_cache(maxsize=None)
def host_group() -> dist.ProcessGroup:
    """A group whose waits need no GPU: a process that waits must not slow down the one at work.

    All processes make it at the same time, by their first call.
    """
    return dist.new_group(backend="gloo")


def gradients(run: kit.Run, model: nn.Module, batches: lm.Batches,
              average: bool) -> tuple[float, list[Tensor]]:
    """Loss and gradients of one piece of the text; the states are carried to the next."""
    x, y = batches.next()
    model.zero_grad(set_to_none=True)
    with run.autocast():
        scores, states = model(x, batches.states)
        loss = lm.cross_entropy(scores, y)
    loss.backward()
    batches.keep(states)
    loss = loss.detach().clone()
    if average:
        dist.all_reduce(loss)
        loss /= dist.get_world_size()
    return loss.item(), [p.grad.detach().clone() for p in model.parameters()]


def check(side: str, args: argparse.Namespace) -> float:
    """Largest relative difference of gradients, over parameters and CHECK_STEPS steps.

    Every process computes the whole batch for itself, and its share of it together with the
    others; weights take a step of the shared gradients in between.  Relative to the largest
    element of each parameter's gradient.  Infinite where weights of two processes differ.
    """
    args = copy.copy(args)
    args.compile = False
    for name in [name for name in vars(args) if "dropout" in name]:
        setattr(args, name, 0.0)
    run = kit.Run(side, args, "words", quiet=True)
    text = data(run, args.batch * dist.get_world_size())
    whole = run.model(lambda: lm.LanguageModel(args))
    shared = wrap(copy.deepcopy(whole), run)
    all_batches = lm.Batches(text, args.bptt, args.vary)
    own_batches = lm.Batches(share(text, args), args.bptt, args.vary)
    worst = 0.0
    for _ in range(CHECK_STEPS):
        loss, expected = gradients(run, whole, all_batches, False)
        mean, found = gradients(run, shared, own_batches, True)
        worst = max(worst, abs(loss - mean) / loss)
        with torch.no_grad():
            for p, q, a, b in zip(whole.parameters(), shared.parameters(), expected, found):
                worst = max(worst, float((a - b).abs().max() / a.abs().max().clamp(min=1e-30)))
                p.sub_(b)
                q.sub_(b)
    weights = [None] * dist.get_world_size()
    dist.all_gather_object(weights, kit.checksum(shared), group=host_group())
    return worst if len(set(weights)) == 1 else float("inf")


def worker(rank: int, world: int, meeting: str, args: argparse.Namespace,
           sides: tuple[str, ...], file: str | None = None) -> dict:
    """One process: joins the others and does its part.  Rank 0's {side: result} are those of all.

    meeting: where processes find each other, an URL of torch.distributed's.  file: where rank 0
    writes the results as well.
    """
    args = copy.copy(args)
    cuda = torch.device(args.device).type == "cuda"
    if cuda:
        local = int(os.environ.get("LOCAL_RANK", rank))
        args.device = f"cuda:{local}"
        torch.cuda.set_device(local)
    elif not args.threads:  # a process that trains alone has as many threads as one of many
        args.threads = max(1, (os.cpu_count() or 1) // world)
    dist.init_process_group("nccl" if cuda else "gloo", init_method=meeting, rank=rank,
                            world_size=world, device_id=torch.device(args.device) if cuda else None)
    host_group()
    results = {}
    for side in sides:
        results[side] = check(side, args) if args.check else measure(side, args)
    dist.barrier(group=host_group())
    # Groups must end before the interpreter does, and models in cycles hold them.
    host_group.cache_clear()
    gc.collect()
    dist.destroy_process_group()
    if file and rank == 0:
        Path(file).write_text(json.dumps(results))
    return results


def launch(args: argparse.Namespace, side: str) -> dict:
    """Start args.gpus processes for one side and return rank 0's results.

    Raises torch.multiprocessing's exceptions if one fails; it ends the others.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.json")
        torch.multiprocessing.spawn(worker, nprocs=args.gpus, args=(
            args.gpus, f"file://{folder}/meeting", args, (side,), str(file)))
        return json.loads(file.read_text())


def main(argv: list[str] | None = None) -> int:
    """Start the processes, or be one of torchrun's; rank 0 reports."""
    args = lm.options(__doc__, argv, more_options)
    if args.rounds > 1:
        print("--rounds: only one with several processes", file=sys.stderr)
        return 2
    cuda = torch.device(args.device).type == "cuda"
    if cuda and "WORLD_SIZE" not in os.environ and args.gpus > torch.cuda.device_count():
        print(f"--gpus {args.gpus}: there are {torch.cuda.device_count()}", file=sys.stderr)
        return 2
    sides = kit.sides_of(args)
    if sides is None:
        return 1
    started = time.time()
    if "WORLD_SIZE" in os.environ:
        rank, args.gpus = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        results = worker(rank, args.gpus, "env://", args, sides)
        if rank:
            return 0
    else:
        results = {}
        for side in sides:
            results.update(launch(args, side))
    if not args.check:
        return kit_report.report("language_model_ddp", args, results, time.time() - started)
    for side, worst in results.items():
        print(f"{side}: gradients of {args.gpus} processes differ from those of one by "
              f"{worst:.1e} of the largest, over {CHECK_STEPS} steps")
    # Another order of sums changes results by at most a rounding to TF32 or BF16, 1/256.
    limit = CHECK_LIMIT if args.precision == "f32" else 0.05
    return 0 if all(worst <= limit for worst in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
