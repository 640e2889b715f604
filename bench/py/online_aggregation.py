"""online_aggregation.py skate [PARTS [ROWS [PAGES [ROUNDS]]]]: page views by page while they are
read (Exoshuffle, SIGCOMM 2023, 5.2.2: 2,232 partitions of 1 MB; papers.md E6), from PARTS (default
300) Parquet files of ROWS (60,000) views of PAGES (100,000) pages, Zipf. Median of ROUNDS (3), in
  turns: seconds of groupby("page").sum("views") as a whole (plain), and of iter_partial: first
      result, end, both over plain; the L1 error of the shares of pages in the first result,
      half-way and at nine tenths (the paper: .18 first, .022 half-way)."""

import statistics
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import emit, module


def make(folder, parts, rows, pages):
    p = np.arange(1, pages + 1) ** -1.1
    p = np.cumsum(p / p.sum())
    for i in range(parts):
        r = np.random.default_rng(i)
        page = np.searchsorted(p, r.random(rows))
        pq.write_table(
            pa.table({"page": page, "views": r.integers(1, 50, rows)}), f"{folder}/{i:05}.parquet"
        )


def main():
    name = sys.argv[1]
    skate, data = module(name), module(name, ".data")
    parts, rows, pages, rounds = (
        int(a) for a in (*sys.argv[2:], *("300", "60000", "100000", "3")[len(sys.argv[2:]) :])
    )
    Sum = module(name, ".data.aggregate").Sum
    with tempfile.TemporaryDirectory() as folder:
        make(folder, parts, rows, pages)
        skate.init(num_cpus=2, logging_level="error")
        found = []
        for turn in range(rounds + 1):
            ds = data.read_parquet(folder, override_num_blocks=parts)
            t = time.perf_counter()
            want = ds.groupby("page").sum("views").to_pandas()
            plain = time.perf_counter() - t
            t, seen = time.perf_counter(), []
            for p in ds.groupby("page").iter_partial(Sum("views"), seed=turn):
                seen.append((time.perf_counter() - t, p))
            if seen[-1][1].table.to_pandas()["sum(views)"].tolist() != want["sum(views)"].tolist():
                raise SystemExit("WRONG RESULT")
            share = np.zeros(pages)
            share[want["page"]] = want["sum(views)"] / want["sum(views)"].sum()

            def l1(p, share=share):
                got, df = np.zeros(pages), p.table.to_pandas()
                got[df["page"]] = df["sum(views)"] / df["sum(views)"].sum()
                return float(abs(got - share).sum())

            errors = [l1(seen[0][1])] + [
                l1(next(p for _, p in seen if p.fraction >= f)) for f in (0.5, 0.9)
            ]
            if turn:  # the first one starts the workers
                found.append((plain, seen[0][0], seen[-1][0], *errors))
        plain, first, end, *errors = (statistics.median(x) for x in zip(*found, strict=True))
        emit(
            "online_aggregation",
            name,
            plain_s=round(plain, 3),
            first_s=round(first, 3),
            end_s=round(end, 3),
            first_over_end=round(first / end, 3),
            end_over_plain=round(end / plain, 2),
            l1=" ".join(f"{e:.3f}" for e in errors),
        )
        skate.shutdown()


main()
