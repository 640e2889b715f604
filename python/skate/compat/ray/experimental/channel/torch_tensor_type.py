"""TorchTensorType: how the tensors of a value go to its consumers."""

from skate.dag.transport import TorchTensorType

__all__ = ["TorchTensorType"]
