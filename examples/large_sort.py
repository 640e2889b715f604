"""Sorts more than memory holds, and shows where the bytes were meanwhile.
Run: python examples/large_sort.py [--plot memory.svg]

The store is a quarter of the data (by default 64 MiB and 256 MiB; give your own numbers), so blocks
go to disk and come back. Sorted rows stream into Parquet files, whose order and sum are checked.
"""

import argparse
import os
import shutil
import tempfile

import numpy as np
import pyarrow.parquet as pq
import skate
import skate.data

PAYLOAD = 92  # bytes of each row behind its key of 8 bytes


def rows(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Random keys, each with a payload that says which key it belongs to."""
    rng = np.random.default_rng(int(batch["id"][0]))
    key = rng.integers(0, 1 << 62, len(batch["id"]))
    payload = np.zeros((len(key), PAYLOAD), np.uint8)
    payload[:, :8] = key.view(np.uint8).reshape(-1, 8)
    return {"key": key, "payload": payload}


def check(folder: str, n: int) -> None:
    """Fails unless the files have n rows in order, each with its own payload."""
    last, seen = -1, 0
    for name in sorted(os.listdir(folder)):
        for batch in pq.ParquetFile(os.path.join(folder, name)).iter_batches(columns=["key"]):
            key = batch["key"].to_numpy()
            assert key[0] >= last and (np.diff(key) >= 0).all(), f"{name} is not in order"
            last, seen = key[-1], seen + len(key)
    assert seen == n, f"{seen} rows came out of {n}"
    first = skate.data.read_parquet(folder).take_batch(1000)
    payload = np.ascontiguousarray(np.stack(list(first["payload"]))[:, :8]).view(np.int64)[:, 0]
    assert (payload == first["key"]).all()


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--mb", type=int, default=256, help="size of the data in MiB")
    p.add_argument("--store", type=int, help="size of the object store in MiB (default: a quarter)")
    p.add_argument("--out", help="folder for the result (default: a temporary one)")
    p.add_argument("--plot", metavar="FILE")
    args = p.parse_args()
    store, n = args.store or args.mb // 4, (args.mb << 20) // (8 + PAYLOAD)
    skate.init(object_store_memory=store << 20)
    out = args.out or tempfile.mkdtemp()
    data = skate.data.range(n, override_num_blocks=max(8, args.mb // 8)).map_batches(
        rows, batch_size=None
    )
    ordered = data.sort("key")
    ordered.write_parquet(out)
    check(out, n)
    stats = ordered.stats()
    exchange = next(line for line in stats.splitlines() if line.startswith("Exchange"))
    print(f"{n:,} rows, {args.mb} MiB, sorted with a store of {store} MiB\n{exchange}")
    if args.plot:
        stats.plot(args.plot)
    if not args.out:
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
