"""Tensors and Python objects as columns of pyarrow and pandas, under Ray's names.

Blocks store tensors in skate's Arrow types; the names here that begin with Arrow make arrays of
these types. TensorArray and PythonObjectArray are pandas extension arrays, for DataFrames whose
cells are arrays or objects; from_pandas() and map_batches() accept such DataFrames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate import _lazy
from skate._deps import np, pa
from skate.data.context import FixedShapeTensorFormat
from skate.data.values.cells import Cells, Dtype, TensorArray, TensorDtype
from skate.data.values.tensor_types import (
    ArrowConversionError,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
)
from skate.data.values.types import PythonObjectArray as ArrowPythonObjectArray
from skate.data.values.types import PythonObjectScalar as ArrowPythonObjectScalar
from skate.data.values.types import PythonObjectType as ArrowPythonObjectType
from skate.data.values.types import python_objects

__all__ = [
    "AnyArrowExtTensorType",
    "ArrowConversionError",
    "ArrowPythonObjectArray",
    "ArrowPythonObjectScalar",
    "ArrowPythonObjectType",
    "ArrowTensorArray",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorFormat",
    "FixedShapeTensorType",
    "PythonObjectArray",
    "PythonObjectDtype",
    "TensorArray",
    "TensorDtype",
    "get_arrow_extension_fixed_shape_tensor_types",
    "get_arrow_extension_tensor_types",
    "get_arrow_extension_variable_shape_tensor_types",
]

__path__.append(f"{_lazy.OF_RAY}/data/extensions")
FixedShapeTensorType = pa.FixedShapeTensorType
AnyArrowExtTensorType = (
    ArrowTensorType | ArrowTensorTypeV2 | ArrowVariableShapedTensorType | pa.FixedShapeTensorType
)


def get_arrow_extension_fixed_shape_tensor_types() -> tuple[type, ...]:
    """The classes of Arrow types that hold arrays of one shape."""
    return (ArrowTensorType, ArrowTensorTypeV2, pa.FixedShapeTensorType)


def get_arrow_extension_variable_shape_tensor_types() -> tuple[type, ...]:
    """The classes of Arrow types that hold arrays of any shape."""
    return (ArrowVariableShapedTensorType,)


def get_arrow_extension_tensor_types() -> tuple[type, ...]:
    """The classes of Arrow types that hold tensors."""
    return (
        get_arrow_extension_fixed_shape_tensor_types()
        + get_arrow_extension_variable_shape_tensor_types()
    )


class PythonObjectDtype(Dtype):
    """The dtype of a PythonObjectArray."""

    name = "python_object()"  # pyright: ignore[reportAssignmentType]

    @classmethod
    def construct_array_type(cls) -> type:
        return PythonObjectArray

    @classmethod
    def construct_from_string(cls, string: str) -> PythonObjectDtype:
        if string != cls.name:
            raise TypeError(f"Cannot construct a {cls.__name__!r} from {string!r}")
        return cls()


class PythonObjectArray(Cells):
    """A pandas array of objects of any class; TypeError if the argument is no sequence. Blocks
    store the objects pickled."""

    def __init__(self, values: Any):
        if not isinstance(values, (list, tuple, np.ndarray)):
            raise TypeError(
                f"PythonObjectArray takes a sequence of objects, not {type(values).__name__}"
            )
        self.values = np.empty(len(values), object)
        for i, v in enumerate(values):
            self.values[i] = v

    def _of(self, values: np.ndarray) -> PythonObjectArray:
        return PythonObjectArray(values)

    @property
    def dtype(self) -> PythonObjectDtype:
        return PythonObjectDtype()

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PythonObjectArray]) -> PythonObjectArray:
        return cls(np.concatenate([a.values for a in to_concat]))

    def isna(self) -> np.ndarray:
        """Whether each entry is missing."""
        return np.array([v is None or isinstance(v, float) and v != v for v in self.values], bool)

    def __arrow_array__(self, type: Any = None) -> pa.Array:
        return python_objects(self.values.tolist())
