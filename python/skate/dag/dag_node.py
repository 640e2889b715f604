"""DAGNode: the base of all nodes. A node and its arguments cannot change after bind(). So a graph
has no cycle, and the order of its nodes is computed once."""

from __future__ import annotations

import copy
import heapq
import inspect
import itertools
import uuid

from skate.dag.base import DAGNodeBase
from skate.dag.py_obj_scanner import find, replace
from skate.dag.transport import TorchTensorType

_numbers = itertools.count()

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

    from skate.dag.compiled_dag_node import CompiledDAG


def check_arguments(function, skip, args, kwargs, what):
    """TypeError if arguments do not fit a function (None: the function is unknown, and nothing is
    checked). skip: the number of leading parameters (self) that the caller does not pass."""
    if getattr(function, "__code__", None) is None:
        return
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        signature.bind(*([None] * skip), *args, **kwargs)
    except TypeError as e:
        rest = signature.replace(parameters=list(signature.parameters.values())[skip:])
        raise TypeError(
            f"{e}. The function `{what}` has a signature `{rest}`, but the given arguments to `bind` doesn't match. args: {args}. kwargs: {kwargs}."
        ) from None


class DAGNode(DAGNodeBase):
    """A call, an actor, an input or the outputs of a graph. Made by bind(), InputNode and
    MultiOutputNode.

    Args:
        args: Positional arguments: values, nodes, and values with nodes inside.
        kwargs: Keyword arguments.
        options: Options of the call.
        other_args_to_resolve: What the node depends on besides its arguments; nodes in it run
            before this node.
    """

    is_input = False
    _compiler: Any = None  # the class CompiledDAG; its module sets this when it is imported

    def __init__(self, args, kwargs, options, other_args_to_resolve):
        self._bound_args = args
        self._bound_kwargs = kwargs
        self._bound_options = options
        self._bound_other_args_to_resolve = other_args_to_resolve
        self._stable_uuid = uuid.uuid4().hex
        self._number = next(_numbers)  # the place of this node in the order of bind()
        self._deep = set()  # the arguments (by index or name) that contain nodes
        before = list(args) + list(kwargs.values())
        for key, value in [*enumerate(args), *kwargs.items()]:
            if not isinstance(value, DAGNode):
                inside = find(value)
                if inside:
                    self._deep.add(key)
                    before += inside
        before += other_args_to_resolve.values()
        self._upstream = list({id(n): n for n in before if isinstance(n, DAGNode)}.values())
        self._order = None
        self._compiled, self._transport = False, TorchTensorType()
        self._source = next(
            (n if n.is_input else n._source for n in self._upstream if n.is_input or n._source),
            None,
        )
        if self._source is not None:
            self._source._bound.append(self)

    # ---- Facts about a node.

    def get_args(self) -> tuple[Any, ...]:
        """The positional arguments of this node."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """The keyword arguments of this node."""
        return self._bound_kwargs.copy()

    def get_options(self) -> dict[str, Any]:
        """The options of this node, as the program gave them."""
        return self._bound_options.copy()

    def get_other_args_to_resolve(self) -> dict[str, Any]:
        """What the node depends on besides its arguments, by the keys in skate.dag.constants."""
        return self._bound_other_args_to_resolve.copy()

    def get_stable_uuid(self) -> str:
        """A name of this node; copies of the node and unpickled nodes have the same name."""
        return self._stable_uuid

    def _get_toplevel_child_nodes(self):
        """The nodes that are themselves arguments, each once."""
        values = [
            *self._bound_args,
            *self._bound_kwargs.values(),
            *self._bound_other_args_to_resolve.values(),
        ]
        return list({id(v): v for v in values if isinstance(v, DAGNode)}.values())

    def _get_all_child_nodes(self):
        """The nodes that are arguments or are contained in arguments, each once."""
        found = find(
            [list(self._bound_args), self._bound_kwargs, self._bound_other_args_to_resolve]
        )
        return list({id(n): n for n in found}.values())

    # ---- Running a graph.

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the graph that ends with this node: each node once, calls in the order of their
        bind().

        Args:
            args: The values that the InputNode stands for; several: input[0], input[1].
            kwargs: input.name.

        Returns:
            The ObjectRef of this call (of a call with several values, a list; of a MultiOutputNode,
            a list with the ObjectRef of each of its nodes); of a ClassNode, the handle of a new
            actor.

        Raises:
            TypeError: Arguments do not fit a function. No node has run then.
            ValueError: An input is missing; an argument has changed since bind(); there is a cycle.
            AssertionError: The InputNode was not made by `with InputNode() as ...`; there are
                several InputNodes.
        """
        if self._order is None:
            order = self._ordered()
            for node in order:
                node._check()
            self._order = order
        values = {}
        for node in self._order:
            values[id(node)] = node._run(_Values(node, values), args, kwargs)
        return values[id(self)]

    def _ordered(self):
        """This node and all nodes that it depends on, each after the nodes that it depends on;
        where several could come next, the node that was bound first."""
        work: list[DAGNode] = [self]
        nodes = {id(self): work[0]}
        while work:
            for n in work.pop()._upstream:
                if id(n) not in nodes:
                    nodes[id(n)] = n
                    work.append(n)
        inputs = sorted(n._number for n in nodes.values() if n.is_input)
        if len(inputs) > 1:
            raise AssertionError("Each DAG should only have one unique InputNode.")
        wants = {key: len(n._upstream) for key, n in nodes.items()}
        feeds = {key: [] for key in nodes}
        for n in nodes.values():
            for m in n._upstream:
                feeds[id(m)].append(n)
        ready = [(n._number, key) for key, n in nodes.items() if not wants[key]]
        heapq.heapify(ready)
        order = []
        while ready:
            node = nodes[heapq.heappop(ready)[1]]
            order.append(node)
            for n in feeds[id(node)]:
                wants[id(n)] -= 1
                if not wants[id(n)]:
                    heapq.heappush(ready, (n._number, id(n)))
        if len(order) < len(nodes):
            stuck = ", ".join(repr(nodes[key]) for key, n in wants.items() if n)
            raise ValueError(f"the graph has a cycle, among {stuck}")
        return order

    def _check(self):
        """TypeError if the arguments do not fit. It checks, before the first node of a graph runs,
        what bind() could not check."""

    def _run(self, values, args, kwargs):
        """The value of this node. values: a _Values with the values of the nodes before it; args
        and kwargs: the arguments of execute()."""
        raise NotImplementedError

    def experimental_compile(
        self,
        _submit_timeout: float | None = None,
        _buffer_size_bytes: int | None = None,
        enable_asyncio: bool = False,
        _max_inflight_executions: int | None = None,
        _max_buffered_results: int | None = None,
        _overlap_gpu_communication: bool | None = None,
        _default_communicator: Any = "create",
    ) -> CompiledDAG:
        """Compiles the graph that ends with this node: its values go through shared memory, so an
        execution costs microseconds (docs/design/graphs.md).

        If an actor with max_restarts and max_task_retries is killed, its next process continues,
        and no execution is lost; with the methods __skate_checkpoint__(self) and
        __skate_restore__(self, state) its state is restored, too. The death of another actor ends
        the graph, with ActorDiedError.

        Args:
            _submit_timeout: Seconds that execute() waits for room; -1: without a limit; None: the
                value of DAGContext.
            _buffer_size_bytes: Has no effect: buffers grow with the messages.
            enable_asyncio: Whether the graph is used by execute_async() and not by execute().
            _max_inflight_executions: The most executions in progress whose results were not taken;
            None: the value of DAGContext.
            _max_buffered_results: The most results that wait to be taken; None: the value of
                DAGContext.
            _overlap_gpu_communication: Whether actors receive values from other actors before they
                need them.
            _default_communicator: The communicator of collective operations that name none.

        Returns:
            The CompiledDAG, with execute(), execute_async() and teardown().

        Raises:
            ValueError: The graph was compiled already, or cannot be compiled.
            NotImplementedError: A task has several values, or retry_exceptions; a transport is not
                supported.
        """
        if self._compiled:
            raise ValueError(
                "It is not allowed to call `experimental_compile` on the same DAG object multiple times no matter whether `teardown` is called or not. "
                "Please reuse the existing compiled DAG or create a new one."
            )
        compiled = self._compiler(
            self,
            _submit_timeout,
            enable_asyncio,
            _max_inflight_executions,
            _max_buffered_results,
            _overlap_gpu_communication,
        )
        self._compiled = True
        return compiled

    def with_tensor_transport(
        self, transport="auto", device="default", _static_shape=False, _direct_return=False
    ):
        """Sets how the tensors of this node's value are sent to its consumers. Returns the node.

        Args:
            transport: "auto", "shm", or a Communicator of actors without GPUs; "nccl" and
                "accelerator" are refused when the graph is compiled.
            device: "default", "cpu"; "gpu" and "cuda" are refused when the graph is compiled.
            _static_shape: Has no effect.
            _direct_return: Has no effect.

        Raises:
            ValueError: The transport or device is unknown.
        """
        self._transport = TorchTensorType(transport, device, _static_shape, _direct_return)
        return self

    @property
    def type_hint(self):
        """The TorchTensorType that with_tensor_transport() has set."""
        return self._transport

    # ---- Other walks over a graph.

    def apply_recursive(self, fn):
        """Calls fn(node) for this node and all nodes that it depends on, each once, in the order of
        dependency. fn gets a copy of the node in whose arguments nodes are replaced by the results
        of fn. Returns the result for this node."""
        once = fn if isinstance(fn, _Once) else _Once(fn)
        if self._stable_uuid in once.cache:
            return once.cache[self._stable_uuid]
        return once(
            self._apply_and_replace_all_child_nodes(lambda node: node.apply_recursive(once))
        )

    def _apply_and_replace_all_child_nodes(self, fn):
        """A copy of this node in whose arguments each node is replaced by fn(node); fn is called
        once for each node."""
        table = {}

        def new(node):
            if id(node) not in table:
                table[id(node)] = fn(node)
            return table[id(node)]

        return self._copy(
            replace(self._bound_args, new),
            replace(self._bound_kwargs, new),
            self._bound_options,
            replace(self._bound_other_args_to_resolve, new),
        )

    def _copy(self, args, kwargs, options, other_args_to_resolve):
        out = copy.copy(self)
        DAGNode.__init__(out, args, kwargs, options, other_args_to_resolve)
        out._stable_uuid, out._number = self._stable_uuid, self._number
        return out

    # ---- Nodes as text.

    def _name(self):
        """The kind of the node in one word, for texts."""
        return type(self).__name__

    def __repr__(self):
        name, kind = self._name(), type(self).__name__
        return kind if name == kind else f"{kind}({name})"

    def __str__(self):
        """A line for each node, in the order in which they run; #n is the node of line n."""
        order = self._ordered()
        line = {id(n): f"#{i}" for i, n in enumerate(order)}
        out = []
        for i, n in enumerate(order):
            shown = [_text(a, line) for a in n._bound_args] + [
                f"{k}={_text(a, line)}" for k, a in n._bound_kwargs.items()
            ]
            on = [
                f"{k}={line[id(v)]}"
                for k, v in n._bound_other_args_to_resolve.items()
                if id(v) in line
            ]
            options = [f"options={n._bound_options}"] if n._bound_options else []
            out.append(f"#{i} {n!r} ({', '.join(shown + on + options)})")
        return "\n".join(out)

    def __getattr__(self, name):
        if name == "bind":
            raise AttributeError(f".bind() cannot be used again on {type(self)} ")
        if name == "remote":
            raise AttributeError(
                f".remote() cannot be used on {type(self)}. To execute the task graph for this node, use .execute()."
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _text(value, line):
    if isinstance(value, DAGNode):
        return line[id(value)]
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Values:
    """The arguments of a node, in which other nodes are replaced by their values."""

    def __init__(self, node, values):
        self.node, self.values = node, values

    def of(self, node):
        """The value of a node that ran before."""
        try:
            return self.values[id(node)]
        except KeyError:
            raise ValueError(
                f"an argument of {self.node!r} was changed after bind(): it holds {node!r} now, which is not among the nodes that it had"
            ) from None

    def _resolved(self, key, value):
        if isinstance(value, DAGNode):
            return self.of(value)
        return replace(value, self.of) if key in self.node._deep else value

    def args(self):
        """The positional arguments, in which nodes are replaced by their values."""
        return [self._resolved(i, v) for i, v in enumerate(self.node._bound_args)]

    def kwargs(self):
        """The keyword arguments, in which nodes are replaced by their values."""
        return {k: self._resolved(k, v) for k, v in self.node._bound_kwargs.items()}


class _Once:
    """A function of nodes that runs once for each node."""

    def __init__(self, fn):
        self.fn, self.cache, self.input = fn, {}, None

    def __call__(self, node):
        if node.is_input:
            if self.input not in (None, node._stable_uuid):
                raise AssertionError("Each DAG should only have one unique InputNode.")
            self.input = node._stable_uuid
        self.cache[node._stable_uuid] = value = self.fn(node)
        return value
