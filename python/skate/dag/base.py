"""The base class of nodes, in a module of its own so that the scanner of values need not import
nodes."""


class DAGNodeBase:
    """A node of a graph."""
