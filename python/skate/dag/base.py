"""The class that a value is looked through for; by itself, so that the scanner need not know
nodes."""


class DAGNodeBase:
    """A node of a graph."""
