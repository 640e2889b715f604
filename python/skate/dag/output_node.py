"""MultiOutputNode: a graph with several results."""

from skate.dag.dag_node import DAGNode


class MultiOutputNode(DAGNode):
    """The end of a graph: execute() returns a list of the results of these nodes.

    Args:
        args: A list or tuple of nodes.
    """

    def __init__(self, args):
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"Invalid input type for `args`, {type(args)}.")
        super().__init__(list(args), {}, {}, {})

    def _run(self, values, args, kwargs):
        return values.args()
