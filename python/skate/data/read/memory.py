"""from_items, from_arrow, from_pandas, from_numpy, from_blocks: data of this process, split into
blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import skate
from skate._deps import np, pa, pd
from skate.data.context import DataContext
from skate.data.read.source import InMemory, check_num_blocks, min_units
from skate.data.values import batch, marks, row_dicts, tensor_types, to_arrow, unify
from skate.data.values import frames as _frames

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skate import ObjectRef


def _split(
    rbs: list[Any], override: int | None, parallelism: int = -1, at_least: int = 1
) -> list[Any]:
    """Cuts the batches, without copying, into slices of about one read block each, or into
    `override` blocks."""
    if override is None and parallelism > 0:
        override = parallelism
    rows = sum(b.num_rows for b in rbs)
    if override is not None:
        k = check_num_blocks(override)
        if len(rbs) == k:
            return rbs
        if not rbs:
            return rbs
        one = unify.merge(rbs)
        return [one.slice(i * rows // k, (i + 1) * rows // k - i * rows // k) for i in range(k)]
    size = DataContext.get_current().read_block_size
    out = []
    for b in rbs:
        k = max(1, min(b.num_rows, max(-(-b.nbytes // size), at_least)))
        out += (
            [b]
            if k == 1
            else [
                b.slice(i * b.num_rows // k, (i + 1) * b.num_rows // k - i * b.num_rows // k)
                for i in range(k)
            ]
        )
    return out


def from_items(
    items: Iterable[Any], *, parallelism: int = -1, override_num_blocks: int | None = None
) -> InMemory:
    """A Dataset of Python objects: a dict is a row, anything else becomes the value of a column
    "item".

    Args:
        items: Any iterable; it is read to its end now.
        parallelism: Ray's older name of override_num_blocks; -1: not given.
        override_num_blocks: Number of blocks; None: chosen from the bytes.

    Raises:
        TypeError: Values of one column have types that cannot be unified.

    Example:
        >>> import skate
        >>> skate.data.from_items([{"a": 1}, {"a": 2}]).take_all()
        [{'a': 1}, {'a': 2}]
        >>> skate.data.from_items(["x"]).take_all()
        [{'item': 'x'}]
    """
    items = list(items)
    rows: list[Mapping[str, Any]] = [r if isinstance(r, Mapping) else {"item": r} for r in items]
    return InMemory(
        _split(
            row_dicts.rows_to_batches(rows, "from_items"),
            override_num_blocks,
            parallelism,
            min_units(),
        ),
        "FromItems",
    )


def from_arrow(
    tables: Any, *, override_num_blocks: int | None = None, trust_pickled_columns: bool = False
) -> InMemory:
    """A Dataset of a pyarrow Table or RecordBatch, a list of them, or anything with
    __arrow_c_stream__ (polars, duckdb).

    Args:
        tables: A Table, a RecordBatch, bytes of an Arrow stream, anything with __arrow_c_stream__,
            or a list of these.
        override_num_blocks: Number of blocks; None: it follows from the bytes.
        trust_pickled_columns: True: Python objects that others have pickled are unpickled, which
            runs whatever code the pickles name. False: the setting
            DataContext.trust_pickled_columns applies, whose default is not to unpickle them.

    Example:
        >>> import pyarrow, skate
        >>> skate.data.from_arrow(pyarrow.table({"a": [1, 2]})).count()
        2
    """
    trusted = trust_pickled_columns or DataContext.get_current().trust_pickled_columns
    rbs: list[Any] = []
    for t in tables if isinstance(tables, (list, tuple)) else [tables]:
        if isinstance(t, bytes):
            t = pa.ipc.open_stream(t).read_all()
        t = t if isinstance(t, (pa.RecordBatch, pa.Table)) else pa.table(t)
        unify.check_names(t.schema.names, "from_arrow")
        t = marks.trust(t) if trusted else t
        rbs += [tensor_types.ours(t)] if isinstance(t, pa.RecordBatch) else to_arrow.from_table(t)
    return InMemory(_split(rbs, override_num_blocks), "FromArrow")


def from_blocks(blocks: list[Any]) -> InMemory:
    """A Dataset with exactly these blocks (Tables, RecordBatches or DataFrames).

    Args:
        blocks: A list of Tables, RecordBatches or DataFrames.

    Example:
        >>> import pyarrow, skate
        >>> skate.data.from_blocks(
        ...     [pyarrow.table({"a": [1]}), pyarrow.table({"a": [2]})]
        ... ).num_blocks()
        2
    """

    out = []
    for b in blocks:
        rbs = batch.from_batch(b, "from_blocks")
        out += [unify.merge(rbs)] if rbs else []
    return InMemory(out, "FromBlocks")


def from_pandas(
    dfs: pd.DataFrame | list[pd.DataFrame], *, override_num_blocks: int | None = None
) -> InMemory:
    """A Dataset of one DataFrame or a list of them. An index becomes columns, unless it only
    numbers the rows (see docs/design/data_api.md).

    Args:
        dfs: A DataFrame, or a list of them.
        override_num_blocks: Number of blocks; None: it follows from the bytes.

    Raises:
        ValueError: The name of a column is no text.

    Example:
        >>> import pandas, skate
        >>> skate.data.from_pandas(pandas.DataFrame({"a": [1, 2]})).sum("a")
        3
    """
    frames = dfs if isinstance(dfs, (list, tuple)) else [dfs]
    for name in (n for df in frames for n in df.columns):
        if not isinstance(name, str):
            raise ValueError(
                f"from_pandas: the column name {name!r} is of type {type(name).__name__}; column names are str"
            )
    rbs = [rb for df in frames for rb in _frames.from_pandas(df, "from_pandas")]
    return InMemory(
        _split(rbs, override_num_blocks), "FromPandas", frames=True, dtypes=_frames.noted(frames)
    )


def from_numpy(
    ndarrays: np.ndarray[Any, Any] | list[np.ndarray[Any, Any]], *, column: str = "data"
) -> InMemory:
    """A Dataset of an array, or a list of arrays, one row for each entry of the first axis.

    Args:
        ndarrays: An array, or a list of them.
        column: The name of the column.

    Example:
        >>> import numpy, skate
        >>> skate.data.from_numpy(numpy.zeros((3, 2))).take_batch()["data"].shape
        (3, 2)
    """
    arrays = ndarrays if isinstance(ndarrays, (list, tuple)) else [ndarrays]
    return InMemory(
        _split(
            [
                rb
                for a in arrays
                for rb in to_arrow.record_batches(
                    [column], [to_arrow.array_from_numpy(np.asanyarray(a), None)]
                )
            ],
            None,
        ),
        "FromNumpy",
    )


def from_arrow_refs(tables: ObjectRef[Any] | list[ObjectRef[Any]]) -> InMemory:
    """A Dataset of references to pyarrow Tables (or serialized ones), one block each.

    Args:
        tables: A reference, or a list of them.

    Raises:
        ValueError: An argument is no reference.

    Example:
        >>> import pyarrow, skate
        >>> skate.data.from_arrow_refs(skate.put(pyarrow.table({"a": [1, 2]}))).count()
        2
    """
    return _of_refs(tables, from_arrow)


def from_pandas_refs(dfs: ObjectRef[Any] | list[ObjectRef[Any]]) -> InMemory:
    """A Dataset of references to DataFrames, one block each.

    Args:
        dfs: A reference, or a list of them.

    Raises:
        ValueError: An argument is no reference.

    Example:
        >>> import pandas, skate
        >>> skate.data.from_pandas_refs([skate.put(pandas.DataFrame({"a": [1, 2]}))]).count()
        2
    """
    return _of_refs(dfs, from_pandas)


def from_numpy_refs(ndarrays: ObjectRef[Any] | list[ObjectRef[Any]]) -> InMemory:
    """A Dataset of references to arrays, one block each, in a column "data".

    Args:
        ndarrays: A reference, or a list of them.

    Raises:
        ValueError: An argument is no reference.

    Example:
        >>> import numpy, skate
        >>> skate.data.from_numpy_refs([skate.put(numpy.zeros((3, 2)))]).count()
        3
    """
    return _of_refs(ndarrays, from_numpy)


def _of_refs(refs: Any, convert: Any) -> Any:
    refs = list(refs) if isinstance(refs, (list, tuple)) else [refs]
    for r in refs:
        if not isinstance(r, skate.ObjectRef):
            raise ValueError(f"{convert.__name__}_refs: expected ObjectRef, got {type(r).__name__}")
    return convert(skate.get(refs))
