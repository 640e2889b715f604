"""TorchTensorType: how the tensors of a value go to who takes it."""

from skate.dag.transport import TorchTensorType

__all__ = ["TorchTensorType"]
