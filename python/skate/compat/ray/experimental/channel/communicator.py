"""Communicator: a group of actors that hand each other tensors."""

from skate.dag.collective_node import ReduceOp
from skate.dag.transport import Communicator

__all__ = ["Communicator", "ReduceOp"]
