"""Collective operations among the actors of a graph: allreduce, allgather, reducescatter. Values go
through shared memory (skate/dag/collective_node.py)."""

from __future__ import annotations

import functools

from skate.dag import collective_node
from skate.dag.collective_node import ReduceOp

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ReduceOp", "allgather", "allreduce", "reducescatter"]


def _checked(op):
    if not isinstance(op, ReduceOp):
        raise ValueError(f"Unexpected operation: {op}")
    return op


class _Operation:
    def __init__(self, name, function_of):
        self._name, self._function_of = name, function_of

    def bind(
        self, input_nodes: list[Any], op: ReduceOp = ReduceOp.SUM, transport: Any = None
    ) -> list[Any]:
        """Nodes of the operation, one for each of input_nodes, which are nodes of different actors.

        Args:
            input_nodes: A list of nodes; or a list of such lists, which gives tuples.
            op: How the elements at one position are combined.
            transport: None, or a Communicator of the same actors; values go by shared memory.
        """
        _checked(op)
        if transport in ("nccl", "accelerator"):
            raise NotImplementedError(
                f"{self._name}: transport {transport!r} needs GPUs; values go by shared memory (transport=None)"
            )
        return collective_node.bind(
            self._name, input_nodes, op, transport, functools.partial(self._function_of, op)
        )


def _reduce(op, rank):
    return functools.partial(collective_node.reduce_all, op=op)


def _gather(op, rank):
    return collective_node.gather_all


def _scatter(op, rank):
    return functools.partial(collective_node.reduce_scatter, op=op, rank=rank)


allreduce = _Operation("allreduce", _reduce)
"""`allreduce.bind(nodes, op=ReduceOp.SUM)`: each actor gets the values of all nodes, combined."""
allgather = _Operation("allgather", _gather)
"""`allgather.bind(nodes)`: each actor gets the values of all nodes, one behind the other."""
reducescatter = _Operation("reducescatter", _scatter)
"""`reducescatter.bind(nodes, op=ReduceOp.SUM)`: each actor gets its part of the combined values."""
