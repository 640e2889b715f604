"""Arrays as cells of DataFrames: the pandas form of a column of tensors. skate.data.extensions
exports them under Ray's names.

Arrow's tensor types (tensor_types.py) convert to these pandas types, and these convert back. The
code is in two modules so that programs without pandas need not import pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate._deps import np, pa, pd, pd_extensions
from skate.data.values.tensor_types import ArrowTensorArray, ArrowVariableShapedTensorArray


class Dtype(pd_extensions.ExtensionDtype):
    kind = "O"  # pyright: ignore[reportAssignmentType]
    type = object  # pyright: ignore[reportAssignmentType]

    @property
    def na_value(self) -> Any:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.name == other.name or other == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class TensorDtype(Dtype):
    """The dtype of a TensorArray.

    Args:
        shape: Shape of each entry; None for an axis whose length differs between entries, or None
            for entries of any shape.
        dtype: Type of the values, as a NumPy or Arrow type.
    """

    def __init__(self, shape: tuple[int | None, ...] | None, dtype: Any):
        self._shape = None if shape is None else tuple(shape)
        self._dtype = np.dtype(dtype.to_pandas_dtype() if isinstance(dtype, pa.DataType) else dtype)

    @property
    def element_dtype(self) -> np.dtype:
        """Type of the values."""
        return self._dtype

    @property
    def element_shape(self) -> tuple[int | None, ...] | None:
        """Shape of each entry."""
        return self._shape

    def __from_arrow__(self, col: Any) -> TensorArray:
        """Makes the column from an Arrow array of tensors; pyarrow.Table.to_pandas() calls it."""
        parts = [
            v
            for c in (col.chunks if isinstance(col, pa.ChunkedArray) else [col])
            for v in c.to_numpy()
        ]
        return TensorArray(
            parts if parts else np.zeros((0, *(n or 0 for n in self._shape or ())), self._dtype)
        )

    @property
    def name(self) -> str:
        return f"numpy.ndarray(shape={self._shape}, dtype={self._dtype})"

    @classmethod
    def construct_array_type(cls) -> type:
        return TensorArray


class Cells(pd_extensions.ExtensionArray):
    """The base of both classes: `values` is an array with the entries along its first axis."""

    values: np.ndarray

    def _of(self, values: np.ndarray) -> Any:
        raise NotImplementedError

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> Any:
        return cls(list(scalars))  # type: ignore[call-arg]

    @classmethod
    def _from_factorized(cls, values: Any, original: Any) -> Any:
        raise NotImplementedError("columns of arrays and objects have no categories")

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            return self.values[item]
        if isinstance(item, slice):
            return self._of(self.values[item])
        item = pd.api.indexers.check_array_indexer(self, item)
        return self._of(self.values[np.asarray(item)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.values[pd.api.indexers.check_array_indexer(self, key)] = (
            value.values if isinstance(value, Cells) else value
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def copy(self) -> Any:
        return self._of(self.values.copy())

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> Any:
        indices = np.asarray(indices)
        if not allow_fill or not (indices < 0).any():
            return self._of(self.values.take(indices, axis=0))
        out = self.values.take(np.where(indices < 0, 0, indices), axis=0)
        out[indices < 0] = self.dtype.na_value if fill_value is None else fill_value
        return self._of(out)

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = None) -> np.ndarray:
        """The entries as one array."""
        return (
            np.array(self.values, dtype=dtype, copy=True)
            if copy
            else np.asarray(self.values, dtype=dtype)
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


class TensorArray(Cells):
    """Arrays as cells of a DataFrame; arithmetic and comparisons apply NumPy's to all entries.

    Args:
        values: One array with the entries along its first axis, or a list of arrays, which may have
            different shapes. TypeError for values that are no numbers.
    """

    def __init__(self, values: Any):
        if not isinstance(values, (list, tuple, np.ndarray)):
            raise TypeError(
                f"TensorArray takes an array or a list of arrays, not {type(values).__name__}"
            )
        if not isinstance(values, np.ndarray) or values.dtype == object:
            arrays = [np.asarray(v) for v in values]
            if any(a.dtype == object for a in arrays):
                raise TypeError(
                    "TensorArray holds arrays of numbers, booleans, text or times, not of objects"
                )
            if len({a.shape for a in arrays}) == 1:
                values = np.stack(arrays)
            else:
                values = np.empty(len(arrays), object)
                for i, a in enumerate(arrays):
                    values[i] = a
        self.values = values

    SUPPORTED_REDUCERS = {
        "sum": np.sum,
        "all": np.all,
        "any": np.any,
        "min": np.min,
        "max": np.max,
        "mean": np.mean,
        "median": np.median,
        "prod": np.prod,
        "std": np.std,
        "var": np.var,
    }

    def _of(self, values: np.ndarray) -> TensorArray:
        return TensorArray(values)

    def _reduce(
        self, name: str, *, skipna: bool = True, keepdims: bool = False, **kwargs: Any
    ) -> Any:
        """Reduces over the entries; the result is one array of their shape. NotImplementedError for
        a reduction that is not listed here."""
        if name not in self.SUPPORTED_REDUCERS:
            raise NotImplementedError(
                f"TensorArray has no {name}(); it has {', '.join(self.SUPPORTED_REDUCERS)}"
            )
        return self.SUPPORTED_REDUCERS[name](
            self.values, axis=0, **{k: v for k, v in kwargs.items() if k == "ddof"}
        )

    def _formatter(self, boxed: bool = False) -> Any:
        return lambda v: np.array2string(np.asarray(v), separator=", ").replace("\n", "")

    @property
    def dtype(self) -> TensorDtype:
        if self.values.dtype == object and len(self.values):
            first = self.values[0]
            return TensorDtype((None,) * first.ndim, first.dtype)
        return TensorDtype(self.values.shape[1:], self.values.dtype)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TensorArray]) -> TensorArray:
        return cls([v for a in to_concat for v in a.values])

    def isna(self) -> np.ndarray:
        """Which entries are missing: those whose values are all NaN."""
        if self.values.dtype.kind != "f":
            return np.zeros(len(self), bool)
        return np.asarray(np.isnan(self.values.reshape(len(self), -1)).all(axis=1))

    def __arrow_array__(self, type: Any = None) -> pa.Array:
        if self.values.dtype == object:
            return (
                ArrowVariableShapedTensorArray.from_numpy(list(self.values))
                if len(self)
                else pa.nulls(0)
            )
        return ArrowTensorArray.from_numpy(self.values)

    @property
    def is_variable_shaped(self) -> bool:
        """Whether the entries differ in shape."""
        return self.values.dtype == object


def _operator(name: str) -> None:
    def op(self: TensorArray, other: Any) -> Any:
        if isinstance(other, (pd.Series, pd.Index, pd.DataFrame)):
            return NotImplemented
        if isinstance(other, TensorArray):
            other = other.values
        return TensorArray(getattr(self.values, name)(other))

    op.__name__ = name
    setattr(TensorArray, name, op)


for _name in "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor eq ne lt le gt ge".split():
    _operator(f"__{_name}__")
