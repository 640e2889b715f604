"""train_ddp.py [--ranks 2] [--epochs 2] [--stop-after STEPS]: PyTorch DDP over a Dataset, which one
driver runs for all ranks.

The driver makes the Dataset, deals it to the ranks (streaming_split), serves them, and starts
torchrun. Each rank attaches, and takes batches from the store by mapping them. A checkpoint holds
the
model and where the data is: `--stop-after 5`, and then the same command without it, ends with the
same weights as one run. The number of ranks may be another: each row still comes once an epoch.

Needs torch (pip install torch --index-url https://download.pytorch.org/whl/cpu); runs on CPUs, with
gloo.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import skate.data

ROWS, BATCH = 960, 20


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--stop-after", type=int, default=0, help="steps of this call; 0: to the end")
    p.add_argument(
        "--checkpoint", default=os.path.join(tempfile.gettempdir(), "skate-train-ddp.pt")
    )
    p.add_argument("--trainer", action="store_true", help="what torchrun starts")
    args = p.parse_args()
    if args.trainer:
        train(args)
    else:
        drive(args)


def drive(args: argparse.Namespace) -> None:
    """The driver: rows of a noisy plane, prepared by skate's workers, shuffled as a whole in each
    epoch."""

    def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = (
            np.random.default_rng(int(batch["id"][0]))
            .normal(size=(len(batch["id"]), 16))
            .astype(np.float32)
        )
        return {"id": batch["id"], "x": x, "y": (x @ np.arange(16, dtype=np.float32) / 16)[:, None]}

    ds = (
        skate.data.range(ROWS, override_num_blocks=8)
        .map_batches(prepare, batch_size=None)
        .materialize()
    )
    # epoch e has the order of run e, in any process
    ds = ds.random_shuffle(seed=skate.data.RandomSeedConfig(7))
    ranks = ds.streaming_split(args.ranks, equal="drop", batch_size=BATCH)
    with skate.data.serve_ranks(ranks) as served:
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(args.ranks),
        ]
        mine = [
            "--trainer",
            "--epochs",
            str(args.epochs),
            "--stop-after",
            str(args.stop_after),
            "--checkpoint",
            args.checkpoint,
        ]
        subprocess.run(
            [*torchrun, os.path.abspath(__file__), *mine],
            env={"OMP_NUM_THREADS": "1", **served.environ()},
            check=True,
        )


def train(args: argparse.Namespace) -> None:
    """A rank."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    data = skate.data.attach()  # SKATE_RANKS and RANK are in the environment
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    epoch = 0
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        data.load_state_dict(saved["data"])  # one state is that of all ranks
        epoch = saved["data"]["epoch"]
    steps, loss, seen = 0, torch.tensor(0.0), 0
    while epoch < args.epochs:
        data.set_epoch(epoch)
        for batch in data.iter_torch_batches(batch_size=BATCH):
            sgd.zero_grad()
            loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
            loss.backward()
            sgd.step()
            steps, seen = steps + 1, seen + len(batch["id"])
            if steps == args.stop_after:
                break
        if steps == args.stop_after and args.stop_after:
            break
        epoch += 1
    rows = torch.tensor(seen)
    dist.all_reduce(rows)
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "data": data.state_dict()}, args.checkpoint)
        weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        print(
            f"{dist.get_world_size()} ranks, {steps} steps, {int(rows)} rows, loss {loss.item():.6f}, weights {weights.sum().item():.9f}"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
