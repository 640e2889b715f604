"""resume.py: seconds from load_state_dict() to the first batch, at the beginning, in the middle and
at the end of a large Dataset; medians of 5. docs/design/ingest.md, "State".

range      10^9 rows, a column computed, batches of 1,000
shuffled   the same, shuffled locally in windows of 10,000 rows
parquet    20,000,000 rows in files of 1,000,000, row groups of 100,000"""

import json
import os
import statistics
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import skate
import skate.data as sd


def going_on(make, rows, options):
    """Seconds to the first batch from a state behind `rows` rows, and its first id."""
    took = []
    for _ in range(5):
        it = make()
        t = time.perf_counter()
        it.load_state_dict(
            {"version": 1, "epoch": 0, "rows": rows, "runs": [], **options.get("state", {})}
        )
        b = next(batches := iter(it.iter_batches(batch_size=1000, **options.get("batches", {}))))
        took.append(time.perf_counter() - t)
        batches.close()
    return statistics.median(took), int(b["id"].min())


def main():
    skate.init(num_cpus=2, logging_level="error")
    sd.DataContext.get_current().enable_progress_bars = False
    n = 10**9
    local = {
        "state": {"window": 10_000, "seed": 1},
        "batches": {"local_shuffle_buffer_size": 10_000, "local_shuffle_seed": 1},
    }
    with tempfile.TemporaryDirectory() as folder:
        for i in range(20):
            ids = np.arange(i * 10**6, (i + 1) * 10**6)
            pq.write_table(
                pa.table({"id": ids}),
                os.path.join(folder, f"{i:02}.parquet"),
                row_group_size=100_000,
            )
        cases = {
            "range": (
                n,
                {},
                lambda: sd.range(n, override_num_blocks=2000).with_column(
                    "x", 2 * sd.expressions.col("id")
                ),
            ),
            "shuffled": (
                n,
                local,
                lambda: sd.range(n, override_num_blocks=2000).select_columns(["id"]),
            ),
            "parquet": (2 * 10**7, {}, lambda: sd.read_parquet(folder).select_columns(["id"])),
        }
        for name, (rows, options, make) in cases.items():
            ds = make()
            figures = {}
            for share in (0, 0.5, 0.999):
                at = int(rows * share) // 1000 * 1000
                figures[share], first = going_on(ds.iterator, at, options)
                if abs(first - at) > 30_000:
                    sys.exit(f"WRONG RESULT: {name} went on at {first}, not at {at}")
            print(
                json.dumps(
                    {
                        "workload": "resume",
                        "case": name,
                        **{f"at_{k}": round(v, 4) for k, v in figures.items()},
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
