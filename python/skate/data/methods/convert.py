"""Converts a Dataset to pandas, Arrow, NumPy, references to these, and DataFrames of other
libraries. The methods of Dataset with these names call these functions with a RunRequest.

Each library is imported only when needed; the ImportError names the missing package. All functions
run the Dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import skate
from skate._deps import dask, pa, pd
from skate.data.checks import library
from skate.data.run import execute
from skate.data.run.request import RunRequest
from skate.data.values import batch, frames, numpy_batch
from skate.data.values import to_arrow as arrow_values
from skate.data.values.unify import cast_batch, concat, concat_as, merge

if TYPE_CHECKING:
    from skate import ObjectRef


def _unmasked(df: Any, kept: Any) -> Any:
    """A DataFrame in which masked columns are replaced by plain ones where that is exact. kept: the
    dtypes of columns that stay masked, as Dataset._dtypes() returns them."""
    for name, dtype in zip(df.columns, df.dtypes, strict=True):
        if hasattr(dtype, "num"):  # one of NumPy's own dtypes
            continue
        s = df[name]
        if name in kept and str(dtype) == kept[name][0]:
            continue
        kind = getattr(s.dtype, "kind", "")
        if not hasattr(s.array, "_mask"):
            continue
        if kind == "b":
            df[name] = s.astype(object).where(s.notna(), None)
        elif kind == "f":
            df[name] = s.to_numpy(s.dtype.numpy_dtype, na_value=float("nan"))
        elif not (s.abs() > 1 << 53).any():
            df[name] = s.to_numpy("float64", na_value=float("nan"))
    return df


def _each(request: RunRequest, make: Any, keep: Any, back: Any) -> list[Any]:
    """Returns keep(make(batch)) for each block, in one schema. If a later block widens the schema,
    each earlier result is made again from back(result, its schema), a Table."""
    out, had = [], []
    for rb in execute.in_one_schema(request):
        out.append(keep(make(rb)))
        had.append((rb.schema, rb.num_rows))
        del rb
    if not had:
        return out
    last = (
        had[-1][0] if any(rows for _, rows in had) else max((schema for schema, _ in had), key=len)
    )
    for i, (schema, rows) in enumerate(had):
        if not schema.equals(last):
            # Without rows, no user function has shown its types.
            table = concat_as(back(out[i], schema), last) if rows else last.empty_table()
            out[i] = keep(make(merge(arrow_values.from_table(table))))
    return out


def _refs(request: RunRequest, make: Any, columns: Any = None) -> list[Any]:
    """References to make(batch) for each block. columns: a function from a result of make() to a
    dict of arrays; None: the result is a Table, a DataFrame or such a dict."""

    def back(ref: Any, schema: Any) -> Any:
        v = skate.get(ref) if columns is None else columns(skate.get(ref))
        return v if isinstance(v, pa.Table) else pa.Table.from_batches(batch.again(v, schema))

    return _each(request, make, skate.put, back)


def to_arrow(request: RunRequest, limit: int | None = None) -> pa.Table:
    """See Dataset.to_arrow."""
    rbs, n = [], 0
    it = execute.in_one_schema(request)
    for rb in it:
        rbs.append(rb)
        n += rb.num_rows
        if limit is not None and n > limit:
            it.close()
            raise ValueError(
                f"to_pandas: there are more than the limit of {limit} rows; limit=None makes a DataFrame of all of them, in the memory of this process"
            )
    if not rbs:
        known = request.facts.known_schema()
        return pa.table({}) if known is None else known.empty_table()
    return concat([rb for rb in rbs if rb.num_rows] or rbs[:1])


def to_pandas(request: RunRequest, limit: int | None, dtypes: Any) -> pd.DataFrame:
    """See Dataset.to_pandas. dtypes: as Dataset._dtypes() returns them."""
    return _unmasked(frames.table_to_pandas(to_arrow(request, limit), dtypes), dtypes)


def to_arrow_refs(request: RunRequest) -> list[ObjectRef[pa.Table]]:
    """See Dataset.to_arrow_refs."""
    return _refs(request, lambda rb: pa.Table.from_batches([rb]))


def to_numpy_refs(request: RunRequest, column: str | None) -> list[ObjectRef[Any]]:
    """See Dataset.to_numpy_refs."""
    if column is None:
        return _refs(request, numpy_batch.to_numpy)
    return _refs(request, lambda rb: numpy_batch.to_numpy(rb)[column], lambda v: {column: v})


def to_pandas_refs(request: RunRequest) -> list[ObjectRef[pd.DataFrame]]:
    """See Dataset.to_pandas_refs."""
    return _refs(request, frames.to_pandas)


def arrow_stream(request: RunRequest, requested_schema: Any) -> Any:
    """The blocks as an Arrow stream; the Dataset runs while the consumer reads the stream."""
    it = execute.in_one_schema(request)
    first = next(it, None)
    known = request.facts.known_schema()
    schema = first.schema if first is not None else pa.schema([]) if known is None else known

    def stream() -> Iterator[Any]:
        if first is not None:
            yield first
        for rb in it:
            if rb.num_rows:
                yield cast_batch(rb, schema)

    reader = pa.RecordBatchReader.from_batches(schema, stream())
    return reader.__arrow_c_stream__(requested_schema)


def to_polars(stream: Any) -> Any:
    """A Polars DataFrame of an object that exports an Arrow stream."""
    return library("polars", "to_polars").DataFrame(stream)


def to_duckdb(request: RunRequest, connection: Any) -> Any:
    """All rows as a DuckDB relation."""
    duckdb = library("duckdb", "to_duckdb")
    return (duckdb if connection is None else connection).from_arrow(to_arrow(request))


def to_huggingface(request: RunRequest) -> Any:
    """All rows as a Hugging Face datasets.Dataset."""
    datasets = library("datasets", "to_huggingface")
    return datasets.Dataset(datasets.table.InMemoryTable(to_arrow(request)))


def to_daft(request: RunRequest) -> Any:
    """A Daft DataFrame."""
    return library("daft", "to_daft").from_arrow(to_arrow(request))


def to_dask(request: RunRequest, meta: Any, verify_meta: bool) -> Any:
    """A Dask DataFrame with one partition for each block."""
    dd = library("dask.dataframe", "to_dask", "dask")
    made = _each(
        request,
        frames.to_pandas,
        lambda df: df,
        lambda df, schema: pa.Table.from_batches(batch.again(df, schema)),
    )
    return dd.from_delayed(
        [dask.delayed(lambda f=f: f)() for f in made],
        meta=made[0].iloc[:0] if meta is None else meta,
        verify_meta=verify_meta,
    )


def to_modin(pandas: Callable[[], Any]) -> Any:
    """A Modin DataFrame of the result of to_pandas()."""
    return library("modin.pandas", "to_modin", "modin").DataFrame(pandas())


def to_mars(pandas: Callable[[], Any]) -> Any:
    """A Mars DataFrame of the result of to_pandas()."""
    return library("mars.dataframe", "to_mars", "pymars").DataFrame(pandas())
