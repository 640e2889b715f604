"""Concatenator: columns of numbers as one column of vectors."""

from __future__ import annotations

import logging
import math
from typing import Any

from skate._deps import np, pa
from skate.data.preprocessors.base import (
    Builtin,
    column,
    is_number,
    lists_of,
    vectors,
    with_columns,
)
from skate.data.preprocessors.version_support import OURS, SerializablePreprocessor
from skate.data.values import batch, tensor_types, to_arrow
from skate.data.values.unify import MissingColumn, columns_are


@SerializablePreprocessor(version=1, identifier=OURS + "concatenator")
class Concatenator(Builtin):
    """Puts the values of columns side by side, in the order of `columns`, into one column of
    vectors, which is appended; the input columns are dropped.

    Args:
        columns: Names of columns.
        output_column_name: The name of the result.
        dtype: NumPy dtype of the result; None: one that holds all columns, by np.result_type.
        raise_if_missing: True: a missing column is an error; False: it is a warning, and the other
            columns are used.
        flatten: True: the elements of lists and arrays are elements of the vector; False: each list
            is one entry in a row of Python objects.

    Raises:
        KeyError: A column is missing, with raise_if_missing; or
            all are missing.
        ValueError: A value cannot be converted to dtype.

    Example:
        >>> import skate
        >>> from skate.data.preprocessors import Concatenator
        >>> ds = skate.data.from_items([{"a": 1, "b": 0.5, "y": 7}])
        >>> Concatenator(["a", "b"]).transform(ds).take_all()
        [{'y': 7, 'concat_out': array([1. , 0.5])}]
    """

    columns: list[str]
    output_column_name: str
    dtype: Any
    raise_if_missing: bool
    flatten: bool
    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        output_column_name: str = "concat_out",
        dtype: Any = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
    ):
        super().__init__()
        self._keep(
            columns=columns,
            output_column_name=output_column_name,
            dtype=dtype,
            raise_if_missing=raise_if_missing,
            flatten=flatten,
        )

    def get_output_columns(self) -> list[str]:
        return [self.output_column_name]

    def _changes(self) -> set[str]:
        return {*self.columns, self.output_column_name}

    def _needs(self) -> list[str]:
        return []  # a worker raises the error about a missing column, or warns

    def _transform_arrow(self, table: Any) -> Any:
        missing = [n for n in self.columns if n not in table.column_names]
        there = [n for n in self.columns if n in table.column_names]
        if missing:
            text = f"Concatenator: there is no column {', '.join(map(repr, missing))}; {columns_are(missing[0], table.column_names)}"
            if self.raise_if_missing or not there:
                raise MissingColumn(text)
            logging.getLogger("ray.data").warning("%s", text)
        cols = [column(table, name, self) for name in there]
        return with_columns(
            table.drop_columns(list(dict.fromkeys(there))),
            {self.output_column_name: self._together(there, cols)},
        )

    def _together(self, names: list[str], cols: list[Any]) -> Any:
        parts = [_matrix(c, self.flatten) for c in cols]
        whole = self.dtype is not None and np.dtype(self.dtype).kind in "iub"
        for name, col, p in zip(names, cols, parts, strict=True):
            if whole and (
                col.null_count or p is not None and p.dtype.kind == "f" and np.isnan(p).any()
            ):
                raise ValueError(
                    f"Concatenator: column {name!r} has missing values, which {np.dtype(self.dtype)} cannot hold; fill them first (SimpleImputer)"
                )
        if all(p is not None for p in parts):
            return vectors(np.concatenate(parts, axis=1, dtype=self.dtype, casting="unsafe"))
        values = [_objects(c) for c in cols]
        rows = zip(*values, strict=True)
        if self.flatten:  # the vectors have different lengths
            return to_arrow.from_objects(
                [
                    np.concatenate([np.atleast_1d(np.asarray(v, self.dtype)) for v in row])
                    for row in rows
                ],
                None,
            )
        if self.dtype is None:
            return to_arrow.from_objects([list(row) for row in rows], None)
        return vectors(
            np.array([list(row) for row in rows], self.dtype).reshape(len(cols[0]), len(cols))
        )


def _matrix(col: Any, flatten: bool) -> Any:
    """A column as an array of shape (rows, values of each row); None if rows have different
    lengths, or values are no numbers."""
    t = col.type
    if pa.types.is_null(t) or pa.types.is_decimal(t):
        col = col.cast(pa.float64())
    if is_number(t):
        return _objects(col)[:, None]
    if not flatten:
        return None
    if tensor_types.is_fixed(t) and not col.null_count:
        # without rows, reshape() cannot infer -1
        return _objects(col).reshape(len(col), math.prod(t.shape))
    inside = lists_of(col)
    if inside is None or inside.null_count or not is_number(inside.type.value_type):
        return None
    lengths = inside.value_lengths().to_numpy()
    return (
        inside.flatten().to_numpy(zero_copy_only=False).reshape(len(col), -1)
        if len(col) and (lengths == lengths[0]).all()
        else None
    )


def _objects(col: Any) -> Any:
    """A column in the form of a NumPy batch."""
    return batch.to_batch(pa.RecordBatch.from_arrays([col], ["x"]), "numpy")["x"]
