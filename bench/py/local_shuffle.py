"""local_shuffle.py [ROUNDS]: the rate of a local shuffle (a buffer of 1,000 rows of 150 KB) over
the rate of the same iterator without one when each batch is copied into memory that is there (in
one piece or row by row, whichever is faster), in the CPU time of this process; NumPy and torch
(where it is installed), batches of 8, 32 and 128 rows. Both in turn, epoch by epoch; medians of
ROUNDS (5). docs/design/ingest.md."""

import importlib.util
import itertools
import json
import statistics
import sys
import time

import numpy as np
import skate
import skate.data as sd

# blocks end where batches do, so that those that are not shuffled are views
ROWS, WIDTH, BUFFER, BLOCK = 2048, 150_528, 1000, 128


def make(batch):
    out = skate.empty((len(batch["id"]), WIDTH), np.uint8)
    out[:] = batch["id"].astype(np.uint8)[:, None]
    return {"x": out, "id": batch["id"]}


def rate(batches, use):
    """GB of rows in a second of CPU time."""
    began = time.process_time()
    for b in batches:
        use(b)
    return ROWS * WIDTH / 1e9 / (time.process_time() - began)


def check(batches):
    ids = sorted(int(i) for b in batches for i in b["id"])
    if ids != list(range(ROWS)):
        sys.exit("WRONG RESULT: not each row once")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    skate.init(num_cpus=2, object_store_memory=2 << 30, logging_level="error")
    sd.DataContext.get_current().enable_progress_bars = False
    ds = (
        sd.range(ROWS, override_num_blocks=ROWS // BLOCK)
        .map_batches(make, batch_size=None)
        .materialize()
    )
    kinds = {"numpy": ds.iter_batches} | (
        {"torch": ds.iter_torch_batches} if importlib.util.find_spec("torch") else {}
    )
    for size in (8, 32, 128):
        ring = [np.ones((size, WIDTH), np.uint8) for _ in range(2)]

        turn = itertools.count()

        def by_batch(b, ring=ring, turn=turn):
            np.copyto(ring[next(turn) % 2], b["x"])

        def by_row(b, ring=ring, turn=turn):
            to = ring[next(turn) % 2]
            for i, row in enumerate(b["x"]):
                to[i] = row

        found = {k: [] for k in ("by_batch", "by_row", *kinds)}
        for epoch in range(-1, rounds):  # the first one makes pages and imports
            for use in (by_batch, by_row):
                found[use.__name__].append(rate(ds.iter_batches(batch_size=size), use))
            for k, batches in kinds.items():
                shuffled = batches(
                    batch_size=size, local_shuffle_buffer_size=BUFFER, local_shuffle_seed=epoch + 1
                )
                found[k].append(rate(shuffled, lambda b: None) if epoch >= 0 else check(shuffled))
        found = {k: v[-rounds:] for k, v in found.items()}
        found["copied"] = max(found.pop("by_batch"), found.pop("by_row"), key=statistics.median)
        over = {
            f"{k}_over_copied": round(
                statistics.median(a / b for a, b in zip(found[k], found["copied"], strict=True)), 3
            )
            for k in kinds
        }
        medians = {f"{k}_GBps": round(statistics.median(v), 2) for k, v in found.items()}
        print(
            json.dumps({"workload": "local_shuffle", "batch": size, **over, **medians}), flush=True
        )


if __name__ == "__main__":
    main()
