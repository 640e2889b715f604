"""gpu_ingest.py [ROWS]: from blocks of the store to a GPU, GB/s; rows are images of 150 KB, batches
of 32, 128 and 256.

    limit      one page-locked buffer, copied again and again: what the bus can do
    memcpy     one thread from block to page-locked memory: what a gather can do
    pageable   iter_batches, torch.as_tensor(...).to("cuda")
    skate      iter_torch_batches(device="cuda"), prefetch_batches 1 and 4, with and without local
               shuffle
    loader     torch's DataLoader over the same rows in memory, pin_memory, 4 workers
    step       the same beside a model that takes as long as the copies: share of time spent waiting
               for data

Each figure: the best and the median of five, interleaved. Needs torch with a GPU, else it says so
and ends.
"""

import statistics
import sys
import time

import numpy as np
import skate
import skate.data as sd

SHAPE = (224, 224, 3)
BYTES = 224 * 224 * 3


def main():
    try:
        import torch
    except ImportError:
        print("gpu_ingest: torch is not installed")
        return
    if not torch.cuda.is_available():
        print("gpu_ingest: torch has no GPU here")
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    sd.DataContext.get_current().enable_progress_bars = False
    skate.init(num_cpus=8, object_store_memory=rows * BYTES * 2 + (1 << 30))

    def make(batch):
        one = np.random.default_rng(0).integers(0, 255, SHAPE, dtype=np.uint8)
        return {"x": np.broadcast_to(one, (len(batch["id"]), *SHAPE)).copy(), "id": batch["id"]}

    ds = sd.range(rows, override_num_blocks=32).map_batches(make, batch_size=None).materialize()
    whole = torch.from_numpy(np.concatenate([b["x"] for b in ds.iter_batches(batch_size=None)]))
    print(
        torch.cuda.get_device_name(),
        f"{rows} rows, {rows * BYTES / 1e9:.1f} GB, {ds.num_blocks()} blocks; torch {torch.__version__}",
    )
    for size in (32, 128, 256):
        ways = {
            "limit": lambda size=size: limit(torch, size, rows),
            "memcpy to page-locked": lambda size=size: gather(torch, whole, size),
            "pageable": lambda size=size: (
                {
                    k: torch.as_tensor(v.copy() if not v.flags.writeable else v).to("cuda")
                    for k, v in b.items()
                }
                for b in ds.iter_batches(batch_size=size)
            ),
        }
        for ahead in (1, 4):
            for window in (None, 2000):
                name = f"skate prefetch={ahead}{' shuffled' if window else ''}"
                ways[name] = lambda size=size, ahead=ahead, window=window: ds.iter_torch_batches(
                    batch_size=size,
                    device="cuda",
                    prefetch_batches=ahead,
                    local_shuffle_buffer_size=window,
                    local_shuffle_seed=0,
                )
        ways["torch DataLoader"] = lambda size=size: loader(torch, whole, size)
        timed: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(5):
            for name, way in ways.items():
                torch.cuda.synchronize()
                began, n = time.perf_counter(), 0
                for b in way():
                    n += len(b["x"])
                torch.cuda.synchronize()
                assert abs(n - rows) < 2 * size, (name, n)
                timed[name].append(n * BYTES / 1e9 / (time.perf_counter() - began))
        for name, rates in timed.items():
            print(
                f"batch {size:4}  {name:28} best {max(rates):6.2f}  median {statistics.median(rates):6.2f} GB/s",
                flush=True,
            )
    step(torch, ds, rows)
    skate.shutdown()


def limit(torch, size, rows):
    source = torch.ones((size, *SHAPE), dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(source, device="cuda")
    for _ in range(rows // size):
        there.copy_(source, non_blocking=True)
        yield {"x": source}


def gather(torch, whole, size):
    ring = [torch.empty((size, *SHAPE), dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    for i in range(0, len(whole) - size + 1, size):
        to = ring[i // size % 2].numpy()
        np.copyto(to, whole[i : i + size].numpy())
        yield {"x": to}


def loader(torch, whole, size):
    data = torch.utils.data.TensorDataset(whole)
    for (x,) in torch.utils.data.DataLoader(data, batch_size=size, num_workers=4, pin_memory=True):
        yield {"x": x.to("cuda", non_blocking=True)}


def step(torch, ds, rows):
    """A step that takes twice as long as a batch of 128 needs to come at the best rate above: how
    much of the time is spent waiting for the next batch."""
    weight = torch.randn((4096, 4096), device="cuda")

    def work(x, times):
        y = weight
        for _ in range(times):
            y = y @ weight
        return y.sum() + x.float().mean()

    def pace(batches, times):
        torch.cuda.synchronize()
        began = time.perf_counter()
        n = 0
        for b in batches:
            work(b["x"], times)
            n += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / n

    one = torch.ones((128, *SHAPE), dtype=torch.uint8, device="cuda")
    for times in (2, 5, 10, 20):
        alone = pace([{"x": one}] * 100, times)
        fed = pace(ds.iter_torch_batches(batch_size=128, device="cuda", prefetch_batches=4), times)
        print(
            f"step of {alone * 1e3:6.2f} ms: {fed * 1e3:6.2f} ms when fed, {max(0.0, 1 - alone / fed):.1%} waiting",
            flush=True,
        )


if __name__ == "__main__":
    main()
