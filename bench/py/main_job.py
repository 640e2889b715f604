"""main_job.py ENGINE [DIR]: batch inference over real files (the demo's job): read the files of a
folder, prepare them, classify with Magika, write Parquet.
Engines: skate, ray (the same program), pool (hand-written: two processes over the file list, each
with its own model)."""

import glob
import os
import shutil
import sys
import sysconfig
import tempfile
import time

T0 = time.perf_counter()
from common import RAY_LIKE, PeakMem, emit, module  # noqa: E402

DIR = sys.argv[2] if len(sys.argv) > 2 else sysconfig.get_path("stdlib")
# the same list for all
FILES = sorted(f for f in glob.glob(DIR + "/**/*", recursive=True) if os.path.isfile(f))
LIMIT = 64 << 10
BATCH = 32  # files; the pool's chunks are about as large for a small folder


def head_tail(b):
    return b if len(b) <= 2 * LIMIT else b[:LIMIT] + b[-LIMIT:]


class Model:
    def __init__(self):
        import onnxruntime as ort

        make = ort.InferenceSession

        def one_thread(*a, **k):
            o = ort.SessionOptions()
            o.intra_op_num_threads = o.inter_op_num_threads = 1
            return make(*a, **{**k, "sess_options": o})

        ort.InferenceSession = one_thread
        from magika import Magika

        self.m = Magika()
        ort.InferenceSession = make

    def __call__(self, batch):
        batch["label"] = [self.m.identify_bytes(bytes(b)).output.label for b in batch.pop("bytes")]
        return batch


def prepare(batch):
    batch["bytes"] = [head_tail(b) for b in batch["bytes"]]
    return batch


def ray_like(out):
    ray, data = module(sys.argv[1]), module(sys.argv[1], ".data")
    ray.init(num_cpus=2)
    data.DataContext.get_current().enable_progress_bars = False
    ds = data.read_binary_files(FILES, include_paths=True).map_batches(
        prepare, batch_format="pandas", batch_size=BATCH
    )
    # the reader keeps a share of a CPU, the two models the rest
    ds = ds.map_batches(Model, batch_format="pandas", batch_size=BATCH, concurrency=2, num_cpus=0.5)
    ds.write_parquet(out)


def pool(out):
    """What a careful programmer writes by hand: two processes take chunks of the file list from a
    shared queue."""
    from concurrent.futures import ProcessPoolExecutor

    os.makedirs(out)
    with ProcessPoolExecutor(2) as p:
        n = 16
        list(p.map(chunk, [(FILES[i::n], f"{out}/{i}.parquet") for i in range(n)]))


MODEL = None


def chunk(a):
    import pandas as pd

    global MODEL
    MODEL = MODEL or Model()
    files, path = a
    rows = []
    for i in range(0, len(files), BATCH):
        rows.append(
            MODEL(
                pd.DataFrame(
                    {
                        "bytes": [head_tail(open(f, "rb").read()) for f in files[i : i + BATCH]],
                        "path": files[i : i + BATCH],
                    }
                )
            )
        )
    pd.concat(rows).to_parquet(path)


if __name__ == "__main__":
    import pyarrow.parquet as pq

    out = tempfile.mkdtemp() + "/out"
    t = time.perf_counter()
    with PeakMem() as mem:
        ray_like(out) if sys.argv[1] in RAY_LIKE else pool(out)
    t = time.perf_counter() - t
    n = sum(pq.read_metadata(f).num_rows for f in glob.glob(out + "/*.parquet"))
    shutil.rmtree(os.path.dirname(out))
    emit("main_job", sys.argv[1], files=n, total_s=t, files_per_s=n / t, peak_pss_MB=mem.peak)
