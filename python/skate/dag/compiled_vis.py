"""A compiled graph as text: a list of its nodes and edges, and a text in graphviz's language."""

from skate._deps import graphviz
from skate.dag.class_node import ClassMethodNode
from skate.dag.constants import PARENT_CLASS_NODE_KEY
from skate.dag.input_node import InputAttributeNode
from skate.dag.output_node import MultiOutputNode


def _parts(root):
    """Returns ([(label, short name, actor or None) of each node], [(from, to, whether the value
    stays in its actor) of each edge])."""
    order = _in_layers(root)
    number = {id(n): i for i, n in enumerate(order)}
    nodes, edges = [], []
    for n in order:
        nodes.append(_named(n))
        edges += [(number[id(m)], number[id(n)], _stays(m, n)) for m in n._upstream]
    if not isinstance(root, MultiOutputNode):
        edges.append((number[id(root)], len(nodes), False))
        nodes.append(("MultiOutputNode", "MultiOutputNode", None))
    return nodes, edges


def _in_layers(root):
    """The nodes in layers: the input, then the nodes that take the input, then the nodes that take
    these, and so on."""
    order = root._ordered()
    feeds = {id(n): [] for n in order}
    for n in order:
        for m in n._upstream:
            feeds[id(m)].append(n)
    out = [n for n in order if not n._upstream]
    seen = {id(n) for n in out}
    for n in out:
        new = [m for m in feeds[id(n)] if id(m) not in seen]
        seen.update(id(m) for m in new)
        out += new
    return out


def _actor(node):
    return (
        node._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        if isinstance(node, ClassMethodNode)
        else None
    )


def _stays(m, n):
    return _actor(m) is not None and _actor(m) == _actor(n)


def _named(node):
    if isinstance(node, ClassMethodNode) and node.is_class_method_output:
        return (
            f"ClassMethodOutputNode[{node.output_idx}]",
            f"Output[{node.output_idx}]",
            _actor(node),
        )
    if isinstance(node, ClassMethodNode):
        actor = node._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        short, name = actor._actor_id.hex()[-6:], node.get_method_name()
        return f"Actor: {short}... Method: {name}", f"Actor_{short}:{name}", actor
    if isinstance(node, InputAttributeNode):
        return f"InputAttributeNode[{node._key}]", f"InputAttributeNode[{node._key}]", None
    return type(node).__name__, type(node).__name__, None


def _text(nodes, edges):
    lines = ["Nodes Information:"]
    lines += [f'{i} [label="Task {i}  {label}"]' for i, (label, _, _) in enumerate(nodes)]
    lines += ["", "Edges Information:"]
    lines += [f"{a} ---> {b}" for a, b, _ in edges]
    lines += [
        "",
        "Legend:",
        "+++> : Represents Nccl-type data channels",
        "---> : Represents Shared Memory data channels",
        "",
        "Graph Built:",
    ]
    level = [0] * len(nodes)
    for _ in nodes:  # there are at most as many layers as nodes
        for a, b, _ in edges:
            level[b] = max(level[b], level[a] + 1)
    for at in range(max(level) + 1):
        lines.append("   ".join(f"{i}:{nodes[i][1]}" for i in range(len(nodes)) if level[i] == at))
        lines.append("|")
    return "\n".join(lines[:-1])


def _dot(nodes, edges, details):
    colours, lines = {}, ["digraph compiled_dag {", "  rankdir=LR;"]
    for i, (label, _, actor) in enumerate(nodes):
        shape = "oval" if actor is not None else "rectangle"
        colour = (
            f"#{(0x9FC5E8 + 0x2F5B17 * colours.setdefault(actor, len(colours))) & 0xFFFFFF:06x}"
            if actor is not None
            else "lightblue"
        )
        lines.append(
            f'  {i} [label="Task {i}\\n{label}" shape={shape} style=filled fillcolor="{colour}"];'
        )
    for a, b, stays in edges:
        label = f' [label="{"in process" if stays else "shared memory"}"]' if details else ""
        lines.append(f"  {a} -> {b}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def visualize(compiled, filename, format, view, channel_details):
    """The body of CompiledDAG.visualize()."""
    nodes, edges = _parts(compiled._root)
    if format == "ascii":
        if channel_details:
            raise ValueError(
                "Parameters 'view' and 'channel_details' are not compatible with 'ascii' format."
            )
        text = _text(nodes, edges)
        print(text)
        return text
    try:
        graphviz.Digraph  # noqa: B018  is it installed?
    except ImportError:
        raise ImportError(
            "Please install graphviz to visualize the compiled graph. You can install it by running `pip install graphviz`."
        ) from None
    source = _dot(nodes, edges, channel_details)
    graphviz.Source(source).render(filename, format=format, view=view, cleanup=True)
    return source
