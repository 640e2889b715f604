"""Arrow types for tensors, under the names that Ray writes into files, with arrays and scalars that
convert to NumPy.

- ray.data.arrow_tensor (ArrowTensorType): arrays of one shape, in a list
- ray.data.arrow_tensor_v2 (ArrowTensorTypeV2): the same in a large_list (over 2 GiB)
- ray.data.arrow_variable_shaped_tensor (ArrowVariableShapedTensorType): arrays of any shape, in
  struct(data: large_list, shape: list)

DataContext.arrow_fixed_shape_tensor_format decides which of these types (or Arrow's own
fixed_shape_tensor) arrays of one shape get; the default is V2, as in Ray. A column that was read or
passed in with one of these types keeps it. Arrays of different shapes get the last type, since
Arrow's own type for them has neither scalars nor a conversion to NumPy. The types are registered
when this module is imported, so that reading a Parquet file returns them.

Parameters are written as JSON. Ray pickles them: these are read by an unpickler that allows no
classes, so a file cannot run code.

Arrow allows one class for each name, and Ray Data registers its own classes under the same names.
Both work in one process, in either order of import: skate's classes are the registered ones. When
Arrow asks them to make a type from a name and its parameters, they make Ray's class if Ray is the
caller (`_theirs`), else skate's. Columns of Ray's classes that are passed to skate are converted
(`ours`).
"""

from __future__ import annotations

import functools
import io
import json
import math
import pickle
import sys
from typing import Any

from skate._deps import np, pa, pd
from skate.data import settings
from skate.data.values import cells, flat


class _NoClasses(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise ValueError(f"parameters of a tensor type are numbers, not {module}.{name}")


def _numbers_of(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return _NoClasses(io.BytesIO(data)).load()


# pyarrow has only a weak reference to the Python half of a type. If that half is gone, pyarrow
# makes it anew, through JSON, at each access to a column (20 us). So types that were made are
# cached here.


def _cached(f: Any) -> Any:  # Any: a type checker takes the classes for no Hashable
    return functools.lru_cache(maxsize=256)(f)


@_cached
def fixed_type(cls: Any, shape: tuple[int, ...], dtype: pa.DataType) -> Any:
    """cls(shape, dtype); always the same object for the same arguments."""
    return cls(shape, dtype)


@_cached
def _read_type(cls: Any, storage_type: pa.DataType, serialized: bytes) -> Any:
    what = pa.types.is_list(storage_type) or pa.types.is_large_list(storage_type)
    return _over(
        fixed_type(cls, tuple(_numbers_of(serialized)), storage_type.value_type) if what else None,
        cls,
        storage_type,
    )


def _over(t: Any, cls: Any, storage_type: pa.DataType) -> Any:
    """Returns t, the type that a file names, if the file's storage type fits t; else raises an
    error, since Arrow would read any storage as t."""
    if t is None or t.storage_type != storage_type:
        raise ValueError(f"{cls.__name__} is not over {storage_type}")
    return t


# ---- When Ray Data is loaded in the same process.

# The modules with Ray's classes, newest first.
_OF_RAY = ("ray.data._internal.tensor_extensions.arrow", "ray.air.util.tensor_extensions.arrow")
# skate's parameters end with this space: JSON allows it, and only skate writes it
_MARK = b" "


def _rays(name: str) -> Any:
    """Ray's class with this name, if Ray Data is loaded in this process."""
    for module in _OF_RAY:
        theirs = getattr(sys.modules.get(module), name, None)
        if theirs is not None and not issubclass(theirs, _Tensor):
            return theirs
    return None


def _theirs(cls: Any, serialized: bytes) -> Any:
    """Ray's class if Arrow is to make a type for Ray, None for skate. The caller is the innermost
    frame outside pyarrow; if that is neither skate nor Ray, the writer of the type decides."""
    theirs = _rays(cls.__name__)
    if theirs is None:
        return None
    frame = sys._getframe(1).f_back
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in ("skate", "ray"):
            return theirs if package == "ray" else None
        if package != "pyarrow":
            break
        frame = frame.f_back
    return None if serialized.endswith(_MARK) else theirs


def ours(t: Any) -> Any:
    """A Table or RecordBatch in which Ray's column classes are replaced by skate's."""
    if not any(map(sys.modules.get, _OF_RAY)):
        return t
    for i, f in enumerate(t.schema):
        cls = (
            CLASSES_OF.get(f.type.extension_name)
            if isinstance(f.type, pa.ExtensionType) and not isinstance(f.type, _Tensor)
            else None
        )
        if cls is not None:
            to = cls._of(f.type.storage_type, f.type.__arrow_ext_serialize__())
            c = t.column(i)
            if isinstance(c, pa.ChunkedArray):
                new = pa.chunked_array(
                    [pa.ExtensionArray.from_storage(to, k.storage) for k in c.chunks], to
                )
            else:
                new = pa.ExtensionArray.from_storage(to, c.storage)
            t = t.set_column(i, f.with_type(to), new)
    return t


class ArrowTensorScalar(pa.ExtensionScalar):
    """A scalar that holds one array; np.asarray() and as_py() return it."""

    def as_py(self, **kwargs: Any) -> np.ndarray | None:
        """The array; None for null."""
        if self.value is None or not self.value.is_valid:
            return None
        if isinstance(self.type, ArrowVariableShapedTensorType):
            return flat_to_numpy(self.value["data"].values).reshape(self.value["shape"].as_py())
        return flat_to_numpy(self.value.values).reshape(self.type.shape)

    to_numpy = as_py

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.as_py(), dtype=dtype)


class _Tensor(pa.ExtensionType):
    def __reduce__(self) -> Any:
        return type(self).__arrow_ext_deserialize__, (
            self.storage_type,
            self.__arrow_ext_serialize__(),
        )

    def __arrow_ext_scalar_class__(self) -> type:
        return ArrowTensorScalar

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        return str(self)


class _FixedTensor(_Tensor):
    """The base of both types for arrays of one shape."""

    def __init__(self, shape: Any, storage: pa.DataType, name: str):
        self._shape = tuple(int(n) for n in shape)
        super().__init__(storage, name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each array."""
        return self._shape

    @property
    def value_type(self) -> pa.DataType:
        """Type of the numbers in the arrays."""
        return self.storage_type.value_type

    def to_pandas_dtype(self) -> Any:
        """The dtype of a pandas column of this type."""
        return cells.TensorDtype(self._shape, self.value_type.to_pandas_dtype())

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self._shape).encode() + _MARK

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        theirs = _theirs(cls, serialized)
        return (
            theirs.__arrow_ext_deserialize__(storage_type, serialized)
            if theirs
            else cls._of(storage_type, serialized)
        )

    @classmethod
    def _of(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return _read_type(cls, storage_type, serialized)

    def __arrow_ext_class__(self) -> type:
        return ArrowTensorArray

    def __str__(self) -> str:
        return f"{type(self).__name__}(shape={self._shape}, dtype={self.value_type})"

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and other.shape == self.shape
            and other.value_type == self.value_type
        )

    def __hash__(self) -> int:
        return hash((self.extension_name, self._shape, self.value_type))


class ArrowTensorType(_FixedTensor):
    """Arrays of one shape, with at most 2 GiB of numbers in one Arrow array.

    Args:
        shape: Shape of each array.
        dtype: The Arrow type of the numbers.
    """

    def __init__(self, shape: Any, dtype: pa.DataType):
        super().__init__(shape, pa.list_(dtype), "ray.data.arrow_tensor")


class ArrowTensorTypeV2(_FixedTensor):
    """Arrays of one shape.

    Args:
        shape: Shape of each array.
        dtype: The Arrow type of the numbers.
    """

    def __init__(self, shape: Any, dtype: pa.DataType):
        super().__init__(shape, pa.large_list(dtype), "ray.data.arrow_tensor_v2")


class ArrowVariableShapedTensorType(_Tensor):
    """Arrays of any shape. Types that differ only in the number of dimensions are equal.

    Args:
        dtype: The Arrow type of the numbers.
        ndim: Number of dimensions of the arrays.
    """

    def __init__(self, dtype: pa.DataType, ndim: int):
        self._ndim = int(ndim)
        super().__init__(
            pa.struct([("data", pa.large_list(dtype)), ("shape", pa.list_(pa.int64()))]),
            "ray.data.arrow_variable_shaped_tensor",
        )

    @property
    def ndim(self) -> int:
        """Number of dimensions of the arrays."""
        return self._ndim

    @property
    def shape(self) -> tuple[None, ...]:
        """A tuple with None for each dimension, because the shapes of the arrays differ."""
        return (None,) * self._ndim

    @property
    def value_type(self) -> pa.DataType:
        """Type of the numbers in the arrays."""
        return self.storage_type.field("data").type.value_type

    def to_pandas_dtype(self) -> Any:
        """The dtype of a pandas column of this type."""
        return cells.TensorDtype(self.shape, self.value_type.to_pandas_dtype())

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps(self._ndim).encode() + _MARK

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        theirs = _theirs(cls, serialized)
        return (
            theirs.__arrow_ext_deserialize__(storage_type, serialized)
            if theirs
            else cls._of(storage_type, serialized)
        )

    @classmethod
    def _of(cls, storage_type: pa.DataType, serialized: bytes) -> ArrowVariableShapedTensorType:
        data = (
            storage_type.field("data").type
            if pa.types.is_struct(storage_type) and storage_type.get_field_index("data") >= 0
            else None
        )
        t = (
            cls(data.value_type, int(_numbers_of(serialized)))
            if data is not None and pa.types.is_large_list(data)
            else None
        )
        return _over(t, cls, storage_type)

    def __arrow_ext_class__(self) -> type:
        return ArrowVariableShapedTensorArray

    def __str__(self) -> str:
        return f"ArrowVariableShapedTensorType(ndim={self._ndim}, dtype={self.value_type})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ArrowVariableShapedTensorType) and other.value_type == self.value_type
        )

    def __hash__(self) -> int:
        return hash((self.extension_name, self.value_type))


class ArrowTensorArray(pa.ExtensionArray):
    """An Arrow column of arrays of one shape."""

    @staticmethod
    def from_numpy(arr: Any, column_name: str | None = None) -> pa.Array:
        """Makes an Arrow array of the entries along the first axis. Single values become a plain
        array; arrays of one shape get the type of DataContext.arrow_fixed_shape_tensor_format
        (Arrow's own type can only hold numbers; other values get V2); other arrays become an
        ArrowVariableShapedTensorArray. ArrowConversionError for values that do not fit."""
        a = arr if isinstance(arr, np.ndarray) else np.array(arr)
        if a.dtype == object and len(a) and all(hasattr(v, "shape") for v in a.flat):
            parts = [numbers(v) for v in a.ravel()]
            if len({p.shape for p in parts}) > 1:
                return ArrowVariableShapedTensorArray.from_numpy(parts)
            a = np.stack(parts)
        a = numbers(a)
        if a.ndim < 2:
            return flat.of_numpy(a)
        fmt = context_format()
        if fmt == NATIVE and a.dtype.kind not in "iuf":
            fmt = V2
        return of_numpy(a, fmt)

    def to_numpy(self, zero_copy_only: bool = True, writable: bool = False) -> np.ndarray:
        """All entries as one array, `(rows, *shape)`: a view for numbers; if some entries are null,
        an array of arrays."""
        t = self.type
        if self.null_count:
            out = np.empty(len(self), object)
            out[:] = [v.as_py() for v in self]
            return out
        return flat_to_numpy(flat.list_values(self.storage)).reshape(len(self), *t.shape)

    def to_numpy_ndarray(self, zero_copy_only: bool = True) -> np.ndarray:
        """The same as to_numpy()."""
        return self.to_numpy()


class ArrowVariableShapedTensorArray(pa.ExtensionArray):
    """An Arrow column of arrays of any shape."""

    @staticmethod
    def from_numpy(arr: Any, column_name: str | None = None) -> pa.Array:
        """Makes an Arrow array of a sequence of arrays; ValueError if it is empty, is no sequence,
        or the arrays differ in their number of dimensions."""
        if not isinstance(arr, (list, tuple, np.ndarray)):
            raise ValueError(
                f"ArrowVariableShapedTensorArray takes a sequence of arrays, not {type(arr).__name__}"
            )
        arrays = [numbers(np.asarray(v)) for v in arr]
        if not arrays:
            raise ValueError("ragged tensors: no arrays were given, so their type is unknown")
        if len({a.ndim for a in arrays}) > 1:
            raise ValueError(
                f"all arrays must have as many dimensions, not {sorted({a.ndim for a in arrays})}"
            )
        return ragged(
            arrays, ArrowVariableShapedTensorType(value_type_of(arrays[0]), arrays[0].ndim)
        )

    def to_numpy(self, zero_copy_only: bool = True, writable: bool = False) -> np.ndarray:
        """An array of the arrays (None for null); arrays of numbers are views."""
        out = np.empty(len(self), object)
        data, shapes = self.storage.field("data"), self.storage.field("shape").to_pylist()
        valid = self.is_valid().to_pylist()
        values, starts = data.values, data.offsets.to_pylist()
        plain = (
            np.dtype(values.type.to_pandas_dtype())
            if pa.types.is_primitive(values.type) and not pa.types.is_boolean(values.type)
            else None
        )
        for i, (ok, shape) in enumerate(zip(valid, shapes, strict=True)):
            if not ok:
                out[i] = None
            elif plain is not None and starts[i + 1] > starts[i]:
                at = (values.offset + starts[i]) * plain.itemsize
                out[i] = np.ndarray(shape, plain, values.buffers()[1], at)
            else:
                out[i] = flat_to_numpy(values.slice(starts[i], starts[i + 1] - starts[i])).reshape(
                    shape
                )
        return out


# the classes of types, by the names under which Arrow registers them
CLASSES_OF: dict[str, Any] = {}


def register() -> None:
    """Registers these types with Arrow, even if Ray has registered its own; Ray's code still gets
    Ray's classes."""
    for t in (
        ArrowTensorType((0,), pa.int8()),
        ArrowTensorTypeV2((0,), pa.int8()),
        ArrowVariableShapedTensorType(pa.int8(), 1),
    ):
        CLASSES_OF[t.extension_name] = type(t)
        try:
            pa.register_extension_type(t)
        except pa.ArrowKeyError:
            pa.unregister_extension_type(t.extension_name)
            pa.register_extension_type(t)


register()


# ---- Conversions between these types, NumPy and Arrow's own tensor type.


V1, V2, NATIVE = "v1", "v2", "arrow_native"  # values of DataContext.arrow_fixed_shape_tensor_format
CLASSES: dict[str, Any] = {
    V1: ArrowTensorType,
    V2: ArrowTensorTypeV2,
    NATIVE: pa.FixedShapeTensorType,
}


def context_format() -> str:
    """The value of the setting in DataContext."""
    return (
        V2 if settings.current is None else settings.current.arrow_fixed_shape_tensor_format.value
    )


def is_fixed(t: pa.DataType) -> bool:
    """Whether the values of this type are arrays of one shape."""
    return isinstance(t, (pa.FixedShapeTensorType, _FixedTensor))


def fixed_parts(t: pa.DataType) -> tuple[pa.DataType, tuple[int, ...]]:
    """(type of the numbers, shape) of such a type."""
    return t.value_type, tuple(t.shape)


def numbers(a: np.ndarray) -> np.ndarray:
    """Converts an array of Python objects: numbers and missing values become an array of floats,
    texts an array of texts; other arrays stay unchanged."""
    if a.dtype != object:
        return a
    flat = a.ravel().tolist()
    if any(isinstance(v, str) for v in flat):
        return a
    if any(isinstance(v, (np.ndarray, list, tuple)) for v in flat):
        return np.stack([numbers(np.asarray(v)) for v in flat])
    return np.array(
        [np.nan if pd.isna(v) else v for v in flat],
        bool if flat and all(isinstance(v, (bool, np.bool_)) for v in flat) else np.float64,
    ).reshape(a.shape)


def value_type_of(a: np.ndarray) -> pa.DataType:
    """The Arrow type of the array's values."""
    return (
        pa.string()
        if a.dtype.kind in "OU"
        else pa.binary()
        if a.dtype.kind == "S"
        else pa.from_numpy_dtype(a.dtype)
    )


def flat_of_numpy(a: np.ndarray) -> pa.Array:
    """The values of an array in C order."""
    return flat.of_numpy(np.ascontiguousarray(a).reshape(-1))


def flat_to_numpy(values: pa.Array) -> np.ndarray:
    """The values as an array: a view for numbers, objects for other values."""
    v = flat.to_numpy("", values)
    if v is None:  # NumPy has no dtype for these values
        v = np.empty(len(values), object)
        v[:] = values.to_pylist()
    if v.dtype == object and len(v) and all(isinstance(x, str) for x in v):
        return v.astype(str)
    return v


class ArrowConversionError(TypeError):
    """The error for values that cannot become an Arrow column."""


def of_numpy(a: np.ndarray, fmt: str) -> pa.Array:
    """Makes a column of the entries along the first axis of an array with two or more
    dimensions."""
    shape, values = a.shape[1:], flat_of_numpy(a)
    if fmt == NATIVE:
        return native(of_flat(values, len(a), fixed_type(ArrowTensorTypeV2, shape, values.type)))
    typ = fixed_type(CLASSES[fmt], shape, values.type)
    if fmt == V1 and len(values) >= 1 << 31:
        raise ArrowConversionError(
            f"{len(a):,} arrays of shape {shape} are {len(values):,} values, and ArrowTensorType counts to 2**31; set "
            "DataContext.arrow_fixed_shape_tensor_format to FixedShapeTensorFormat.V2"
        ) from pa.ArrowInvalid("Negative offsets in list array")
    return of_flat(values, len(a), typ)


def of_flat(values: pa.Array, n: int, typ: _FixedTensor) -> pa.Array:
    """Makes n arrays of one of skate's types from the values of all of them."""
    size = math.prod(typ.shape)
    offsets = np.arange(n + 1, dtype=np.int64) * size
    if not pa.types.is_large_list(typ.storage_type):
        offsets = offsets.astype(np.int32)
    storage = pa.Array.from_buffers(
        typ.storage_type, n, [None, pa.py_buffer(offsets)], null_count=0, children=[values]
    )
    return pa.ExtensionArray.from_storage(typ, storage)


def native(col: pa.Array) -> pa.Array:
    """Converts a column of skate's type to Arrow's fixed_shape_tensor; numbers are not copied
    unless some arrays are null."""
    t = col.type
    size = math.prod(t.shape)
    typ = pa.fixed_shape_tensor(t.value_type, t.shape)
    if col.null_count or not size:
        lists = col.storage.to_pylist()
        return pa.ExtensionArray.from_storage(typ, pa.array(lists, typ.storage_type))
    return pa.ExtensionArray.from_storage(
        typ, pa.FixedSizeListArray.from_arrays(col.storage.flatten(), size).cast(typ.storage_type)
    )


def of_native(col: pa.Array, typ: _FixedTensor) -> pa.Array:
    """Converts Arrow's fixed_shape_tensor to skate's type of the same shape."""
    if col.null_count:
        return pa.ExtensionArray.from_storage(
            typ, pa.array(col.storage.to_pylist(), typ.storage_type)
        )
    return of_flat(col.storage.flatten(), len(col), typ)


def ragged(arrays: list[Any], t: pa.DataType, marks: bool = False) -> pa.Array:
    """Makes a column of arrays (None: null) in a type for any shape, skate's or Arrow's.
    Neighbouring slices of one array are not copied. marks: the arrays have floats, and were made
    from a column of this type with missing numbers; the result has this type if that is exact."""
    data_type, shape_type = t.storage_type.field("data").type, t.storage_type.field("shape").type
    some = [a for a in arrays if a is not None]
    joined = _neighbours(some)
    if joined is None:
        kind = {a.dtype.kind for a in some}
        joined = (
            np.concatenate(
                [
                    np.ascontiguousarray(a).reshape(-1).astype(object)
                    if kind & set("OU")
                    else np.ascontiguousarray(a).reshape(-1)
                    for a in some
                ]
            )
            if some
            else np.zeros(0)
        )
    values = (
        pa.array([], data_type.value_type)
        if not some
        else flat.of_marked(joined, data_type.value_type)
        if marks
        else flat_of_numpy(joined)
    )
    if marks and values.type != data_type.value_type:
        return ragged(arrays, ArrowVariableShapedTensorType(values.type, some[0].ndim))
    if values.type != data_type.value_type:
        values = values.cast(data_type.value_type)
    sizes = np.array([0 if a is None else a.size for a in arrays], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    large = pa.types.is_large_list(data_type)
    make = pa.LargeListArray if large else pa.ListArray
    data = make.from_arrays(pa.array(offsets if large else offsets.astype(np.int32)), values)
    shape = pa.array([None if a is None else a.shape for a in arrays], shape_type)
    mask = pa.array([a is None for a in arrays]) if len(some) < len(arrays) else None
    return pa.ExtensionArray.from_storage(
        t, pa.StructArray.from_arrays([data, shape], fields=list(t.storage_type), mask=mask)
    )


def _neighbours(arrays: list[np.ndarray]) -> np.ndarray | None:
    """One array over the memory of all arrays, if each begins where the previous one ends."""
    if (
        not arrays
        or arrays[0].dtype == object
        or any(
            a.base is None or a.base is not arrays[0].base or not a.flags.c_contiguous
            for a in arrays
        )
    ):
        return None
    at = arrays[0].__array_interface__["data"][0]
    for a in arrays:
        if a.dtype != arrays[0].dtype or a.__array_interface__["data"][0] != at:
            return None
        at += a.nbytes
    return np.lib.stride_tricks.as_strided(
        arrays[0].reshape(-1), (sum(a.size for a in arrays),), (arrays[0].itemsize,)
    )
