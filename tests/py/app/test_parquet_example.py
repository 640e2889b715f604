"""examples/c/parquet.cc: Parquet read and written by Arrow C++ in tasks of the C library, built
against the headers and libraries that the wheel of pyarrow has."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[3]
LIB = ROOT / "build" / "dev" / "lib"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("no g++")
    include = Path(pa.get_include())
    if not (include / "parquet" / "arrow" / "reader.h").exists():
        pytest.skip("this pyarrow has no headers of Parquet")
    folder = Path(pa.get_library_dirs()[0])
    # a wheel has no libarrow.so, but the names with versions
    libs = [min(folder.glob(f"lib{name}.so.*"), default=None) for name in ("parquet", "arrow")]
    if None in libs:
        pytest.skip("this pyarrow has no libparquet")
    out = tmp_path_factory.mktemp("parquet") / "parquet"
    command = ["g++", "-std=c++20", "-Wall", "-Werror", ROOT / "examples" / "c" / "parquet.cc"]
    command += ["-o", out, "-I", ROOT / "src", "-isystem", include, *libs, "-L", LIB, "-lskate"]
    command += [f"-Wl,-rpath,{folder}", f"-Wl,-rpath,{LIB}"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


def run(program, *args):
    return subprocess.run(
        [program, *map(str, args)], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )


def table(keys):
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": [None if k % 5 == 0 else "é" * (k % 7) for k in keys],
            "list": [[k, None] if k % 3 else None for k in keys],
            "when": pa.array(keys, pa.timestamp("us", "UTC")),
            "f": pa.array([k / 8 for k in keys], pa.float32()),
        }
    )


def test_row_groups_are_read_sorted_and_written(program, tmp_path):
    keys = list(range(30000))
    random.Random(7).shuffle(keys)
    for i in range(3):
        part = table(keys[10000 * i : 10000 * (i + 1)])
        pq.write_table(part, tmp_path / f"in{i}.parquet", row_group_size=3000)
    out = tmp_path / "out"
    out.mkdir()
    done = run(program, out, "k", *sorted(tmp_path.glob("in*.parquet")))
    assert done.returncode == 0, done.stderr
    files = sorted(out.iterdir())
    assert [f.name for f in files] == [f"part-{i:05}.parquet" for i in range(len(files))]
    got = pa.concat_tables([pq.read_table(f) for f in files])
    assert got.equals(table(sorted(keys)))


@pytest.mark.parametrize(
    ("damage", "says"),
    [(lambda b: b[:-4], "magic bytes"), (lambda b: b"PAR1" + bytes(1000) + b[1004:], "")],
    ids=["footer", "pages"],
)
def test_a_damaged_file_fails_the_write_and_leaves_no_file(program, tmp_path, damage, says):
    pq.write_table(table(range(20000)), tmp_path / "good.parquet")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(damage((tmp_path / "good.parquet").read_bytes()))
    out = tmp_path / "out"
    out.mkdir()
    done = run(program, out, "k", tmp_path / "good.parquet", bad)
    assert done.returncode == 1, done
    assert done.stderr.startswith("parquet: "), done.stderr
    assert says in done.stderr
    assert not list(out.iterdir())
