"""Communicator: a group of actors that send tensors to each other."""

from skate.dag.collective_node import ReduceOp
from skate.dag.transport import Communicator

__all__ = ["Communicator", "ReduceOp"]
