"""One measurement of `skate bench`: python -m skate.cli.workloads ENGINE WORKLOAD FOLDER CPUS prints
{"seconds": ...}, or ends with an error if the result is wrong.

Each engine is a class whose methods are the workloads. A method returns its result in memory, which
facts() reads after the clock has stopped: (rows, sum of a column)."""

import os
import sys
import time
from typing import Any

from skate._deps import importlib, json, load, pc, pq, torch_data

FIRST = 1000


def expected(workload: str, rows: int) -> tuple[int, int]:
    """(rows of the result, sum of its column) of a table of so many rows."""
    total = rows * (rows - 1) // 2
    if workload == "groupby":
        return min(rows, 10_000), total
    if workload == "join":  # the even ids, each with v = id
        n = (rows + 1) // 2
        return n, n * (n - 1)
    if workload == "first_rows":
        n = min(rows, FIRST)
        return n, n * (n - 1)
    return rows, total


class Rays:
    """skate, and Ray: the same program, but for its import."""

    def __init__(self, name: str, folder: str, cpus: int):
        self.folder, ray = folder, importlib.import_module(name)
        self.data = importlib.import_module(f"{name}.data")
        self.data.DataContext.get_current().enable_progress_bars = False
        quiet = {"log_to_driver": False} if name == "skate" else {"logging_level": "ERROR"}
        ray.init(num_cpus=cpus, ignore_reinit_error=True, **quiet)
        self.data.range(cpus).map_batches(lambda b: b).materialize()  # starts workers; all imports

    def left(self) -> Any:
        return self.data.read_parquet(f"{self.folder}/left")

    def random_shuffle(self) -> Any:
        return self.left().random_shuffle(seed=1).materialize()

    def groupby(self) -> Any:
        return self.left().groupby("key").sum("v").materialize()

    def sort(self) -> Any:
        return self.left().sort("r").materialize()

    def join(self) -> Any:
        right = self.data.read_parquet(f"{self.folder}/right")
        both = self.left().join(right, join_type="inner", num_partitions=8, on=("id",))
        return both.materialize()

    def first_rows(self) -> Any:
        return self.left().map_batches(lambda b: {**b, "v": b["v"] * 2}).take_batch(FIRST)

    def facts(self, found: Any) -> tuple[int, int]:
        if isinstance(found, dict):
            return len(found["v"]), int(found["v"].sum())
        name = "v" if "v" in found.columns() else "sum(v)"
        return found.count(), int(found.sum(name))


class Polars:
    def __init__(self, name: str, folder: str, cpus: int):
        self.pl, self.folder = importlib.import_module(name), folder

    def left(self) -> Any:
        return self.pl.scan_parquet(f"{self.folder}/left/*.parquet")

    def random_shuffle(self) -> Any:
        return self.left().collect().sample(fraction=1, shuffle=True, seed=1)

    def groupby(self) -> Any:
        return self.left().group_by("key").agg(self.pl.col("v").sum()).collect()

    def sort(self) -> Any:
        return self.left().sort("r").collect()

    def join(self) -> Any:
        return (
            self.left()
            .join(self.pl.scan_parquet(f"{self.folder}/right/*.parquet"), on="id")
            .collect()
        )

    def first_rows(self) -> Any:
        return (
            self.left()
            .map_batches(lambda d: d.with_columns(self.pl.col("v") * 2))
            .head(FIRST)
            .collect()
        )

    def facts(self, found: Any) -> tuple[int, int]:
        return found.height, int(found["v"].sum())


class DuckDB:
    def __init__(self, name: str, folder: str, cpus: int):
        duckdb = importlib.import_module(name)
        self.db = duckdb.connect()
        self.db.execute(f"SET threads={cpus}")
        self.left = f"read_parquet('{folder}/left/*.parquet')"
        self.right = f"read_parquet('{folder}/right/*.parquet')"
        twice, whole = "arrow", duckdb.sqltypes.BIGINT if hasattr(duckdb, "sqltypes") else "BIGINT"
        self.db.create_function("twice", lambda v: pc.multiply(v, 2), [whole], whole, type=twice)

    def table(self, query: str) -> Any:
        return self.db.execute(query).to_arrow_table()

    def random_shuffle(self) -> Any:
        return self.table(f"SELECT * FROM {self.left} ORDER BY random()")

    def groupby(self) -> Any:
        return self.table(f"SELECT key, sum(v)::BIGINT v FROM {self.left} GROUP BY key")

    def sort(self) -> Any:
        return self.table(f"SELECT * FROM {self.left} ORDER BY r")

    def join(self) -> Any:
        return self.table(f"SELECT l.*, w FROM {self.left} l JOIN {self.right} r ON l.id = r.id")

    def first_rows(self) -> Any:
        return self.table(f"SELECT id, key, r, twice(v) v FROM {self.left} LIMIT {FIRST}")

    def facts(self, found: Any) -> tuple[int, int]:
        return found.num_rows, pc.sum(found["v"]).as_py()


class Rows:
    """A map-style dataset of PyTorch over the table, which gives the rows of a batch at once."""

    def __init__(self, folder: str, factor: int):
        self.table, self.factor = pq.read_table(folder), factor

    def __len__(self) -> int:
        return self.table.num_rows

    def __getitems__(self, at: list[int]) -> Any:
        v = self.table["v"].take(at).to_numpy()
        return {"v": v * self.factor, "r": self.table["r"].take(at).to_numpy()}

    def __getitem__(self, at: int) -> Any:
        return self.__getitems__([at])


class DataLoader:
    def __init__(self, name: str, folder: str, cpus: int):
        load(torch_data)
        self.folder, self.cpus = f"{folder}/left", cpus

    def batches(self, factor: int, shuffle: bool) -> Any:
        rows: Any = Rows(self.folder, factor)
        return torch_data.DataLoader(
            rows, batch_size=FIRST, shuffle=shuffle, num_workers=self.cpus, collate_fn=lambda b: b
        )

    def random_shuffle(self) -> Any:
        return list(self.batches(1, True))

    def first_rows(self) -> Any:
        return [next(iter(self.batches(2, False)))]

    def facts(self, found: Any) -> tuple[int, int]:
        return sum(len(b["v"]) for b in found), sum(int(b["v"].sum()) for b in found)


CLASSES = {"skate": Rays, "ray": Rays, "polars": Polars, "duckdb": DuckDB, "dataloader": DataLoader}


def main(engine: str, workload: str, folder: str, cpus: str) -> int:
    """Measures, and prints the seconds."""
    of = CLASSES[engine](engine, folder, int(cpus))
    began = time.perf_counter()
    found = getattr(of, workload)()
    seconds = time.perf_counter() - began
    rows = sum(
        pq.read_metadata(os.path.join(folder, "left", x)).num_rows
        for x in os.listdir(os.path.join(folder, "left"))
    )
    facts = of.facts(found)
    if facts != expected(workload, rows):
        print(f"wrong result: {facts}, not {expected(workload, rows)}", file=sys.stderr)
        return 1
    print(json.dumps({"seconds": seconds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
