"""add_column: adds one column that a user function computes from a batch. The column must be as
long as the batch; each value may depend on all rows of the batch."""

from __future__ import annotations

from typing import Any

from skate._deps import np, pa
from skate.data.op import Batches, Operator, Params
from skate.data.values import batch, frames, numpy_batch, to_arrow
from skate.data.worker import rows


class AddColumn(Operator):
    one_to_one = on_error = True

    def run(self, params: Params, batches: Batches, task: Any) -> Batches:
        fn, label, fmt, col = params["fn"], params["label"], params["batch_format"], params["col"]

        def work(rb: Any) -> list[Any]:
            given = numpy_batch.NumpyBatch(rb) if fmt in ("default", "numpy") else None
            got = batch.to_batch(rb, fmt) if given is None else given
            arr = _column(
                fn(got, *params["fn_args"], **params["fn_kwargs"]), col, fmt, rb.num_rows, given
            )
            if len(arr) != rb.num_rows:
                raise ValueError(
                    f"{label} returned {len(arr)} values for {rb.num_rows} rows; return one value per row"
                )
            i = rb.schema.get_field_index(col)
            names, cols = list(rb.schema.names), list(rb.columns)
            if i >= 0:
                cols[i] = arr
            else:
                names.append(col)
                cols.append(arr)
            made: list[Any] = to_arrow.record_batches(names, cols)
            return made

        return rows.by_batch(params, (rb for rb in batches if rb.num_rows), task, work)


def _column(v: Any, name: str, fmt: str, n: int, given: Any) -> Any:
    """Makes a column from the user function's result for a batch of n rows; TypeError if the result
    is not what the batch format requires. given: the batch in NumPy's form."""
    if fmt != "pandas":
        kind, said = (
            ((pa.Array, pa.ChunkedArray), "pyarrow Array")
            if fmt == "pyarrow"
            else (np.ndarray, "numpy.ndarray")
        )
        if not isinstance(v, kind):
            raise TypeError(f"For {fmt} batch format, a function returns a {said}, not {type(v)}")
    elif type(v).__module__.startswith("pandas"):
        if hasattr(v, "columns"):
            if len(v.columns) != 1:
                raise ValueError(
                    f"a DataFrame with {len(v.columns)} columns was returned for the one new column"
                )
            v = v.iloc[:, 0]
        if hasattr(v, "dtype"):
            return frames.from_series(v if hasattr(v, "iloc") else v.to_series(), None)
    # pandas repeats a single value for every row
    elif isinstance(v, (str, bytes)) or not hasattr(v, "__len__"):
        return to_arrow.from_objects([v] * n, None)
    elif not hasattr(v, "dtype"):
        v = list(v)
    return batch.as_column(v, name, None, given)


operator = AddColumn()
