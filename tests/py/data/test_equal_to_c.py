"""Pipelines of a C program (tests/c/equal_rows.c, by skate_data.h) give the same rows in the same
order as those of Python."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import skate
from skate.data.aggregate import Max, Sum

PROGRAM = Path(__file__).resolve().parents[3] / "build" / "dev" / "bin" / "equal_rows"
ROWS = 40000
OPERATORS = ("sort", "random_shuffle", "groupby", "distinct", "join")


def columns(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns that the C program's function makes."""
    return {"id": batch["id"], "k": batch["id"] * 7919 % 1000}


def source() -> skate.data.Dataset:
    """One block of rows, as in C, where fewer than 2^16 numbers are one unit."""
    return skate.data.range(ROWS, override_num_blocks=1).map_batches(columns)


def python(op: str) -> skate.data.Dataset:
    """The same pipeline in Python."""
    if op == "sort":
        return source().sort("k", descending=True)
    if op == "random_shuffle":
        return source().random_shuffle(seed=17)
    if op == "groupby":
        aggs = (Sum("id", alias_name="sum"), Max("id", alias_name="max"))
        return source().groupby("k").aggregate(*aggs)
    if op == "distinct":
        return source().distinct(["k"])
    right = source().select_columns(["k", "id"]).rename_columns({"k": "r", "id": "y"})
    return source().join(right, "inner", on=("id",), right_on=("r",), num_partitions=16)


@pytest.fixture(scope="module")
def rows_of_c() -> dict[str, list[tuple[int, ...]]]:
    """The rows that the C program prints, by operator."""
    if not PROGRAM.exists():
        pytest.skip("build/dev/bin/equal_rows: run ./dev build")
    out = subprocess.run([PROGRAM, *OPERATORS], capture_output=True, text=True, check=True).stdout
    rows: dict[str, list[tuple[int, ...]]] = {}
    for line in out.splitlines():
        if line in OPERATORS:
            now = rows.setdefault(line, [])
        else:
            now.append(tuple(map(int, line.split())))
    return rows


@pytest.mark.parametrize("op", OPERATORS)
def test_rows_are_those_of_c(op: str, rows_of_c: dict[str, list[tuple[int, ...]]]) -> None:
    """Rows and their order are equal."""
    mine = [tuple(row.values()) for row in python(op).take_all()]
    assert len(mine) == len(rows_of_c[op])
    assert mine == rows_of_c[op]
