"""The base class of nodes, in its own module so that py_obj_scanner.py need not import all kinds of
nodes."""


class DAGNodeBase:
    """A node of a graph."""
