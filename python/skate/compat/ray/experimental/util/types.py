"""ReduceOp: what a collective operation makes of the elements at one place."""

from skate.dag.collective_node import ReduceOp

__all__ = ["ReduceOp"]
