"""Arrow types as the batch formats see them: tables by type id, kinds of values, and the type of Python objects."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.tensor_types import ArrowVariableShapedTensorType, is_fixed

_T = pa.types
TYPES = {
    np.dtype(n): getattr(pa, n)()
    for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
}
DTYPES = {t.id: d for d, t in TYPES.items()}
NUMBERS = set(DTYPES)
BOOL = pa.bool_().id
TEMPORAL = {pa.timestamp("s").id, pa.duration("s").id, pa.date32().id, pa.date64().id}
FIXED_LIST = pa.list_(pa.int8(), 1).id
DICTIONARY = pa.dictionary(pa.int8(), pa.int8()).id
LISTS = {pa.list_(pa.int8()).id, pa.large_list(pa.int8()).id}
TEXT = {  # id -> (binary, offsets of 8 bytes)
    pa.string().id: (False, False),
    pa.large_string().id: (False, True),
    pa.binary().id: (True, False),
    pa.large_binary().id: (True, True),
}
INT64_MIN = np.iinfo(np.int64).min


def is_ragged(t: pa.DataType) -> bool:
    """Whether its values are arrays of different shapes: our type, or Arrow's own."""
    return (
        isinstance(t, ArrowVariableShapedTensorType)
        or isinstance(t, pa.BaseExtensionType)
        and t.extension_name == "arrow.variable_shape_tensor"
    )


def ragged_type(value_type: pa.DataType, ndim: int) -> pa.DataType:
    """The type of arrays of different shapes."""
    return ArrowVariableShapedTensorType(value_type, ndim)


def ragged_parts(t: pa.DataType) -> tuple[pa.DataType, int]:
    """(value type, number of dimensions) of a type that is_ragged()."""
    if isinstance(t, ArrowVariableShapedTensorType):
        return t.value_type, t.ndim
    return t.storage_type.field("data").type.value_type, t.storage_type.field("shape").type.list_size


_FAMILIES = (
    (_T.is_integer,),
    (_T.is_floating,),
    (_T.is_string, _T.is_large_string, _T.is_string_view),
    (_T.is_binary, _T.is_large_binary, _T.is_binary_view, _T.is_fixed_size_binary),
    (_T.is_timestamp,),
    (_T.is_duration,),
    (_T.is_date,),
    (_T.is_time,),
    (_T.is_decimal,),
    (_T.is_boolean,),
)


def family(t: pa.DataType) -> int:
    for i, tests in enumerate(_FAMILIES):
        if any(f(t) for f in tests):
            return i
    return -1 - t.id


def can_rebuild(t: pa.DataType) -> bool:
    """Whether Arrow builds this type from Python values."""
    if _T.is_union(t) or _T.is_run_end_encoded(t) or is_fixed(t):
        return False
    if _T.is_struct(t):
        return all(can_rebuild(t.field(i).type) for i in range(t.num_fields))
    if _T.is_nested(t):
        return _T.is_map(t) and can_rebuild(t.key_type) and can_rebuild(t.item_type) or not _T.is_map(t) and can_rebuild(t.value_type)
    return True


class PythonObjectType(pa.ExtensionType):
    """Python objects that Arrow has no type for, pickled one by one."""

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "skate.python_object")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> PythonObjectType:
        return cls()

    def __arrow_ext_class__(self) -> type:
        return PythonObjectArray

    def __arrow_ext_scalar_class__(self) -> type:
        return PythonObjectScalar

    def __str__(self) -> str:
        return "python_object"


class PythonObjectScalar(pa.ExtensionScalar):
    """One value of a PythonObjectArray."""

    def as_py(self, **kwargs: Any) -> Any:
        return None if self.value is None or not self.value.is_valid else pickle.loads(self.value.as_py())


class PythonObjectArray(pa.ExtensionArray):
    """A column of Python objects."""

    @staticmethod
    def from_objects(values: Any) -> PythonObjectArray:
        """From a sequence of objects; TypeError naming the class that cannot be pickled."""
        from skate.data.values.to_arrow import python_objects

        return python_objects(list(values))

    def to_numpy(self, zero_copy_only: bool = False, writable: bool = False) -> np.ndarray:
        """An array of the objects."""
        from skate.data.values.from_arrow import to_objects

        out = np.empty(len(self), object)
        for i, v in enumerate(to_objects("", self)):
            out[i] = v
        return out

    def to_pandas(self, **kwargs: Any) -> Any:
        """A Series of the objects."""
        import pandas as pd

        return pd.Series(self.to_numpy())


pa.register_extension_type(PythonObjectType())
