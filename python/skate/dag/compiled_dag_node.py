"""CompiledDAG: a graph of actors' methods whose values go through shared memory. This module
numbers the graph for C (src/py/graph/graph.c) and holds results until the program takes them;
channels, schedules and loops are in C."""

from __future__ import annotations

import collections
import logging
import threading
import uuid

from skate import _forked, _job, _skate, exceptions, runtime_context
from skate.dag import callers, task_workers
from skate.dag.class_node import ClassMethodNode, ClassNode
from skate.dag.compiled_crew import Crew
from skate.dag.compiled_dag_ref import CompiledDAGFuture, CompiledDAGRef
from skate.dag.compiled_plain import Plain
from skate.dag.compiled_results import WHOLE, Results
from skate.dag.compiled_vis import visualize
from skate.dag.constants import PARENT_CLASS_NODE_KEY
from skate.dag.context import DAGContext
from skate.dag.dag_node import DAGNode
from skate.dag.function_node import FunctionNode
from skate.dag.input_node import InputAttributeNode, InputNode
from skate.dag.output_node import MultiOutputNode
from skate.dag.py_obj_scanner import find

logger = logging.getLogger(__name__)

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from typing import Any

NO_NODE = 0xFFFFFFFF
_CALLS = (ClassMethodNode, FunctionNode)
# the most results that a reader may hold, besides the executions in progress, before the writer
# waits for the reader
MANY = 512


class _Numbers:
    """A graph in numbers, for C: its nodes in the order of bind(), the actor and the computation of
    each node, and the edges."""

    def __init__(self, root):
        self.order = root._ordered()
        self.workers = task_workers.hire([n for n in self.order if isinstance(n, FunctionNode)])
        self.of = {id(n): i for i, n in enumerate(self.order)}
        self.actors, self.tokens, self.index = [], [], {}
        self.nodes, self.edges, self.calls = [], [], collections.defaultdict(list)
        for node in self.order:
            self.nodes.append(None)
            if isinstance(node, _CALLS):
                self.nodes[-1] = self._actor_of(node)
        n = len(self.actors)
        for i, node in enumerate(self.order):
            if isinstance(node, _CALLS):
                self._call(i, node)
            else:
                self.nodes[i] = n + 1 if isinstance(node, MultiOutputNode) else n
        self.outputs = list(root._bound_args) if isinstance(root, MultiOutputNode) else [root]
        if not isinstance(root, MultiOutputNode):
            self.nodes.append(n + 1)
        self.edges += [(self.of[id(o)], len(self.nodes) - 1) for o in self.outputs]
        self.inputs = [
            (i, self.order[i]) for i in sorted({a for a, _ in self.edges if self.nodes[a] == n})
        ]

    def _actor_of(self, node):
        handle = (
            self.workers.get(id(node)) or node._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        )
        token = handle._token
        if token.id not in self.index:
            self.index[token.id] = len(self.actors)
            self.actors.append(handle)
            self.tokens.append(token)
        return self.index[token.id]

    def _call(self, i, node):
        if isinstance(node, FunctionNode):
            self._row(i, node, (node._body,), node._name(), 1)
        elif not node.is_class_method_output:
            name = node._method_name
            shown = f"{self.actors[self.nodes[i]]._cls_name}.{name}"
            self._row(i, node, getattr(node, "_function", None) or name, shown, node.num_returns)
        else:
            call = self.of[id(node._bound_args[0])]
            self.edges.append((call, i))
            self.calls[self.nodes[i]].append(
                (i, None, node.get_method_name(), (), (), None, 1, call, node._bound_args[1])
            )

    def _row(self, i, node, target, shown, returns):
        args, consts = [], []
        for arg in node._bound_args:
            if id(arg) in self.of:
                self.edges.append((self.of[id(arg)], i))
                args.append(self.of[id(arg)])
            else:
                consts.append(arg)
                args.append(-len(consts))
        kwargs = node._bound_kwargs
        row = (
            i,
            target,
            shown,
            tuple(args),
            (*consts, *kwargs.values()),
            tuple(kwargs) or None,
            returns,
            NO_NODE,
            0,
        )
        self.calls[self.nodes[i]].append(row)


def _check(root):
    """Raises, in Ray's words, for a graph that cannot be compiled."""
    order = root._ordered()
    source = next((n for n in order if n.is_input), None)
    if any(isinstance(n, ClassNode) for n in order):
        raise ValueError(
            "Compiled DAGs can only bind methods to an actor that is already created with Actor.remote()"
        )
    for n in order:
        if isinstance(n, FunctionNode):
            n._check()
            task_workers.check(n)
        n._transport.check(n)
        if not isinstance(n, (InputNode, InputAttributeNode, MultiOutputNode, *_CALLS)):
            raise ValueError(f"Found unsupported node of type {type(n)}")
        for arg in n._bound_args if not isinstance(n, MultiOutputNode) else ():
            inside = [] if any(arg is up for up in n._upstream) else find(arg)
            if inside:
                raise ValueError(
                    f"Found {len(inside)} DAGNodes from the arg {arg} in {n}. Please ensure that the argument is a single DAGNode and that a DAGNode is "
                    "not allowed to be placed inside any type of container."
                )
        if any(find(v) for v in n._bound_kwargs.values()):
            raise ValueError(
                "Compiled DAG currently does not support binding to other DAG nodes as kwargs"
            )
    for n in order if source is None else ():
        if isinstance(n, _CALLS) and not n._upstream:
            raise ValueError(
                f"No InputNode found in the DAG: when traversing upwards, no upstream node was found for {n}."
            )
    if source is None:
        raise ValueError(
            f"No InputNode found in the DAG: when traversing upwards, no upstream node was found for {root}."
        )
    for n in order:
        if isinstance(n, _CALLS) and not any(u in order for u in n._upstream):
            raise ValueError(
                f"Compiled DAGs require each task to take a ray.dag.InputNode or at least one other DAGNode as an input. Invalid task node:\n{n}\n"
                "Please bind the task to proper DAG nodes."
            )
    _check_input(order, source)
    _check_others(root, order, source)


def _check_input(order, source):
    used = [n for n in order if isinstance(n, InputAttributeNode)]
    direct = any(
        any(u is source for u in n._upstream)
        for n in order
        if not isinstance(n, InputAttributeNode)
    )
    if used and direct:
        raise ValueError(
            "All tasks must either use InputNode() directly, or they must index to specific args or kwargs."
        )
    given = source.input_attribute_nodes
    unused = [k for k in given if not any(n is given[k] for n in used)]
    if unused:
        raise ValueError(
            f"Compiled Graph expects input to be accessed using all of attributes {', '.join(map(str, given))}, but {', '.join(map(str, unused))} "
            f"{'is' if len(unused) == 1 else 'are'} unused. Ensure all input attributes are used and contribute to the computation of the Compiled Graph output."
        )


def _check_others(root, order, source):
    """Raises if other nodes of the same input are no part of the graph."""
    bound = [n for n in source._bound if not isinstance(n, InputAttributeNode)]
    other = next((n for n in bound if n is not root and n._compiled), None)
    if other is not None:
        raise ValueError(
            f"The DAG was compiled more than once. The following two nodes call `experimental_compile`: {other} and {root}"
        )
    fed = {id(u) for n in bound for u in n._upstream}
    leaves = [n for n in bound if isinstance(n, _CALLS) and id(n) not in fed and n is not root]
    if leaves:
        raise ValueError(
            "Compiled DAG doesn't support leaf nodes, i.e., nodes that don't have downstream nodes and are not output nodes. There are "
            f"{len(leaves)} leaf nodes in the DAG. Please add the outputs of {[n._called() for n in leaves]} to the the MultiOutputNode."
        )


class CompiledDAG(Results):
    """A compiled graph. Made by node.experimental_compile().

    Args:
        root: The node that the graph ends with.
        submit_timeout: Seconds that execute() waits for room; -1: without a limit; None: the value
            of DAGContext.
        enable_asyncio: Whether the graph is used by execute_async() and not by execute().
        max_inflight_executions: The most executions in progress; None: the value of DAGContext.
        max_buffered_results: The most results that wait to be taken; None: the value of DAGContext.
        overlap: Whether actors receive values from other actors before they need them; None: the
            value of DAGContext.

    Raises:
        ValueError, NotImplementedError: The graph cannot be compiled.
        ActorDiedError: One of its actors is dead.
    """

    def __init__(
        self,
        root,
        submit_timeout=None,
        enable_asyncio=False,
        max_inflight_executions=None,
        max_buffered_results=None,
        overlap=None,
    ):
        ctx = DAGContext.get_current()
        self._id = uuid.uuid4().hex
        self._is_teardown = False
        self._graph: Any = None  # a _skate.Graph, or a Plain; None: torn down
        _check(root)
        self._root, self._enable_asyncio = root, enable_asyncio
        self._submit_timeout = ctx.submit_timeout if submit_timeout is None else submit_timeout
        self._get_timeout = ctx.get_timeout
        self._max_inflight_executions = max_inflight_executions or ctx.max_inflight_executions
        self._max_buffered_results = max_buffered_results or ctx.max_buffered_results
        self._overlap = ctx.overlap_gpu_communication if overlap is None else overlap
        self._execution_index, self._submit_lock = -1, _forked.lock()
        self._tending: threading.Thread | None = None
        numbers = _Numbers(root)
        self._actors, self._returns_list = numbers.actors, isinstance(root, MultiOutputNode)
        self._workers = list(set(numbers.workers.values()))
        # an output node is read once, even if it is listed as an output twice
        nodes = [i for i, _ in numbers.edges[-len(numbers.outputs) :]]
        distinct = sorted(set(nodes))
        super().__init__([distinct.index(n) for n in nodes])
        self._take_input(numbers)
        self._start(numbers, distinct)
        callers.living[self._id] = self

    def _take_input(self, numbers):
        keys = [n._key if isinstance(n, InputAttributeNode) else None for _, n in numbers.inputs]
        self._keys, self._direct = keys, keys == [None]
        self._n_args = (
            1 if self._direct else max((k + 1 for k in keys if isinstance(k, int)), default=0)
        )
        self._kwargs = tuple(k for k in keys if isinstance(k, str))

    def _start(self, numbers, outputs):
        # an actor of another engine may be on another node, or be started again there
        if not (_skate.Graph.possible() and all(_job.is_own(t.id) for t in numbers.tokens)):
            self._graph = Plain(numbers, outputs)
            return
        cells = self._max_inflight_executions + 1
        self._graph = _skate.Graph(
            actors=numbers.tokens,
            nodes=numbers.nodes,
            edges=numbers.edges,
            outputs=outputs,
            cells=min(cells, 1024),
            buffers=min(cells + MANY, 1024),
            overlap=self._overlap,
        )
        try:
            crew = Crew(self._graph, self._actors, numbers.calls)
            if any(_skate.get([crew.begin(i) for i in range(len(self._actors))])):
                self._tending = crew.tend(self)
        except BaseException:
            self.teardown()
            raise

    # ---- Facts about the graph.

    @property
    def is_teardown(self):
        """Whether the graph was torn down."""
        return self._is_teardown

    def get_id(self) -> str:
        """The name of the graph."""
        return self._id

    def __str__(self):
        return f"CompiledDAG({self._id})"

    def __reduce__(self):
        owner = None
        if _skate.in_worker():
            owner = runtime_context.get_runtime_context()
            if owner.get_actor_id() is None:
                raise ValueError(
                    "a compiled graph can be passed on by the driver or the actor that compiled it, not by a task"
                )
            owner = owner.current_actor
        return callers.here, (self._id, owner, len(self._place) if self._returns_list else None)

    def visualize(
        self,
        filename: str = "compiled_graph",
        format: str = "png",
        view: bool = False,
        channel_details: bool = False,
    ) -> str:
        """Draws the graph, or gives it as text.

        Args:
            filename: The path of the picture, without the suffix.
            format: A format of graphviz ("png", "pdf" ...); "ascii": only text.
            view: Opens the picture.
            channel_details: Shows the transport of each edge.

        Returns:
            The text, in graphviz's language, or the picture in characters.
        """
        return visualize(self, filename, format, view, channel_details)

    # ---- Executions.

    def _values(self, args, kwargs):
        if len(args) != self._n_args:
            raise ValueError(
                f"dag.execute() or dag.execute_async() must be called with {self._n_args} positional args, got {len(args)}"
            )
        for k in self._kwargs:
            if k not in kwargs:
                raise ValueError(
                    f"dag.execute() or dag.execute_async() must be called with kwarg `{k}`"
                )
        return tuple(args[k] if isinstance(k, int) else kwargs[k] for k in self._keys)

    def _submit(self, args, kwargs):
        with self._submit_lock:  # an execution for another process runs on another thread
            return self._submit_next(args, kwargs)

    def _submit_next(self, args, kwargs):
        if self._is_teardown:
            raise self._over()
        values = args if self._direct and len(args) == 1 else self._values(args, kwargs)
        if (
            self._execution_index - self._max_finished_execution_index
            >= self._max_inflight_executions
        ):
            self._make_room()
        try:
            self._graph.write(values, self._submit_timeout)
        except exceptions.RayChannelTimeoutError as e:
            raise exceptions.RayChannelTimeoutError(
                f"execute(): no room for the input within {self._submit_timeout} s (RAY_CGRAPH_submit_timeout): an actor of the graph is slow, or hangs. ({e})"
            ) from None
        except exceptions.RayChannelError:
            # if the graph cannot continue, reading the result raises ActorDiedError, like a call of
            # a dead actor
            if self._graph.dead is None:
                raise self._over() from None
        self._execution_index += 1
        return self._execution_index

    def _make_room(self):
        """Reads and drops results that are ready and will not be taken."""
        self._release()
        under_way = self._execution_index - self._max_finished_execution_index
        if under_way >= self._max_inflight_executions:
            if self._graph.dead is not None or self._graph.broke is not None:
                raise self._over()
            raise exceptions.RayCgraphCapacityExceeded(
                f"The compiled graph can't have more than {self._max_inflight_executions} in-flight executions, and you currently have {under_way} "
                "in-flight executions. Retrieve an output using ray.get before submitting more requests or increase `_max_inflight_executions`. "
                "`dag.experimental_compile(_max_inflight_executions=...)`"
            )

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Begins an execution.

        Args:
            args: The values that the InputNode stands for; input[0], input[1].
            kwargs: input.name.

        Returns:
            A CompiledDAGRef; for a graph that ends with MultiOutputNode a list of them. If an actor
            of the graph has died, reading them raises ActorDiedError, like the reference of a plain
            call of that actor.

        Raises:
            ValueError: Arguments do not fit the graph; the graph is for execute_async().
            RayCgraphCapacityExceeded: Too many executions are in progress: get some results.
            RayChannelTimeoutError: There was no room within submit_timeout.
            RayChannelError: The graph was torn down.
        """
        if self._enable_asyncio:
            raise ValueError("Use execute_async if enable_asyncio=True")
        index = self._submit(args, kwargs)
        if not self._returns_list:
            return CompiledDAGRef(self, index)
        return [CompiledDAGRef(self, index, i) for i in range(len(self._place))]

    async def execute_async(self, *args: Any, **kwargs: Any) -> Any:
        """execute() for an event loop: returns a CompiledDAGFuture to await, or a list of them."""
        if not self._enable_asyncio:
            raise ValueError("Use execute if enable_asyncio=False")
        index = self._submit(args, kwargs)
        if not self._returns_list:
            return CompiledDAGFuture(self, index)
        return [CompiledDAGFuture(self, index, i) for i in range(len(self._place))]

    def _over(self):
        """The exception for a use of a graph that has ended."""
        if self._is_teardown:
            return exceptions.RayChannelError("Channel closed.")
        dead, broke = self._graph.dead, self._graph.broke
        if dead is not None:
            actor = self._actors[dead[0]]
            if actor in self._workers:
                return exceptions.WorkerCrashedError(
                    f"a process of this compiled graph that runs its tasks died: {dead[1]}"
                )
            return exceptions.ActorDiedError(
                f"The actor died unexpectedly before finishing this task.\n\tclass_name: {actor._cls_name}\n\tactor_id: {actor._actor_id.hex()}\n"
                f"{dead[1]}"
            )
        if broke is not None:
            return exceptions.RayChannelError(
                f"Channel closed. The loop of {self._actors[broke[0]]._cls_name} ended: {broke[2]}"
            )
        return exceptions.RayChannelError("Channel closed.")

    def _execute_for_caller(self, args, kwargs):
        """Returns the results of an execution for another process. Where execute() would raise
        because there is no room, it waits; while it waits it reads and holds results."""
        with self._submit_lock:
            while (
                self._execution_index - self._max_finished_execution_index
                >= self._max_inflight_executions
            ):
                self._ask(self._max_finished_execution_index + 1, WHOLE, self._get_timeout).result()
            index = self._submit_next(args, kwargs)
        result = CompiledDAGFuture if self._enable_asyncio else CompiledDAGRef
        return (
            [result(self, index, i) for i in range(len(self._place))]
            if self._returns_list
            else [result(self, index)]
        )

    # ---- Teardown.

    def teardown(self, kill_actors: bool = False) -> None:
        """Ends the graph: calls that wait for its results return, and its actors become ordinary
        actors again. Waits for running methods, at most DAGContext.teardown_timeout seconds.

        Args:
            kill_actors: Whether the actors of the graph are killed, too.
        """
        if self._is_teardown or self._graph is None:
            return
        self._is_teardown = True
        timeout = DAGContext.get_current().teardown_timeout
        self._graph.close()
        if not self._graph.join(timeout):
            logger.warning(
                "Compiled DAG: an actor is still running %ss after teardown(). %s",
                timeout,
                "Force-killing actors."
                if kill_actors
                else "Call teardown with kill_actors=True if force kill is desired.",
            )
        for actor in self._actors if kill_actors else self._workers:
            _skate.actor_kill(actor._token, True)
        if self._tending is not None:
            self._tending.join(timeout)
        self._graph = None  # the graph's memory is freed now, or with the last view of a message
        self._forget_results()


DAGNode._compiler = CompiledDAG  # nodes do not import the compiler


def build_compiled_dag_from_ray_dag(
    dag,
    submit_timeout=None,
    buffer_size_bytes=None,
    enable_asyncio=False,
    max_inflight_executions=None,
    max_buffered_results=None,
    overlap_gpu_communication=None,
    default_communicator="create",
):
    """node.experimental_compile() with its options by position."""
    return CompiledDAG(
        dag,
        submit_timeout,
        enable_asyncio,
        max_inflight_executions,
        max_buffered_results,
        overlap_gpu_communication,
    )
