"""The tensor part of skate.data.extensions, under Ray's name of the module."""

from skate.data.extensions import (  # noqa: F401
    ArrowConversionError,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    FixedShapeTensorType,
    TensorArray,
    TensorDtype,
)
