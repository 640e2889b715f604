"""The names of Ray's channels that programs use: how tensors are sent from node to node."""

from skate.dag.transport import Communicator, TorchTensorType

__all__ = ["Communicator", "TorchTensorType"]
