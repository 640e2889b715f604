"""What a Dataset can be turned into: pandas, Arrow, NumPy, references of them, torch, and
Dataframes of other libraries. A part of Dataset.

Each library is imported only when it is asked for; without it the ImportError says which package is
missing. All of these run the Dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import skate
from skate._deps import dask, pa, pd
from skate.data.checks import library
from skate.data.read.source import Facts
from skate.data.run import errors, execute
from skate.data.values import batch, numpy_batch, to_arrow
from skate.data.values import frames as _frames
from skate.data.values.unify import cast_batch, concat, concat_as, merge

if TYPE_CHECKING:
    from skate import ObjectRef


def _unmasked(df: Any, kept: Any) -> Any:
    """A DataFrame whose masked columns are plain ones, where that is exact. kept: dtypes of columns
    that stay, as of Dataset._dtypes()."""
    for name, dtype in zip(df.columns, df.dtypes, strict=True):
        if hasattr(dtype, "num"):  # numpy's own
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


@errors.part_of("skate.data.dataset", "Dataset")
class Conversions:
    """Part of Dataset."""

    _facts: Facts

    def _each(self, make: Any, keep: Any, back: Any) -> list[Any]:
        """keep(make(batch)) for each block, in one schema: what was made before a block that widens
        it is made again, of back(what was kept, the schema that it had), a Table."""
        out, had = [], []
        for rb in execute.in_one_schema(self._request()):
            out.append(keep(make(rb)))
            had.append((rb.schema, rb.num_rows))
            del rb
        if not had:
            return out
        last = (
            had[-1][0]
            if any(rows for _, rows in had)
            else max((schema for schema, _ in had), key=len)
        )
        for i, (schema, rows) in enumerate(had):
            if not schema.equals(last):
                # Without rows no function has said the types.
                table = concat_as(back(out[i], schema), last) if rows else last.empty_table()
                out[i] = keep(make(merge(to_arrow.from_table(table))))
        return out

    def _refs(self, make: Any, columns: Any = None) -> list[Any]:
        """References to make(batch). columns: a function from what was made to a dict of arrays;
        None: it is a Table, a DataFrame or such a dict."""

        def back(ref: Any, schema: Any) -> Any:
            v = skate.get(ref) if columns is None else columns(skate.get(ref))
            return v if isinstance(v, pa.Table) else pa.Table.from_batches(batch.again(v, schema))

        return self._each(make, skate.put, back)

    def _table(self, limit: int | None = None) -> Any:
        """All rows as one pyarrow Table."""
        rbs, n = [], 0
        it = execute.in_one_schema(self._request())
        for rb in it:
            rbs.append(rb)
            n += rb.num_rows
            if limit is not None and n > limit:
                it.close()
                raise ValueError(
                    f"to_pandas: there are more than the limit of {limit} rows; limit=None makes a DataFrame of all of them, in the memory of this process"
                )
        if not rbs:
            return (
                pa.table({}) if self._facts.schema is None else self._facts.schema().empty_table()
            )
        return concat([rb for rb in rbs if rb.num_rows] or rbs[:1])

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """All rows as one DataFrame.

        A column that from_pandas() got with a dtype of pandas' own (Int64, boolean, string,
        int64[pyarrow], ...) has it again, whatever was done in between, if it still has its name
        and its type. Else nulls are NaN in columns of numbers and None in others, as pandas has
        them by default (batches of functions have masked columns, which keep the type); a column of
        integers that floats cannot hold exactly stays a masked one.

        Args:
            limit: The most rows that there may be; None: any number.

        Raises:
            ValueError: There are more than limit.

        Example:
            >>> import skate
            >>> skate.data.range(3).to_pandas()["id"].tolist()
            [0, 1, 2]
        """
        dtypes = self._dtypes()  # type: ignore[attr-defined]
        return _unmasked(_frames.table_to_pandas(self._table(limit), dtypes), dtypes)

    def to_arrow(self) -> pa.Table:
        """All rows as one pyarrow Table.

        Example:
            >>> import skate
            >>> skate.data.range(3).to_arrow().num_rows
            3
        """
        return self._table()

    def to_arrow_refs(self) -> list[ObjectRef[pa.Table]]:
        """References to pyarrow Tables, one a block."""
        return self._refs(lambda rb: pa.Table.from_batches([rb]))

    def to_numpy_refs(self, *, column: str | None = None) -> list[ObjectRef[Any]]:
        """References to dicts of arrays (or to the arrays of one column), one a block.

        Args:
            column: The column whose arrays they are; None: dicts of all columns.

        Example:
            >>> import skate
            >>> [
            ...     len(skate.get(r))
            ...     for r in skate.data.range(4, override_num_blocks=2).to_numpy_refs(column="id")
            ... ]
            [2, 2]
        """
        if column is None:
            return self._refs(numpy_batch.to_numpy)
        return self._refs(lambda rb: numpy_batch.to_numpy(rb)[column], lambda v: {column: v})

    def to_pandas_refs(self) -> list[ObjectRef[pd.DataFrame]]:
        """References to DataFrames, one a block."""
        return self._refs(_frames.to_pandas)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The blocks as an Arrow stream, run while it is read: polars.DataFrame(ds), duckdb and
        pyarrow.table(ds) take it."""
        it = execute.in_one_schema(self._request())
        first = next(it, None)
        schema = (
            first.schema
            if first is not None
            else self._facts.schema()
            if self._facts.schema
            else pa.schema([])
        )

        def stream() -> Iterator[Any]:
            if first is not None:
                yield first
            for rb in it:
                if rb.num_rows:
                    yield cast_batch(rb, schema)

        return pa.RecordBatchReader.from_batches(schema, stream()).__arrow_c_stream__(
            requested_schema
        )

    def to_polars(self) -> Any:
        """All rows as one Polars DataFrame, as polars.DataFrame(ds) gives it. ImportError without
        the package."""
        return library("polars", "to_polars").DataFrame(self)

    def to_duckdb(self, connection: Any = None) -> Any:
        """All rows as a DuckDB relation, to query with its methods or, by the name of the Python
        variable that holds it, in SQL of the same connection.

        Queries over the Dataset itself stream instead: duckdb.sql("select ... from ds").
        ImportError without the package.

        Args:
            connection: A DuckDB connection; None: duckdb's default one.
        """
        duckdb = library("duckdb", "to_duckdb")
        return (duckdb if connection is None else connection).from_arrow(self.to_arrow())

    def to_huggingface(self) -> Any:
        """All rows as a Hugging Face datasets.Dataset. ImportError without the package."""
        datasets = library("datasets", "to_huggingface")
        return datasets.Dataset(datasets.table.InMemoryTable(self.to_arrow()))

    def to_daft(self) -> Any:
        """A Daft DataFrame. ImportError without the package."""
        return library("daft", "to_daft").from_arrow(self.to_arrow())

    def to_dask(self, meta: Any = None, verify_meta: bool = True) -> Any:
        """A Dask DataFrame, one partition a block. ImportError without the package.

        Args:
            meta: An empty DataFrame with the columns, as Dask takes it; by default from the first
                rows.
            verify_meta: Dask checks it.
        """
        dd = library("dask.dataframe", "to_dask", "dask")
        frames = self._each(
            _frames.to_pandas,
            lambda df: df,
            lambda df, schema: pa.Table.from_batches(batch.again(df, schema)),
        )
        return dd.from_delayed(
            [dask.delayed(lambda f=f: f)() for f in frames],
            meta=frames[0].iloc[:0] if meta is None else meta,
            verify_meta=verify_meta,
        )

    def to_modin(self) -> Any:
        """A Modin DataFrame. ImportError without the package."""
        return library("modin.pandas", "to_modin", "modin").DataFrame(self.to_pandas())

    def to_mars(self) -> Any:
        """A Mars DataFrame. ImportError without the package."""
        return library("mars.dataframe", "to_mars", "pymars").DataFrame(self.to_pandas())

    def to_spark(self, spark: Any) -> Any:
        """A Spark DataFrame of a session.

        Args:
            spark: The SparkSession.
        """
        return spark.createDataFrame(self.to_pandas())

    def to_torch(self, **kwargs: Any) -> Any:
        """A torch IterableDataset of (features, label) batches; see DataIterator.to_torch.

        Args:
            kwargs: Those of DataIterator.to_torch: label_column, feature_columns, batch_size, ...
        """
        return self.iterator().to_torch(**kwargs)  # type: ignore[attr-defined]

    def to_tf(self, *args: Any, **kwargs: Any) -> Any:
        """A TensorFlow Dataset; see DataIterator.to_tf. ImportError without TensorFlow.

        Args:
            args: feature_columns and label_columns, as of DataIterator.to_tf.
            kwargs: The others of DataIterator.to_tf.
        """
        return self.iterator().to_tf(*args, **kwargs)  # type: ignore[attr-defined]
