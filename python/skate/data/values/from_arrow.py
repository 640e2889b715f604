"""Converts Arrow columns to NumPy arrays and Python values; data/values/batch.py has the table of
types."""

from __future__ import annotations

from typing import Any

from skate._deps import np, pa, pc
from skate._deps import pa_types as _T
from skate.data.on_error import UntrustedPickleError
from skate.data.values import flat
from skate.data.values import tensor_types as _tt
from skate.data.values.encoded_text import EncodedText
from skate.data.values.flat import (
    DICTIONARY,
    FIXED_LIST,
    LISTS,
    NUMBERS,
    TEXT,
    list_values,
    plain_view,
    texts,
)
from skate.data.values.marks import python_values
from skate.data.values.missing import ROW_MARKS
from skate.data.values.selection import decoded
from skate.data.values.tensor_types import is_fixed
from skate.data.values.types import PythonObjectType, can_rebuild, is_ragged, objects_of


def column_to_numpy(name: str, col: pa.Array) -> np.ndarray:
    t = col.type
    tid = t.id
    v = flat.to_numpy(name, col)
    if v is not None:
        return v
    if isinstance(t, EncodedText):
        return column_to_numpy(name, col.storage)
    if is_fixed(t):
        if col.null_count == 0:
            return tensor_to_numpy(col)
        if _T.is_floating(t.value_type) and 0 not in t.shape:
            return _missing_rows(name, col)
    if tid == FIXED_LIST and t.value_type.id in NUMBERS and t.list_size > 0:
        if col.null_count == 0:
            inner = list_values(col)
            v = plain_view(inner) if inner.null_count == 0 else flat.to_numpy(name, inner)
            if v is not None and v.dtype != object:
                return v.reshape(len(col), t.list_size)
        elif _T.is_floating(t.value_type):
            return _missing_rows(name, col)
    if tid == DICTIONARY:
        if t.value_type.id in TEXT and col.null_count == 0 and len(col.dictionary):
            return column_to_numpy(name, col.dictionary).take(plain_view(col.indices))
        return column_to_numpy(name, decoded(col))
    if _T.is_run_end_encoded(t):
        return column_to_numpy(name, runs_decoded(col))
    out = np.empty(len(col), object)
    values = None
    if (tid in LISTS or tid == FIXED_LIST) and t.value_type.id in NUMBERS:
        inner = flat.to_numpy(name, _values(col))
        if inner is not None and inner.dtype != object:
            values = _cut(col, inner)
    if values is None:
        values = to_objects(name, col)
    if tid in LISTS or tid == FIXED_LIST:
        values = [objects_array(v) if type(v) is list else v for v in values]
    out[:] = values
    if not can_rebuild(t):
        out.setflags(write=False)  # a read-only array can only be returned unchanged
    return out


def lacks_numbers(col: pa.Array) -> bool:
    """Whether numbers or bools of a column are missing, also inside lists, arrays, dictionaries and
    runs; the dtype of its array depends on this."""
    t = col.type
    if t.id in NUMBERS or t.id == flat.BOOL:
        return col.null_count > 0
    if t.id in LISTS or t.id == FIXED_LIST:
        return t.value_type.id in NUMBERS and (
            col.null_count > 0 or list_values(col).null_count > 0
        )
    if is_fixed(t):
        return col.null_count > 0 or list_values(col.storage).null_count > 0
    if t.id == DICTIONARY:
        return t.value_type.id not in TEXT and (col.null_count > 0 or col.dictionary.null_count > 0)
    return bool(_T.is_run_end_encoded(t) and t.value_type.id not in TEXT)


def _missing_rows(name: str, col: pa.Array) -> np.ndarray:
    """Joins arrays of floats with one shape into one array; a null array becomes NaN."""
    there = column_to_numpy(name, col.drop_null())
    out = np.full((len(col), *there.shape[1:]), ROW_MARKS[there.dtype])
    out[flat.valid_bits(col)] = there
    out.setflags(write=False)
    return out


def _values(col: pa.Array) -> pa.Array:
    """The elements of lists, without those under nulls."""
    return list_values(col) if col.null_count == 0 else col.flatten()


def _cut(col: pa.Array, values: np.ndarray) -> list[Any]:
    """The rows of a column of lists (None for null), as slices of the array of its _values()."""
    n, t = len(col), col.type
    valid = [True] * n if col.null_count == 0 else flat.valid_bits(col).tolist()
    if t.id == FIXED_LIST:
        lens = [t.list_size if v else 0 for v in valid]
    else:
        offs = col.offsets.to_pylist()
        if col.null_count == 0:
            base = offs[0] if offs else 0
            return [values[a - base : b - base] for a, b in zip(offs, offs[1:], strict=False)]
        # col.flatten() leaves out the elements of lists that are null
        lens = [b - a if v else 0 for a, b, v in zip(offs, offs[1:], valid, strict=False)]
    out: list[Any] = []
    at = 0
    for k, v in zip(lens, valid, strict=True):
        out.append(values[at : at + k] if v else None)
        at += k
    return out


def form_of(t: pa.DataType) -> tuple[np.dtype, tuple[int, ...]] | None:
    """(dtype, shape of a row) of a column's array, if the array is a view of the values when none
    is null; None: the type is of another kind."""
    if is_fixed(t):
        values, shape = _tt.fixed_parts(t)
        return (
            (flat.DTYPES[values.id], shape)
            if values.id in NUMBERS and getattr(t, "permutation", None) is None
            else None
        )
    if t.id == FIXED_LIST:
        return (
            (flat.DTYPES[t.value_type.id], (t.list_size,))
            if t.value_type.id in NUMBERS and t.list_size > 0
            else None
        )
    return (flat.DTYPES[t.id], ()) if t.id in NUMBERS else None


def runs_decoded(col: pa.Array) -> pa.Array:
    return pc.run_end_decode(col)


def tensor_to_numpy(col: pa.Array) -> np.ndarray:
    """An (n, *shape) view of a column of arrays of one shape."""
    if isinstance(col, _tt.ArrowTensorArray):
        return col.to_numpy()
    t = col.type
    values = list_values(col.storage)
    v = (
        plain_view(values)
        if values.null_count == 0 and values.type.id in NUMBERS
        else column_to_numpy("", values)
    )
    shape = list(t.shape)
    if t.permutation is None:
        return v.reshape(len(col), *shape)
    # `shape` is logical here as in pyarrow: logical[i] = physical[permutation[i]]
    physical = [0] * len(shape)
    for i, p in enumerate(t.permutation):
        physical[i] = shape[i]
    a = v.reshape(len(col), *physical)
    return a.transpose(0, *(p + 1 for p in t.permutation))


def to_objects(name: str, col: pa.Array) -> list[Any]:
    """The Python values of a column, for rows and for object arrays."""
    t = col.type
    tid = t.id
    if tid in TEXT:
        return texts(name, col, [None] * len(col))
    if (tid in LISTS or tid == FIXED_LIST) and t.value_type.id in NUMBERS:
        inner = _values(col)
        if inner.null_count == 0:
            return _cut(col, plain_view(inner))
    if is_fixed(t):
        if col.null_count == 0:
            return list(tensor_to_numpy(col))
        it = iter(tensor_to_numpy(col.drop_null()))
        return [next(it) if v else None for v in col.is_valid().to_pylist()]
    if isinstance(t, PythonObjectType):
        return objects_of(col, name)
    if is_ragged(t):
        lists, shapes = col.storage.field("data"), col.storage.field("shape").to_pylist()
        data = _cut(lists, column_to_numpy(name, _values(lists)))
        return [
            d.reshape(s) if v else None
            for d, s, v in zip(data, shapes, col.is_valid().to_pylist(), strict=True)
        ]
    if isinstance(t, pa.BaseExtensionType) and not isinstance(
        t, (pa.UuidType, pa.JsonType, pa.Bool8Type)
    ):
        return to_objects(name, col.storage)
    try:
        if "time64[ns]" in str(t):  # as_py() would drop digits below a microsecond
            if not _T.is_time64(t):
                raise ValueError("datetime.time has no nanoseconds")
            col = col.cast(pa.time64("us"), safe=True)
        return python_values(name, col)
    except UntrustedPickleError:
        raise
    except (ValueError, pa.ArrowException, OverflowError) as e:
        raise ValueError(
            f'column {name!r} ({t}) has no exact Python form: {e}; use batch_format="pyarrow"'
        ) from None


def objects_array(values: list[Any]) -> np.ndarray:
    out = np.empty(len(values), object)
    for i, v in enumerate(values):
        out[i] = v
    return out
