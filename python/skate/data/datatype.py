"""DataType: a name for the type of a column, made from an Arrow, a NumPy or a Python type;
expressions and UDFs declare the types of their results with it.

A DataType only names a type: this module converts no values. values/batch.py converts between Arrow
and the batches that user functions get.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate._deps import np, pa
from skate._deps import pa_types as _T
from skate.data.values import tensor_types, to_arrow
from skate.data.values import types as value_types


class TypeCategory(enum.StrEnum):
    """Kinds of types that DataType.is_of() distinguishes."""

    LIST = "list"
    LARGE_LIST = "large_list"
    STRUCT = "struct"
    MAP = "map"
    TENSOR = "tensor"
    TEMPORAL = "temporal"


_CLOCKS = {"time32": ("s", "ms"), "time64": ("us", "ns")}


class DataType:
    """The type of a column.

    Args:
        dtype: A pyarrow.DataType, a numpy.dtype or a Python type. Anything else is a TypeError.

    Example:
        >>> from skate.data.datatype import DataType
        >>> DataType.list(DataType.string())
        DataType(arrow:list<item: string>)
    """

    __slots__ = ("_physical_dtype",)

    def __init__(self, _physical_dtype: Any):
        if not isinstance(_physical_dtype, type) and not isinstance(
            _physical_dtype, (pa.DataType, np.dtype)
        ):
            raise TypeError(
                f"DataType supports only PyArrow DataType, NumPy dtype, or Python type, not {type(_physical_dtype)}"
            )
        self._physical_dtype = _physical_dtype

    if TYPE_CHECKING:  # made below

        @classmethod
        def int8(cls) -> DataType: ...
        @classmethod
        def int16(cls) -> DataType: ...
        @classmethod
        def int32(cls) -> DataType: ...
        @classmethod
        def int64(cls) -> DataType: ...
        @classmethod
        def uint8(cls) -> DataType: ...
        @classmethod
        def uint16(cls) -> DataType: ...
        @classmethod
        def uint32(cls) -> DataType: ...
        @classmethod
        def uint64(cls) -> DataType: ...
        @classmethod
        def float32(cls) -> DataType: ...
        @classmethod
        def float64(cls) -> DataType: ...
        @classmethod
        def string(cls) -> DataType: ...
        @classmethod
        def bool(cls) -> DataType: ...
        @classmethod
        def binary(cls) -> DataType: ...

    # ---- Conversions from and to types of other libraries.

    @classmethod
    def of(cls, given: Any, what: str) -> DataType:
        """Returns a DataType unchanged, or makes one from an Arrow type or a NumPy dtype; TypeError
        for anything else.

        Args:
            given: The type.
            what: Name of the argument, for the error.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, (pa.DataType, np.dtype)):
            return cls(given)
        kind = given if isinstance(given, type) else type(given)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        raise TypeError(
            f"{what} must be a skate.data.datatype.DataType, such as DataType.int64(), or an Arrow type, such as pyarrow.int64(), not "
            + (f"the class {name}" if isinstance(given, type) else f"{given!r}, a {name}")
        )

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        """Makes a DataType of an Arrow type.

        Args:
            arrow_type: The Arrow type.
        """
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: np.dtype | str) -> DataType:
        """Makes a DataType of a NumPy dtype or its name.

        Args:
            numpy_dtype: The dtype, or its name.
        """
        return cls(np.dtype(numpy_dtype) if isinstance(numpy_dtype, str) else numpy_dtype)

    @classmethod
    def infer_dtype(cls, value: Any) -> DataType:
        """The type of a value: its dtype if it is NumPy's, else its Arrow type, else its Python
        type.

        Args:
            value: The value.
        """
        if isinstance(value, (np.ndarray, np.generic)):
            return cls(value.dtype)
        try:
            return cls(_arrow_type_of([value]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return cls(type(value))

    def to_arrow_dtype(self, values: list[Any] | None = None) -> pa.DataType:
        """The Arrow type; for a Python type it is inferred from `values` (AssertionError without
        them).

        Args:
            values: Values that the type must represent; needed if the DataType was made from a
                Python type.
        """
        if self.is_arrow_type():
            return self._physical_dtype
        if self.is_numpy_type():
            return pa.from_numpy_dtype(self._physical_dtype)
        assert values, (
            f"{self}: which Arrow type a Python type is depends on the values; give some as values="
        )
        return _arrow_type_of(values)

    def to_numpy_dtype(self) -> np.dtype:
        """The NumPy dtype; object if there is none."""
        t: Any = self._physical_dtype
        if self.is_numpy_type():
            return t
        if self.is_arrow_type():
            try:
                d = t.to_pandas_dtype()
                return (
                    np.dtype(d)
                    if not _T.is_nested(t) and isinstance(d, (np.dtype, type))
                    else np.dtype(object)
                )
            except (TypeError, NotImplementedError):
                pass
        return np.dtype(object)

    def to_python_type(self) -> type:
        """The Python type that this DataType was made from; ValueError if it was made from another
        type."""
        if self.is_python_type():
            return self._physical_dtype
        raise ValueError(
            f"{self} is not backed by a Python type; to_arrow_dtype() and to_numpy_dtype() give what it is in these"
        )

    # ---- Constructors of nested types.

    @classmethod
    def list(cls, value_type: DataType) -> DataType:
        """A list of values of one type.

        Args:
            value_type: The type of the values.
        """
        return cls(pa.list_(value_type.to_arrow_dtype()))

    @classmethod
    def large_list(cls, value_type: DataType) -> DataType:
        """A list with 64-bit offsets.

        Args:
            value_type: The type of the values.
        """
        return cls(pa.large_list(value_type.to_arrow_dtype()))

    @classmethod
    def fixed_size_list(cls, value_type: DataType, list_size: int) -> DataType:
        """A list of list_size values.

        Args:
            value_type: The type of the values.
            list_size: Number of values of each list.
        """
        return cls(pa.list_(value_type.to_arrow_dtype(), list_size))

    @classmethod
    def struct(cls, fields: Any) -> DataType:
        """A struct of (name, DataType) pairs.

        Args:
            fields: (name, DataType) pairs.
        """
        return cls(pa.struct([(n, t.to_arrow_dtype()) for n, t in fields]))

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        """A map from keys to values.

        Args:
            key_type: The type of the keys.
            value_type: The type of the values.
        """
        return cls(pa.map_(key_type.to_arrow_dtype(), value_type.to_arrow_dtype()))

    @classmethod
    def tensor(cls, shape: tuple[int, ...], dtype: DataType) -> DataType:
        """Arrays that all have one shape.

        Args:
            shape: Lengths of the axes.
            dtype: The type of the values.
        """
        return cls(tensor_types.ArrowTensorType(shape, dtype.to_arrow_dtype()))

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        """Arrays of ndim dimensions and any shape.

        Args:
            dtype: The type of the values.
            ndim: Number of axes.
        """
        return cls(value_types.ragged_type(dtype.to_arrow_dtype(), ndim))

    @classmethod
    def temporal(
        cls, temporal_type: str, unit: str | None = None, tz: str | None = None
    ) -> DataType:
        """A date, time, timestamp or duration.

        Args:
            temporal_type: "timestamp", "date32", "date64", "time32", "time64" or "duration";
                ValueError for others.
            unit: "s", "ms", "us" or "ns"; time32 has s and ms, time64 us and ns (ValueError for
                others).
            tz: Time zone of a timestamp.
        """
        kind = temporal_type.lower()
        if kind == "timestamp":
            return cls(pa.timestamp(unit or "us", tz=tz))
        if kind == "duration":
            return cls(pa.duration(unit or "us"))
        if kind in ("date32", "date64"):
            return cls(getattr(pa, kind)())
        if kind in _CLOCKS:
            units = _CLOCKS[kind]
            if (unit or units[0]) not in units:
                raise ValueError(f"{kind} unit must be '{units[0]}' or '{units[1]}', got {unit}")
            return cls(getattr(pa, kind)(unit or units[0]))
        raise ValueError(
            f"Invalid temporal_type {temporal_type!r}; there are timestamp, duration, date32, date64, time32 and time64"
        )

    # ---- Questions about the kind of a type.

    def is_arrow_type(self) -> bool:
        """Whether this DataType was made from an Arrow type."""
        return isinstance(self._physical_dtype, pa.DataType)

    def is_numpy_type(self) -> bool:
        """Whether this DataType was made from a NumPy dtype."""
        return isinstance(self._physical_dtype, np.dtype)

    def is_python_type(self) -> bool:
        """Whether this DataType was made from a Python type."""
        return isinstance(self._physical_dtype, type)

    def is_of(self, category: TypeCategory | str) -> bool:
        """Whether the type belongs to a category; False for a category that does not exist.

        Args:
            category: A TypeCategory, or its value.
        """
        try:
            c = TypeCategory(category)
        except ValueError:
            return False
        if c is TypeCategory.LARGE_LIST:
            t = self._physical_dtype
            return self.is_arrow_type() and (_T.is_large_list(t) or _T.is_large_list_view(t))
        return getattr(self, f"is_{c.value}_type")()

    def is_list_type(self) -> bool:
        """Whether the type is a list of any layout."""
        return self.is_arrow_type() and is_list(self._physical_dtype)

    def is_tensor_type(self) -> bool:
        """Whether the type is a tensor, with one shape or with several."""
        return tensor_types.is_fixed(self._physical_dtype) or value_types.is_ragged(
            self._physical_dtype
        )

    def is_struct_type(self) -> bool:
        """Whether the type is a struct."""
        return self.is_arrow_type() and _T.is_struct(self._physical_dtype)

    def is_map_type(self) -> bool:
        """Whether the type is a map."""
        return self.is_arrow_type() and _T.is_map(self._physical_dtype)

    def is_nested_type(self) -> bool:
        """Whether the type is a list, struct, map or union."""
        return self.is_arrow_type() and _T.is_nested(self._physical_dtype)

    def is_numerical_type(self) -> bool:
        """Whether the type is one of integers, floats or decimals (or complex numbers of NumPy and
        Python)."""
        return self._is(
            lambda t: _T.is_integer(t) or _T.is_floating(t) or _T.is_decimal(t),
            lambda d: d.kind in "iufc",
            (int, float, complex),
        )

    def is_string_type(self) -> bool:
        """Whether the type is a type of text."""
        return self._is(
            lambda t: _T.is_string(t) or _T.is_large_string(t) or _T.is_string_view(t),
            lambda d: d.kind in "US",
            (str,),
        )

    def is_binary_type(self) -> bool:
        """Whether the type is a type of bytes."""
        return self._is(
            lambda t: (
                _T.is_binary(t)
                or _T.is_large_binary(t)
                or _T.is_binary_view(t)
                or _T.is_fixed_size_binary(t)
            ),
            lambda d: d.kind == "V",
            (bytes, bytearray),
        )

    def is_temporal_type(self) -> bool:
        """Whether the type is a date, time, timestamp or duration."""
        clock = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
        return self._is(_T.is_temporal, lambda d: d.kind in "mM", clock)

    def _is(
        self, arrow: Callable[[Any], bool], numpy: Callable[[Any], bool], python: tuple[type, ...]
    ) -> bool:
        t = self._physical_dtype
        if self.is_arrow_type():
            return arrow(t.value_type if _T.is_dictionary(t) or _T.is_run_end_encoded(t) else t)
        return numpy(t) if self.is_numpy_type() else t in python

    # ---- Equality, hash and text.

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DataType)
            and type(self._physical_dtype) is type(other._physical_dtype)
            and self._key() == other._key()
        )

    def __hash__(self) -> int:
        return hash((type(self._physical_dtype), self._physical_dtype))

    def _key(self) -> Any:
        return self._physical_dtype

    def __repr__(self) -> str:
        t = self._physical_dtype
        if self.is_arrow_type():
            return f"DataType(arrow:{t})"
        return f"DataType(numpy:{t})" if self.is_numpy_type() else f"DataType(python:{t.__name__})"

    def __reduce__(self) -> Any:
        return DataType, (self._physical_dtype,)


def is_list(t: pa.DataType) -> bool:
    """Whether the type is a list of any layout."""
    return (
        _T.is_list(t)
        or _T.is_large_list(t)
        or _T.is_fixed_size_list(t)
        or _T.is_list_view(t)
        or _T.is_large_list_view(t)
    )


def _arrow_type_of(values: list[Any]) -> pa.DataType:
    return to_arrow.from_objects(values, None).type


def _plain(name: str, what: str) -> classmethod:
    def factory(cls: type[DataType]) -> DataType:
        return cls(getattr(pa, "bool_" if name == "bool" else name)())

    factory.__name__, factory.__qualname__, factory.__doc__ = name, f"DataType.{name}", f"{what}."
    return classmethod(factory)


for _bits in (8, 16, 32, 64):
    setattr(DataType, f"int{_bits}", _plain(f"int{_bits}", f"A signed integer of {_bits} bits"))
    setattr(
        DataType, f"uint{_bits}", _plain(f"uint{_bits}", f"An unsigned integer of {_bits} bits")
    )
for _name, _what in (
    ("float32", "A floating-point number of 32 bits"),
    ("float64", "A floating-point number of 64 bits"),
    ("string", "Text"),
    ("bool", "True or false"),
    ("binary", "Bytes"),
):
    setattr(DataType, _name, _plain(_name, _what))
