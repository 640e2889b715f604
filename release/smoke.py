"""What a wheel has to do where it was installed: tasks, actors, objects, a sort, groups, pictures.
Run by release/try_wheels.py in an environment that has the wheel and nothing of the tree; prints
one line of JSON."""

import io
import json
import os
import platform
import sys
import tempfile
import time
from importlib import metadata

began = time.perf_counter()
import skate as ray  # noqa: E402


@ray.remote
def square(x):
    return x * x


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, k):
        self.n += k
        return self.n


def pictures(folder):
    """Eight PNG files, written by Pillow and read by the decoder in C."""
    from PIL import Image

    for i in range(8):
        Image.new("RGB", (20 + i, 10), (10 * i, 20, 30)).save(f"{folder}/{i}.png")
    rows = ray.data.read_images(folder, size=(10, 10), mode="RGB").take_all()
    reds = sorted(int(row["image"][0, 0, 0]) for row in rows)
    assert reds == [10 * i for i in range(8)], reds


def main():
    told: dict[str, object] = {"python": platform.python_version(), "machine": platform.machine()}
    ray.init(num_cpus=2)
    assert ray.get([square.remote(i) for i in range(4)]) == [0, 1, 4, 9]
    told["first_result_s"] = round(time.perf_counter() - began, 2)
    counter = Counter.remote()
    assert ray.get([counter.add.remote(5) for _ in range(3)]) == [5, 10, 15]

    import numpy as np
    import skate.data

    array = np.arange(1_000_000)
    assert (ray.get(ray.put(array)) == array).all()
    ds = skate.data.range(20_000).map_batches(lambda b: {"id": b["id"], "key": b["id"] % 7})
    top = ds.sort("id", descending=True).take(2)
    assert [row["id"] for row in top] == [19_999, 19_998], top
    sums = {row["key"]: row["sum(id)"] for row in ds.groupby("key").sum("id").take_all()}
    assert sums == {k: sum(range(k, 20_000, 7)) for k in range(7)}, sums
    with tempfile.TemporaryDirectory() as folder:
        ds.write_parquet(f"{folder}/p")
        assert skate.data.read_parquet(f"{folder}/p").count() == 20_000
        os.mkdir(f"{folder}/i")
        pictures(f"{folder}/i")
    out = io.StringIO()
    print(ds.schema(), file=out)
    assert "key" in out.getvalue()

    start = time.perf_counter()
    ray.get([square.remote(i) for i in range(20_000)])
    told["calls_per_s"] = round(20_000 / (time.perf_counter() - start))
    ray.shutdown()
    told["gil"] = getattr(sys, "_is_gil_enabled", lambda: True)()
    told["with"] = {p: metadata.version(p) for p in ("numpy", "pyarrow", "cloudpickle", "pillow")}
    told["seconds"] = round(time.perf_counter() - began, 1)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
