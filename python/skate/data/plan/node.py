"""The logical plan: a Dataset points at a Node, one operator with its parameters and inputs, never
changed; and what is known of it without running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.op import find

# ObjectRef (or a RecordBatch of this process), first row, rows, bytes
Block = tuple[Any, int, int, int]


class Node:
    """One operator of the logical plan. op: its name; operator: what is known of it (op/<name>.py).
    options: keyword arguments of _skate.Plan.add beyond the first four and the facts.

    each_run: a function from the number of a run (0, 1, ...) to options and, under "params",
    parameters that differ in it: what is drawn anew each time.
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
        self.counter = [0]  # of the runs that began; one for a node and all that replace it

    @property
    def blocks(self) -> list[Block] | None:
        """The blocks that it has; None: it has to run."""
        return self.options.get("blocks")

    @property
    def parts(self) -> list[tuple[Any, int, int]] | None:
        """Of a source: (unit or block, rows, bytes) of each of its parts, -1 where that is not
        known; None: it is none."""
        if "units" in self.options:
            return self.options["units"]
        return [(b, b[2], b[3]) for b in self.blocks] if self.blocks is not None else None

    @property
    def runs(self) -> int:
        """How many runs began that draw something anew."""
        return self.counter[0]

    @runs.setter
    def runs(self, n: int) -> None:
        self.counter[0] = n

    def __reduce__(self) -> Any:
        """The nodes below it as a flat list: a chain of thousands is deeper than pickle goes."""
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
        """The node as the run that begins now has it."""
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
        """The same operator with other parameters, inputs, options or what each run draws anew
        (None: as they are). Its runs count as runs of this one, and the other way round."""
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
        """Of a reader that asks for nothing: the same in the placement group of its consumer, which
        may be all that there is."""
        own = self.options.keys() & {"num_cpus", "num_gpus", "memory", "resources", "group", "env"}
        if "group" not in options or "units" not in self.options or own:
            return self
        more = {**self.options, "group": options["group"], "bundle": options["bundle"]}
        return self.replaced(options=more)


def _of_rows(rows: list[Any]) -> Node:
    """What Node.__reduce__ made rows of."""
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
    """The nodes that root is made of, itself first, each once."""
    out: dict[int, Node] = {}
    todo = [root]
    while todo:
        n = todo.pop()
        if id(n) not in out:
            out[id(n)] = n
            todo += reversed(n.inputs)
    return list(out.values())


def bytes_of(node: Node) -> int | None:
    """Of what a node gives, as far as it is known without running anything."""
    if node.parts is None:
        return None
    known = [size for _, _, size in node.parts]
    return sum(known) if min(known, default=0) >= 0 else None
