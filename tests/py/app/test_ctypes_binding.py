"""bindings/ctypes: the C library from a Python program that does not import skate."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
import pyarrow as pa
import pyarrow.compute as pc
import skate_data

@skate_data.batches
def halve(batch):
    assert sys.argv[1:] == ["an argument"], sys.argv # of workers, too
    yield pa.record_batch({"x": pc.divide(batch["id"], 2), "k": pc.bit_wise_and(batch["id"], 3)})

@skate_data.batches
def fails(batch):
    raise ValueError("no such luck")

@skate_data.batches
def longer(batch):
    yield batch.set_column(0, "s", pc.binary_repeat(batch["s"], 2))

skate_data.start()
assert "skate" not in sys.modules
ds = skate_data.range(100000).map(halve)
last = ds.sort("x", "k", descending=True).stream().read_all().slice(0, 3)
assert last.to_pydict() == {"x": [49999, 49999, 49998], "k": [3, 2, 1]}, last
sums = ds.groupby(["k"], total=("sum", "x")).stream().read_all()
assert sums["total"].to_pylist() == [624975000, 624975000, 625000000, 625000000], sums
words = pa.table({"s": ["a", None, "a"], "v": [1, 2, 3]}).to_reader()
words = skate_data.from_reader(words).map(longer).groupby(["s"], v=("sum", "v"))
assert words.stream().read_all().to_pydict() == {"s": ["aa", None], "v": [4, 2]}
try:
    skate_data.range(10).map(fails).stream().read_all()
except Exception as e:
    print(e)
try:
    skate_data.range(10).map(print)
except RuntimeError as e:
    print(e)
"""


def test_workers_run_the_same_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    library = ROOT / "build" / "dev" / "lib" / "libskate.so"
    done = subprocess.run(
        [sys.executable, script, "an argument"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "bindings" / "ctypes"),
            "LIBSKATE": str(library),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Map(fails): fails: ValueError: no such luck",
        "no function of batches 'print' is registered in this process",
    ]
