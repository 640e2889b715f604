"""small_files.py ENGINE [FILES]: lists, plans and reads FILES (50,000) small Parquet files of 20
rows; seconds for each step, memory of the driver, tasks.

ENGINE: skate or pyarrow (one thread: dataset.to_batches()). The files are made once under /tmp and
kept for the next engine.
"""

import json
import os
import resource
import sys
import time


def files(n):
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = f"/tmp/skate-small-{n}"
    if not os.path.exists(folder + "/done"):
        os.makedirs(folder + "/data", exist_ok=True)
        table = pa.table({"i": list(range(20)), "s": [f"row {i}" for i in range(20)]})
        pq.write_table(table, folder + "/one.parquet")
        with open(folder + "/one.parquet", "rb") as f:
            data = f.read()
        for i in range(n):
            sub = f"{folder}/data/{i // 1000:03d}"
            os.makedirs(sub, exist_ok=True)
            with open(f"{sub}/{i:06d}.parquet", "wb") as f:
                f.write(data)
        open(folder + "/done", "w").close()
    return folder + "/data"


def main():
    engine, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50_000
    folder = files(n)
    begin = time.perf_counter()
    out = {"engine": engine, "files": n}
    if engine == "skate":
        import skate
        import skate.data as sd

        skate.init(num_cpus=2)
        ds = sd.read_parquet(folder)
        out["plan_s"] = time.perf_counter() - begin
        rows = sum(len(b["i"]) for b in ds.map_batches(lambda b: b).iter_batches(batch_size=None))
        out["tasks"] = sum(o["tasks_done"] for o in ds.stats_dict().get("ops", [])) or None
    else:
        import pyarrow.dataset as pads

        ds = pads.dataset(folder)
        out["plan_s"] = time.perf_counter() - begin
        rows = sum(b.num_rows for b in ds.to_batches(use_threads=False))
    assert rows == 20 * n, rows
    out["total_s"] = time.perf_counter() - begin
    out["driver_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(out))


if __name__ == "__main__":
    main()
