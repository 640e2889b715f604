"""Classifies the files of a folder with a neural network: what is each one (python, png, zip, ...)?
Reads, prepares on CPUs, runs the model in a pool of actors, writes Parquet, reads that back and
counts.

    python examples/classify_files.py [DIR] [--out DIR] [--limit N]

The model is Magika's (pip install magika; its weights come with the package, nothing is
downloaded). It looks at the first and last 4 KiB of a file only, so the CPU stage cuts each file
down to that before anything is moved, and hashes the whole. Same folder, same output, byte by byte.
"""

import argparse
import hashlib
import os
import sys
import sysconfig
import tempfile
from typing import Any

import numpy as np
import skate
import skate.data

SAMPLE = 4096  # bytes that the model looks at on either side


def prepare(batch: dict[str, Any]) -> dict[str, Any]:
    """Path, size, SHA-256, and what the model needs of each file."""
    content = batch["bytes"]
    return {
        "path": batch["path"],
        "size": np.array([len(c) for c in content], np.int64),
        "sha256": [hashlib.sha256(c).hexdigest() for c in content],
        "sample": [c if len(c) <= 2 * SAMPLE else c[:SAMPLE] + c[-SAMPLE:] for c in content],
    }


class Classify:
    """Holds the model; an actor makes one and keeps it."""

    def __init__(self) -> None:
        import onnxruntime
        from magika import Magika

        class OneThread(Magika):  # the pool is the parallelism: a thread an actor
            def _init_onnx_session(self):
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                return onnxruntime.InferenceSession(
                    self._model_path, options, providers=["CPUExecutionProvider"]
                )

        self.model = OneThread()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found = [self.model.identify_bytes(sample) for sample in batch.pop("sample")]
        batch["label"] = [str(r.output.label) for r in found]
        batch["group"] = [r.output.group for r in found]
        batch["score"] = np.round([r.score for r in found], 4)
        return batch


def list_files(folder: str) -> tuple[list[str], int]:
    """(files in order, how many cannot be read)."""
    files, unreadable = list[str](), 0
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(where, name)
            if os.path.isfile(path) and os.access(path, os.R_OK):
                files.append(path)
            else:
                unreadable += 1
    return files, unreadable


def main() -> int:
    default = sysconfig.get_path("stdlib")
    p = argparse.ArgumentParser(description="Classify the files of a folder.")
    p.add_argument("dir", nargs="?", default=default, help=f"folder (default: {default})")
    p.add_argument("--out", help="folder for the Parquet files (default: a temporary one)")
    p.add_argument(
        "--limit", type=int, default=1000, help="first N files only; 0: all (default: 1000)"
    )
    args = p.parse_args()
    if not os.path.isdir(args.dir):
        print(f"classify_files: {args.dir}: no such folder", file=sys.stderr)
        return 2
    files, unreadable = list_files(args.dir)
    if not files:
        print(
            f"classify_files: {args.dir}: no readable file in it ({unreadable} unreadable)",
            file=sys.stderr,
        )
        return 2
    used = files[: args.limit] if args.limit else files
    print(
        f"{args.dir}: {len(files):,} files, {unreadable:,} unreadable; classifying {len(used):,}"
        + (" (--limit 0: all)" if len(used) < len(files) else "")
    )

    out = args.out or tempfile.mkdtemp(prefix="classify_files_")
    ds = (
        skate.data.read_binary_files(used, include_paths=True)
        .map_batches(prepare)
        .map_batches(Classify, batch_size=64, concurrency=(1, os.cpu_count() or 1))
    )
    ds.write_parquet(out, mode="overwrite")

    back = skate.data.read_parquet(out)
    counts = back.select_columns("label").to_arrow()["label"].value_counts().to_pylist()
    print(f"{back.count():,} rows in {out}")
    for c in sorted(counts, key=lambda c: (-c["counts"], c["values"]))[:15]:
        print(f"{c['counts']:>8,}  {c['values']}")
    print(ds.stats())
    return 0


if __name__ == "__main__":
    sys.exit(main())
