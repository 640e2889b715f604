"""Collective operations of a graph. Each actor reads the values of all actors from shared memory,
and reduces or joins them itself, in the order of the actors, so all actors get the same result.
Values are NumPy arrays or torch tensors on CPUs."""

import enum
import functools
import operator

from skate._deps import np, torch
from skate.dag.class_node import ClassMethodNode
from skate.dag.constants import PARENT_CLASS_NODE_KEY


class ReduceOp(enum.Enum):
    """The operation that combines the elements at one position."""

    SUM = 0
    PRODUCT = 1
    MAX = 2
    MIN = 3
    AVG = 4


class CollectiveOutputNode(ClassMethodNode):
    """The result of a collective operation in one actor.

    Args:
        name: The name of the operation.
        function: A function of (the actor's instance, the values of all actors).
        values: The nodes, one of each actor.
        handle: The actor.
    """

    def __init__(self, name, function, values, handle):
        super().__init__(name, tuple(values), {}, {}, {PARENT_CLASS_NODE_KEY: handle})
        self._function = function

    def _run(self, values, args, kwargs):
        handle = self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        return handle.__ray_call__.remote(self._function, *values.args())


def _is_torch(x):
    return type(x).__module__.split(".")[0] == "torch"


def _checked(values, what):
    for v in values:
        if not hasattr(v, "shape") or not hasattr(v, "dtype"):
            raise ValueError(
                f"Expected a tensor for the collective operation {what}, got {type(v)}"
            )
        if v.shape != values[0].shape or v.dtype != values[0].dtype:
            raise ValueError(
                f"{what} takes tensors of one shape and dtype, not {tuple(values[0].shape)} {values[0].dtype} and {tuple(v.shape)} {v.dtype}"
            )
    return values


def _reduced(values, op):
    if op in (ReduceOp.MAX, ReduceOp.MIN):
        if _is_torch(values[0]):
            return functools.reduce(torch.maximum if op is ReduceOp.MAX else torch.minimum, values)
        return functools.reduce(np.maximum if op is ReduceOp.MAX else np.minimum, values)
    out = functools.reduce(operator.mul if op is ReduceOp.PRODUCT else operator.add, values)
    return out / len(values) if op is ReduceOp.AVG else out


def reduce_all(instance, *values, op):
    """Computes an allreduce."""
    return _reduced(_checked(values, "allreduce"), op)


def gather_all(instance, *values):
    """Computes an allgather."""
    _checked(values, "allgather")
    if _is_torch(values[0]):
        return torch.cat(list(values))
    return np.concatenate(values)


def reduce_scatter(instance, *values, op, rank):
    """Computes a reducescatter."""
    _checked(values, "reducescatter")
    n, k = values[0].shape[0], len(values)
    if n % k:
        raise ValueError(
            f"reducescatter among {k} actors takes tensors whose first dimension is a multiple of that, not {n}"
        )
    return _reduced([v[rank * n // k : (rank + 1) * n // k] for v in values], op)


def bind(name, nodes, op, transport, function_of):
    """Returns the nodes of an operation, one for each node of `nodes`. If `nodes` is a list of
    lists of nodes, returns tuples. function_of(rank): the function that the actor with that rank
    runs."""
    lists = [list(n) for n in nodes] if nodes and isinstance(nodes[0], list) else [list(nodes)]
    actors = None
    if not lists[0]:
        raise ValueError("Expected non-empty input list")
    for i, row in enumerate(lists):
        if len(row) != len(lists[0]):
            raise ValueError(
                f"Expected all input lists to have the same number of nodes, got {[len(r) for r in lists]}"
            )
        handles = [
            getattr(n, "_bound_other_args_to_resolve", {}).get(PARENT_CLASS_NODE_KEY) for n in row
        ]
        if any(h is None for h in handles):
            raise ValueError(
                f"Expected an actor handle for each input node of {name}: collective operations take the values of actors' methods"
            )
        if len(set(handles)) != len(handles):
            raise ValueError(
                f"Expected unique actor handles at list at index {i}, but found duplicate actor handles: {handles}"
            )
        if actors is not None and set(handles) != set(actors):
            raise ValueError(
                f"Expected all input lists to have the same set of actor handles, got {actors} and {handles}"
            )
        actors = actors or handles
    assert actors is not None
    if hasattr(transport, "get_actor_handles") and set(transport.get_actor_handles()) != set(
        actors
    ):
        raise ValueError(
            f"Expected actor handles to match the custom communicator group: it has {transport.get_actor_handles()}, not {actors}"
        )
    out = []
    for row in lists:
        handles = [n._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY] for n in row]
        out.append(
            [
                CollectiveOutputNode(name, function_of(rank), row, h)
                for rank, h in enumerate(handles)
            ]
        )
    return out[0] if len(out) == 1 else [tuple(col) for col in zip(*out, strict=True)]
