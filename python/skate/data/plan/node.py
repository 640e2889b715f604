"""The nodes of the logical plan, and what is known about a node without running it. A Dataset
points at a Node: one operator with its parameters and inputs, which never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.op import find

# (ObjectRef or a RecordBatch of this process, first row, rows, bytes)
Block = tuple[Any, int, int, int]


class Node:
    """One operator of the logical plan.

    Args:
        op: The name of the operator; its facts are in op/<name>.py (`operator`).
        label: The name of the node for people.
        params: The parameters of the operator.
        inputs: The nodes that it takes rows from.
        each_run: A function from the number of a run (0, 1, ...) to the options that are different
            in each run and, under "params", to such parameters, for example seeds.
        options: Keyword arguments of _skate.Plan.add besides the first four and the facts.
    """

    __slots__ = ("op", "operator", "label", "params", "inputs", "options", "each_run", "counter")

    def __init__(
        self,
        op: str,
        label: str,
        params: dict[str, Any],
        inputs: tuple[Node, ...] = (),
        *,
        each_run: Callable[[int], dict[str, Any]] | None = None,
        **options: Any,
    ):
        self.operator = find(op)
        self.op, self.label, self.params, self.inputs, self.options = (
            op,
            label,
            params,
            inputs,
            options,
        )
        self.each_run = each_run
        self.counter = [0]  # the number of runs begun; shared by a node and its replacements

    @property
    def blocks(self) -> list[Block] | None:
        """The blocks of the node, if it stands for existing blocks; None: the node has to be
        run."""
        return self.options.get("blocks")

    @property
    def parts(self) -> list[tuple[Any, int, int]] | None:
        """The parts of a source: (unit or block, rows, bytes) of each, -1 where a number is
        unknown; None: the node is no source."""
        if "units" in self.options:
            return self.options["units"]
        return [(b, b[2], b[3]) for b in self.blocks] if self.blocks is not None else None

    @property
    def runs(self) -> int:
        """The number of runs that have begun so far, if the node makes new random choices in each
        run; else 0."""
        return self.counter[0]

    @runs.setter
    def runs(self, n: int) -> None:
        self.counter[0] = n

    def __reduce__(self) -> Any:
        """Pickles the node and its inputs as a flat list, because pickle cannot nest as deep as a
        chain of thousands of nodes."""
        nodes = below(self)
        number = {id(n): i for i, n in enumerate(nodes)}
        rows = [
            (
                n.op,
                n.label,
                n.params,
                [number[id(i)] for i in n.inputs],
                n.each_run,
                n.runs,
                n.options,
            )
            for n in nodes
        ]
        return _of_rows, (rows,)

    def this_run(self) -> Node:
        """The node with the parameters of the run that begins now."""
        if self.each_run is None:
            return self
        different = self.each_run(self.runs)
        self.runs += 1
        params = {**self.params, **different.pop("params", {})}
        return Node(self.op, self.label, params, self.inputs, **{**self.options, **different})

    def replaced(
        self,
        *,
        params: dict[str, Any] | None = None,
        inputs: tuple[Node, ...] | None = None,
        options: dict[str, Any] | None = None,
        each_run: Callable[[int], dict[str, Any]] | None = None,
    ) -> Node:
        """A node of the same operator with other parameters, inputs, options or each_run (None:
        unchanged). It shares the counter of runs with this node."""
        new = Node(
            self.op,
            self.label,
            self.params if params is None else params,
            self.inputs if inputs is None else inputs,
            each_run=each_run or self.each_run,
            **(self.options if options is None else options),
        )
        new.counter = self.counter
        return new

    def beside(self, options: dict[str, Any]) -> Node:
        """For a reader that was given no resources: the same reader in the placement group of its
        consumer, since this group may hold all resources of the machine."""
        own = self.options.keys() & {"num_cpus", "num_gpus", "memory", "resources", "group", "env"}
        if "group" not in options or "units" not in self.options or own:
            return self
        more = {**self.options, "group": options["group"], "bundle": options["bundle"]}
        return self.replaced(options=more)


def _of_rows(rows: list[Any]) -> Node:
    """Makes a node of the flat list from Node.__reduce__."""
    made: dict[int, Node] = {}
    todo = [0]
    while todo:
        i = todo[-1]
        op, label, params, inputs, each_run, runs, options = rows[i]
        missing = [k for k in inputs if k not in made]
        if missing:
            todo += missing
            continue
        todo.pop()
        if i not in made:
            made[i] = Node(
                op, label, params, tuple(made[k] for k in inputs), each_run=each_run, **options
            )
            made[i].runs = runs
    return made[0]


def below(root: Node) -> list[Node]:
    """All nodes of the plan that ends with root, root first, each once."""
    out: dict[int, Node] = {}
    todo = [root]
    while todo:
        n = todo.pop()
        if id(n) not in out:
            out[id(n)] = n
            todo += reversed(n.inputs)
    return list(out.values())


def bytes_of(node: Node) -> int | None:
    """The bytes of a node's rows if they are known without a run; else None."""
    if node.parts is None:
        return None
    known = [size for _, _, size in node.parts]
    return sum(known) if min(known, default=0) >= 0 else None
