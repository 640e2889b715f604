"""A picture of a graph, drawn by pydot and graphviz (which are not dependencies of skate)."""

import os

from skate._deps import ipython_display, pydot, tempfile
from skate.dag.dag_node import DAGNode


def plot(dag, to_file=None):
    """Draws a graph into a file, in the format of the file's suffix (.png if there is none); in a
    notebook, returns the picture.

    Args:
        dag: The node that the graph ends with.
        to_file: A path; None: a new file in the directory for temporary files, which is not
            removed.

    Raises:
        ImportError: pydot or graphviz is not installed. A file that ends in .dot needs neither.
    """
    if to_file is None:
        handle, to_file = tempfile.mkstemp(suffix=".png")
        os.close(handle)
    form = os.path.splitext(to_file)[1][1:] or "png"
    if form == "dot":
        with open(to_file, "w") as f:
            f.write(dot(dag))
        return None
    _dag_to_dot(dag).write(to_file, format=form)
    try:
        return ipython_display.Image(filename=to_file)
    except ImportError:
        return None


def names_and_edges(dag):
    """Returns ([a different name for each node], [(name, name) of each edge])."""
    order, names, seen = dag._ordered(), {}, {}
    for n in order:
        name = _word(n)
        k = seen[name] = seen.get(name, -1) + 1
        names[id(n)] = f"{name}_{k}" if k else name
    return list(names.values()), [(names[id(m)], names[id(n)]) for n in order for m in n._upstream]


def _word(node: DAGNode):
    name = type(node).__name__
    if name == "InputNode":
        return "INPUT_NODE"
    if name == "InputAttributeNode":
        return f"INPUT_ATTRIBUTE_NODE_{node._key}"
    return node._name().removesuffix("()")


def dot(dag):
    """The graph in graphviz's language."""
    names, edges = names_and_edges(dag)
    lines = [f'  "{n}";' for n in names] + [f'  "{a}" -> "{b}";' for a, b in edges]
    return "\n".join(["digraph G {", "  rankdir=LR;", *lines, "}"]) + "\n"


def _dag_to_dot(dag):
    try:
        pydot.Dot  # noqa: B018  is it installed?
    except ImportError:
        raise ImportError(
            "pydot is required to plot DAG, install it with `pip install pydot`."
        ) from None
    try:
        pydot.Dot.create(pydot.Dot())
    except OSError:
        raise ImportError(
            "graphviz is required to plot DAG, download it from https://graphviz.gitlab.io/download/"
        ) from None
    graph = pydot.Dot(rankdir="LR")
    names, edges = names_and_edges(dag)
    for a, b in edges:
        graph.add_edge(pydot.Edge(a, b))
    if not edges:
        graph.add_node(pydot.Node(names[0]))
    return graph
