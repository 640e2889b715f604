"""Converts record batches to pandas DataFrames, and back. pandas is imported only when one of these
functions is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skate._deps import extensions, np, pa, pd
from skate._deps import pa_types as _T
from skate.data.context import DataContext
from skate.data.values.flat import BOOL, NUMBERS, plain_view, stored, times_to_numpy, valid_bits
from skate.data.values.from_arrow import (
    column_to_numpy,
    objects_array,
    runs_decoded,
    tensor_to_numpy,
    to_objects,
)
from skate.data.values.selection import decoded
from skate.data.values.tensor_types import is_fixed
from skate.data.values.to_arrow import (
    array_from_numpy,
    exact,
    from_objects,
    from_table,
    hint_of,
    narrowed,
    one_array,
    record_batches,
    same_objects,
)
from skate.data.values.types import can_rebuild, family, is_ragged
from skate.data.values.unify import check_names


def to_pandas(rb: pa.RecordBatch, dtypes: Mapping[str, tuple[str, str]] | None = None) -> Any:
    """A DataFrame in its own memory, which may be changed in place: pandas copies the columns, all
    columns of one dtype into one block. A column of numbers takes 5 us. dtypes: {name: (dtype in
    the form of noted(), type)}, used for columns that have this type."""
    index = pd.RangeIndex(rb.num_rows)
    made = {
        name: _values(pd, name, col, index)
        for name, col in zip(rb.schema.names, rb.columns, strict=True)
        if not dtypes or name not in dtypes
    }
    if dtypes:
        made = {
            name: made[name] if name in made else _as_noted(pd, name, col, index, *dtypes[name])
            for name, col in zip(rb.schema.names, rb.columns, strict=True)
        }
    return pd.DataFrame(made, index=index)


def table_to_pandas(t: pa.Table, dtypes: Mapping[str, tuple[str, str]] | None = None) -> Any:
    rbs = from_table(t)
    return (
        to_pandas(rbs[0], dtypes)
        if len(rbs) == 1
        else pd.concat([to_pandas(b, dtypes) for b in rbs], ignore_index=True)
    )


def noted(dfs: Sequence[Any]) -> dict[str, str]:
    """{name: dtype} for dtypes that do not follow from Arrow's types: masked ones (Int64), texts
    with NA (string[pyarrow]), Arrow-backed ones ("Arrow", "Arrow large_string"). Only columns with
    the same dtype in all of these DataFrames are included."""
    kept: dict[str, set[str]] = {}
    for df in dfs:
        for name, t in zip(df.columns, df.dtypes, strict=True):
            kept.setdefault(name, set()).add("" if isinstance(t, np.dtype) else _noted(t))
    return {
        name: next(iter(names)) for name, names in kept.items() if len(names) == 1 and names != {""}
    }


def _noted(t: Any) -> str:
    if isinstance(t, pd.StringDtype):
        return f"string[{t.storage}]" if t.na_value is pd.NA else ""
    if isinstance(t, pd.ArrowDtype):
        return "Arrow large_string" if t.pyarrow_dtype == pa.large_string() else "Arrow"
    masked = (pd.arrays.BooleanArray, pd.arrays.IntegerArray, pd.arrays.FloatingArray)
    return str(t) if t.construct_array_type() in masked else ""


def _as_noted(pd: Any, name: str, col: pa.Array, index: Any, dtype: str, of: str) -> Any:
    """The DataFrame's values for a column that had this pandas dtype when its Arrow type was
    `of`."""
    if str(col.type) != of:
        return _values(pd, name, col, index)
    if dtype.startswith("Arrow"):
        return pd.arrays.ArrowExtensionArray(
            col.cast(pa.large_string()) if dtype.endswith("large_string") else col
        )
    if dtype.startswith("string["):
        return pd.array(col.to_pylist(), dtype=dtype)
    return _masked(pd, col)


def _masked(pd: Any, col: pa.Array) -> Any:
    t = col.type
    kind = (
        pd.arrays.BooleanArray
        if t.id == BOOL
        else pd.arrays.FloatingArray
        if _T.is_floating(t)
        else pd.arrays.IntegerArray
    )
    return kind(np.array(stored(col)), ~valid_bits(col))


def _values(pd: Any, name: str, col: pa.Array, index: Any) -> Any:
    """The DataFrame's values for a column: a view of numbers, a pandas array, or a Series over
    `index` (the same index object for all columns, because aligning takes 100 us for each
    column)."""
    t = col.type
    tid = t.id
    if tid in NUMBERS or tid == BOOL:
        if col.null_count == 0:
            return column_to_numpy(name, col)
        return _masked(pd, col.cast(pa.float32()) if _T.is_float16(t) else col)
    if _T.is_timestamp(t) or _T.is_duration(t):
        times = times_to_numpy(name, col)
        return (
            times
            if _T.is_duration(t) or t.tz is None
            else pd.Series(times, index).dt.tz_localize("UTC").dt.tz_convert(_zone(t.tz))
        )
    if (
        _T.is_dictionary(t)
        and col.dictionary.null_count == 0
        and (
            _T.is_string(t.value_type)
            or _T.is_large_string(t.value_type)
            or _T.is_integer(t.value_type)
        )
    ):
        d = col.dictionary.to_pylist()
        if len(set(d)) == len(d):
            codes = plain_view(col.indices).astype(np.int64)
            codes[~valid_bits(col.indices)] = -1
            return pd.Categorical.from_codes(codes, categories=d, ordered=t.ordered)
    if _T.is_dictionary(t):
        return _values(pd, name, decoded(col), index)
    if _T.is_run_end_encoded(t):
        return _values(pd, name, runs_decoded(col), index)
    if _T.is_string(t) or _T.is_large_string(t):
        return pd.Series(
            col.to_pylist(),
            index,
            dtype="str" if hasattr(pd, "StringDtype") and pd.__version__ >= "3" else object,
        )
    # types with their own pandas form: periods, intervals
    if isinstance(t, pa.BaseExtensionType) and t.extension_name.startswith("pandas."):
        return t.to_pandas_dtype().__from_arrow__(col)
    if (
        (is_fixed(t) or is_ragged(t))
        and not DataContext.get_current().enable_tensor_extension_casting
        and not col.null_count
    ):
        return extensions.TensorArray(
            tensor_to_numpy(col) if is_fixed(t) else to_objects(name, col)
        )
    if not can_rebuild(t) and not is_fixed(t):
        raise TypeError(
            f'column {name!r} ({t}) has no exact pandas form; use batch_format="pyarrow", or drop it first'
        )
    return pd.Series(objects_array(to_objects(name, col)), index, dtype=object)


def _zone(tz: str) -> Any:
    """Arrow's time zone in a form that pandas accepts: a name, or a fixed offset such as +05:30."""
    return tz


def from_pandas(df: Any, what: str, rb: pa.RecordBatch | None = None) -> list[pa.RecordBatch]:
    """A DataFrame as a batch (as several if one cannot hold it); index levels that contain data
    come first. NaN in float columns stays NaN; None, NA and NaT become null."""
    cols, names = [], []
    index = _of_index(df, what)
    for name, s in [*index, *_columns(df)]:
        old = hint_of(name, rb)
        try:
            if type(s) is np.ndarray:
                col = array_from_numpy(
                    s, None if old is None or s.dtype.kind not in "mMb" else old.type
                )
            else:
                col = from_series(s, None if old is None else old.type, old)
            # pandas does not preserve the dtype of an index of evenly spaced integers: the column
            # of an index level is cast back to its old type if that is exact
            if old is not None and len(cols) < len(index):
                kept = exact(col, old.type)
                col = col if kept is None else kept
            cols.append(col)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            raise type(e)(
                f"{what} returned column {name!r} that cannot become an Arrow column: {e}"
            ) from None
        names.append(name)
    check_names(names, what)
    return record_batches(names, cols)


def _columns(df: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name, values) of each column. Numbers and times are arrays, which in a wide DataFrame
    are views of one array for each dtype (getting a single column takes 100 us); other columns are
    Series."""
    names = [str(n) for n in df.columns]
    wide: dict[Any, list[int]] = {}
    for i, t in enumerate(df.dtypes):
        if isinstance(t, np.dtype) and t.kind in "iufbmM":
            wide.setdefault(t, []).append(i)
    arrays: dict[int, Any] = {}
    for at in wide.values():
        if len(at) > 16:
            values = (df if len(at) == len(names) else df.iloc[:, at]).to_numpy()
            arrays.update((i, values[:, k]) for k, i in enumerate(at))
    for i, name in enumerate(names):
        yield name, arrays[i] if i in arrays else df.iloc[:, i]


def _of_index(df: Any, what: str) -> list[tuple[str, Any]]:
    """(name, Series) of each index level that contains data. A named level has its name, and is
    left out if a column repeats it. An unnamed level is named __index_level_0__ (1, ...) as in
    pyarrow. Unnamed integers only number rows, so they are left out, unless other levels of the
    index contain data."""
    index = df.index
    names = list(index.names)
    if names == [None] and index.dtype.kind in "iu":
        return []
    levels = [index.get_level_values(i) for i in range(len(names))] if len(names) > 1 else [index]
    columns = {str(c): i for i, c in reversed(list(enumerate(df.columns)))}
    any_name = len(names) == 1 or any(n is not None for n in names)
    out = []
    for i, (name, level) in enumerate(zip(names, levels, strict=True)):
        if name is None:
            if level.dtype.kind in "iu" and any_name or not len(level):
                continue
            name = f"__index_level_{i}__"
        elif (at := columns.get(str(name))) is not None:
            if level.equals(pd.Index(df.iloc[:, at])):
                continue
            raise ValueError(
                f"{what} returned a DataFrame with a column {str(name)!r} and an index of that name that says something else; rename one of them "
                "(df.rename_axis(...)), or leave the index out (df.reset_index(drop=True))"
            )
        out.append((str(name), pd.Series(level)))
    return out


def from_series(s: Any, hint: pa.DataType | None, old: pa.Array | None = None) -> Any:
    """A Series as an Arrow array; `hint`: the type that the array gets if that is exact; `old`: the
    column of that type from which the Series was made."""
    dtype = s.dtype
    if isinstance(dtype, np.dtype):
        if dtype.kind == "O":
            values = s.tolist()
            kept = same_objects(values, old)  # compared before NaN becomes null
            if kept is not None:
                return kept
            mask = s.isna().to_numpy()
            if mask.any():
                values = [None if m else v for v, m in zip(values, mask.tolist(), strict=True)]
            return from_objects(values, hint, old)
        return array_from_numpy(s.to_numpy(), hint if dtype.kind in "mMb" else None)
    arr = one_array(pa.array(s))
    if _T.is_large_string(arr.type) and (hint is None or family(hint) != family(arr.type)):
        arr = narrowed(arr)
    if hint is not None and arr.type != hint:
        kept = exact(arr, hint)
        if kept is not None:
            return kept
    return arr
