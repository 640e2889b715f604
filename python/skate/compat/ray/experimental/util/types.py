"""ReduceOp: how a collective operation combines the elements at one position."""

from skate.dag.collective_node import ReduceOp

__all__ = ["ReduceOp"]
