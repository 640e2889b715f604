"""from_items, from_arrow, from_pandas, from_numpy, from_blocks: data of this process, split into blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.data.context import DataContext
from skate.data.execute import local_source
from skate.data.read.files import check_num_blocks, min_units


def _split(rbs: list[Any], override: int | None, parallelism: int = -1, at_least: int = 1) -> list[Any]:
    """The batches in slices of about one read block each (no copy), or in `override` blocks."""
    if override is None and parallelism > 0:
        override = parallelism
    rows = sum(b.num_rows for b in rbs)
    if override is not None:
        from skate.data.ops import merge

        k = check_num_blocks(override)
        if len(rbs) == k:
            return rbs
        if not rbs:
            return rbs
        one = merge(rbs)
        return [one.slice(i * rows // k, (i + 1) * rows // k - i * rows // k) for i in range(k)]
    size = DataContext.get_current().read_block_size
    out = []
    for b in rbs:
        k = max(1, min(b.num_rows, max(-(-b.nbytes // size), at_least)))
        out += [b] if k == 1 else [b.slice(i * b.num_rows // k, (i + 1) * b.num_rows // k - i * b.num_rows // k) for i in range(k)]
    return out


def from_items(items: list[Any], *, parallelism: int = -1, override_num_blocks: int | None = None) -> Any:
    """A Dataset of Python objects: dicts are rows, anything else goes into a column "item".

    Example:
        >>> import skate
        >>> skate.data.from_items([{"a": 1}, {"a": 2}]).take_all()
        [{'a': 1}, {'a': 2}]
        >>> skate.data.from_items(["x"]).take_all()
        [{'item': 'x'}]
    """
    from skate.data.batch import from_rows

    items = list(items)
    rows: list[Mapping[str, Any]] = [r if isinstance(r, Mapping) else {"item": r} for r in items]
    rb = from_rows(rows, "from_items")
    return local_source([] if rb is None else _split([rb], override_num_blocks, parallelism, min_units()), "FromItems")


def from_arrow(tables: Any, *, override_num_blocks: int | None = None) -> Any:
    """A Dataset of a pyarrow Table or RecordBatch, a list of them, or anything with __arrow_c_stream__ (polars, duckdb).

    Example:
        >>> import pyarrow, skate
        >>> skate.data.from_arrow(pyarrow.table({"a": [1, 2]})).count()
        2
    """
    import pyarrow as pa

    from skate.data.batch import from_table

    rbs: list[Any] = []
    for t in tables if isinstance(tables, (list, tuple)) else [tables]:
        if isinstance(t, bytes):
            t = pa.ipc.open_stream(t).read_all()
        rbs += [t] if isinstance(t, pa.RecordBatch) else from_table(t if isinstance(t, pa.Table) else pa.table(t))
    return local_source(_split(rbs, override_num_blocks), "FromArrow")


def from_blocks(blocks: list[Any]) -> Any:
    """A Dataset with exactly these blocks (Tables, RecordBatches or DataFrames).

    Example:
        >>> import pyarrow, skate
        >>> skate.data.from_blocks([pyarrow.table({"a": [1]}), pyarrow.table({"a": [2]})]).num_blocks()
        2
    """
    import pyarrow as pa

    from skate.data.batch import from_batch
    from skate.data.ops import merge

    out = []
    for b in blocks:
        rbs = [b] if isinstance(b, pa.RecordBatch) else from_batch(b, "from_blocks")
        out += [merge(rbs)] if rbs else []
    return local_source(out, "FromBlocks")


def from_pandas(dfs: Any, *, override_num_blocks: int | None = None) -> Any:
    """A Dataset of one DataFrame or a list of them. An index becomes columns where it is more than numbers of rows (see docs/design/data_api.md).

    Example:
        >>> import pandas, skate
        >>> skate.data.from_pandas(pandas.DataFrame({"a": [1, 2]})).sum("a")
        3
    """
    from skate.data.batch import from_pandas as convert

    frames = dfs if isinstance(dfs, (list, tuple)) else [dfs]
    for name in (n for df in frames for n in df.columns):
        if not isinstance(name, str):
            raise ValueError(f"from_pandas: the column name {name!r} is of type {type(name).__name__}; column names are str")
    rbs = [convert(df, "from_pandas") for df in frames]
    return local_source(_split(rbs, override_num_blocks), "FromPandas", frames=True)


def from_numpy(ndarrays: Any, *, column: str = "data") -> Any:
    """A Dataset of an array, or a list of arrays, one row for each entry of the first axis.

    Example:
        >>> import numpy, skate
        >>> skate.data.from_numpy(numpy.zeros((3, 2))).take_batch()["data"].shape
        (3, 2)
    """
    import numpy as np
    import pyarrow as pa

    from skate.data.batch import array_from_numpy

    arrays = ndarrays if isinstance(ndarrays, (list, tuple)) else [ndarrays]
    return local_source(
        _split([pa.RecordBatch.from_arrays([array_from_numpy(np.asarray(a), None)], names=[column]) for a in arrays], None), "FromNumpy"
    )


def from_arrow_refs(tables: Any) -> Any:
    """A Dataset of references to pyarrow Tables (or serialized ones), one block each."""
    return _of_refs(tables, from_arrow)


def from_pandas_refs(dfs: Any) -> Any:
    """A Dataset of references to DataFrames, one block each."""
    return _of_refs(dfs, from_pandas)


def from_numpy_refs(ndarrays: Any) -> Any:
    """A Dataset of references to arrays, one block each, in a column "data"."""
    return _of_refs(ndarrays, from_numpy)


def _of_refs(refs: Any, convert: Any) -> Any:
    import skate

    refs = list(refs) if isinstance(refs, (list, tuple)) else [refs]
    for r in refs:
        if not isinstance(r, skate.ObjectRef):
            raise ValueError(f"{convert.__name__}_refs: expected ObjectRef, got {type(r).__name__}")
    return convert(skate.get(refs))
