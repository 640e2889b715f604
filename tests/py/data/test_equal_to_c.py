"""Pipelines of a C program (tests/c/equal_blocks.c, by skate_data.h) give the same blocks as those of
Python: as many, with the same rows in the same order, the same schema, and the same bytes."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import skate
from skate import _skate
from skate.data import DataContext
from skate.data.aggregate import Count, Max, Mean, Sum
from skate.data.by_key.join_args import KINDS
from skate.data.run import execute
from skate.data.run.blocks import fetch

PROGRAM = Path(__file__).resolve().parents[3] / "build" / "dev" / "bin" / "equal_blocks"
ROWS = 300000
# small ones, which cut and join rows in many places; and the default of both
BLOCK_BYTES = (64 << 10, 16 << 20)
RECORD = [("record", "V10")]


def rows(ids: range) -> pa.RecordBatch:
    """Rows with keys that repeat, numbers and texts, some of them null, and lists."""
    id_ = np.arange(ids.start, ids.stop)
    text = [None if i % 11 == 0 else "text " * (i % 4) + str(i % 97) for i in ids]
    return pa.RecordBatch.from_pydict(
        {
            "id": id_,
            "k": id_ * 7919 % 1000,
            "s": pa.array(text, pa.string()),
            "x": pa.array([None if i % 7 == 0 else i / 8 for i in ids], pa.float64()),
            "l": pa.array([list(range(i % 3)) for i in ids], pa.list_(pa.int32())),
        }
    )


LEFT = [rows(range(a, b)) for a, b in ((0, 1), (1, 9000), (9000, 9000), (9000, 30000))]
RIGHT = [
    pa.RecordBatch.from_pydict({"r": i * 31 % 1500, "id": i, "y": i / 2})
    for i in (np.arange(0, 4000), np.arange(4000, 30000))
]


def left() -> skate.data.Dataset:
    return skate.data.from_blocks(LEFT)


def right() -> skate.data.Dataset:
    return skate.data.from_blocks(RIGHT)


def columns(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns that the C program's function makes."""
    return {"id": batch["id"], "k": batch["id"] * 7919 % 1000}


def same(batch: Any) -> Any:
    return batch


def grouped() -> skate.data.Dataset:
    return (
        left()
        .groupby("k")
        .aggregate(
            Sum("id", alias_name="sum"),
            Max("id", alias_name="max"),
            Mean("x", alias_name="mean"),
            Count(alias_name="rows"),
        )
    )


def joined(kind: str) -> skate.data.Dataset:
    return left().join(right(), kind, on=("k",), right_on=("r",), right_suffix="_right")


PIPELINES: dict[str, Callable[[Path], skate.data.Dataset]] = {
    "range": lambda _: skate.data.range(ROWS).map_batches(columns, batch_size=None),
    "records": lambda at: skate.data.read_records(str(at / "records"), RECORD),
    "arrays": lambda _: left(),
    "map": lambda _: right().map_batches(same, batch_size=None, batch_format="pyarrow"),
    "select": lambda _: left().select_columns(["s", "id"]).rename_columns({"s": "text"}),
    "limit": lambda _: left().limit(ROWS // 20),
    "union": lambda _: left().union(left()),
    "zip": lambda _: left().zip(right()),
    "sort": lambda _: left().sort(["k", "s"], descending=[True, False]),
    "groupby": lambda _: grouped(),
    "distinct": lambda _: left().distinct(["k"]),
    "map_groups": lambda _: left().groupby("k").map_groups(same, batch_format="pyarrow"),
    "random_shuffle": lambda _: left().random_shuffle(seed=17),
    "repartition": lambda _: left().repartition(7, shuffle=True),
    **{f"join{i}": lambda _, kind=kind: joined(kind) for i, kind in enumerate(KINDS)},
}


def written(batches: list[pa.RecordBatch]) -> bytes:
    """Blocks one behind the other, as src/block writes them."""
    out = bytearray()
    for batch in batches:
        out += _skate.BlockOut(batch).written()
        out += bytes(-len(out) % 64)
    return bytes(out)


@pytest.fixture(scope="module", params=BLOCK_BYTES, ids=("small", "default"))
def of_c(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(the folder with the C program's blocks, a file for each pipeline; its size of blocks)."""
    if not PROGRAM.exists():
        pytest.skip("build/dev/bin/equal_blocks: run ./dev build")
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "left").write_bytes(written(LEFT))
    (folder / "right").write_bytes(written(RIGHT))
    (folder / "records").write_bytes(np.arange(ROWS * 10, dtype=np.uint8).tobytes())
    subprocess.run([PROGRAM, folder, str(request.param), *PIPELINES], check=True)
    return folder, request.param


@pytest.mark.parametrize("name", PIPELINES)
def test_blocks_are_those_of_c(
    name: str, of_c: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, size = of_c
    context = DataContext.get_current()
    monkeypatch.setattr(context, "target_max_block_size", size)
    monkeypatch.setattr(context, "target_min_block_size", min(size, 1 << 20))
    # a C program's join always moves the rows of both sides
    monkeypatch.setattr(context, "broadcast_join_bytes", 0)
    data = (folder / f"{name}.blocks").read_bytes()
    theirs = _skate.blocks(pa.py_buffer(data))
    mine = [fetch(b) for b in execute.run(PIPELINES[name](folder)._request())]
    assert [b.num_rows for b in mine] == [b.num_rows for b in theirs]
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert a.schema.equals(b.schema, check_metadata=True), f"block {i}"
        assert a.equals(b), f"block {i}"
    assert written(mine) == data
