"""TorchTensorType: how the tensors of a value are sent to its consumers."""

from skate.dag.transport import TorchTensorType

__all__ = ["TorchTensorType"]
