"""The batch that a function with batch_format "numpy" gets: a dict with one array for each column.
Arrays are made at their first use, and arrays that are returned unchanged are not converted
back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from skate import _skate
from skate._deps import np, pa
from skate.data.values.encoded_text import EncodedText
from skate.data.values.flat import DICTIONARY, NUMBERS, TEXT, plain_view
from skate.data.values.from_arrow import column_to_numpy, lacks_numbers

LATER: Any = object()  # stands for an array that was not yet requested
# types whose objects are immutable, so that an array with the same objects is unchanged
_IMMUTABLE = {*TEXT, pa.string_view().id, pa.binary_view().id, pa.binary(1).id}


class NumpyBatch(dict):
    """A dict of arrays, each made at its first use, so that a column that is only passed on is not
    converted in either direction."""

    __slots__ = ("rb", "given", "copies", "codes", "missing", "writable")

    def __init__(self, rb: pa.RecordBatch, writable: bool = False):
        super().__init__(dict.fromkeys(rb.schema.names, LATER))
        self.rb, self.writable = rb, writable
        self.given: dict[str, np.ndarray] = {}  # arrays that were handed out
        # copies of columns of objects, with which returned objects are compared: this is faster
        # than building the column again
        self.copies: dict[str, np.ndarray] = {}
        # For encoded strings: (distinct objects, their codes), which can be compared without a
        # copy.
        self.codes: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.missing: dict[
            str, np.ndarray
            # arrays that were handed out with another dtype than that of the column's type, because
            # numbers are missing in the column (missing.py)
        ] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        v = dict.__getitem__(self, name)
        if v is LATER:
            col = self.rb.column(self.rb.schema.get_field_index(name))
            t = col.type
            if isinstance(t, EncodedText) and col.null_count == 0:
                values, codes = self.codes[name] = (
                    column_to_numpy(name, col.storage.dictionary),
                    plain_view(col.storage.indices),
                )
                v = np.empty(len(col), object)
                _skate.coded_objects(v, values, codes)
            else:
                v = column_to_numpy(name, col)
                if (
                    t.id in _IMMUTABLE
                    or t.id == DICTIONARY
                    and t.value_type.id in _IMMUTABLE
                    or isinstance(t, EncodedText)
                ):
                    self.copies[name] = v.copy()
                elif self.writable:
                    v = v.copy()
            self.given[name] = v
            # null_count of dictionaries and runs does not count nulls among their values.
            if (
                col.null_count
                if t.id in NUMBERS
                else v.dtype.kind == "f" and (v.ndim == 1 or col.null_count)
            ):
                self.missing[name] = v
            dict.__setitem__(self, name, v)
        return v

    def same(self, name: str, v: np.ndarray) -> bool:
        """Whether an array of objects that was handed out still has the same objects."""
        if name in self.codes:
            return _skate.same_coded(v, *self.codes[name])
        return name in self.copies and _skate.same_objects(v, self.copies[name])

    def _all(self) -> NumpyBatch:
        for k in dict.keys(self):
            self[k]
        return self

    def untouched(self) -> bool:
        """Whether all columns would be the same after the conversion back, in a schema that has
        only names and types."""
        schema = self.rb.schema
        if schema.metadata is not None or list(dict.keys(self)) != schema.names:
            return False
        for name, v in dict.items(self):
            if v is not LATER and (
                v is not self.given.get(name)
                or v.flags.writeable
                or name in self.copies
                or name in self.codes
            ):
                return False
        return all(f.nullable and f.metadata is None for f in schema)

    # dict(batch) and {**batch} call this method because it is defined; else they would copy the
    # dict before its arrays are made
    def __iter__(self) -> Any:
        return dict.__iter__(self)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def pop(self, name: str, *default: Any) -> Any:
        if name in self:
            self[name]
        return dict.pop(self, name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else dict.setdefault(self, name, default)

    def popitem(self) -> Any:
        return dict.popitem(self._all())

    def items(self) -> Any:
        return dict.items(self._all())

    def values(self) -> Any:
        return dict.values(self._all())

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    def __eq__(self, other: object) -> bool:
        return self.copy() == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()


def to_cut(
    rb: pa.RecordBatch,
) -> tuple[dict[str, Any], dict[str, Callable[[int, int], np.ndarray]]]:
    """Returns (arrays of which the arrays of batches are slices, functions of a batch's first row
    and row count for the other columns). The other columns have missing numbers in some rows, so
    their dtype in a batch depends on the batch, not on the borders of blocks."""
    cols: dict[str, Any] = {}
    varied: dict[str, Callable[[int, int], np.ndarray]] = {}
    for name, col in zip(rb.schema.names, rb.columns, strict=True):
        if lacks_numbers(col):
            cols[name] = None
            varied[name] = functools.partial(_part, name, col)
        else:
            cols[name] = column_to_numpy(name, col)
    return cols, varied


def _part(name: str, col: pa.Array, at: int, n: int) -> np.ndarray:
    return column_to_numpy(name, col.slice(at, n))


def to_numpy(rb: pa.RecordBatch) -> dict[str, np.ndarray]:
    """One array for each column (see the docstring of batch.py)."""
    return {
        name: column_to_numpy(name, col)
        for name, col in zip(rb.schema.names, rb.columns, strict=True)
    }
