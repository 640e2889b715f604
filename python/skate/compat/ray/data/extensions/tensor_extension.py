"""The part of skate.data.extensions for tensors, under Ray's module name."""

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
