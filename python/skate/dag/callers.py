"""Executes a compiled graph from processes other than its owner, the process that compiled it. A
caller sends its arguments to the owner, which executes them in the order of arrival; the results
are objects, which the caller gets references to.

If the owner is an actor, it is called like any actor. The driver cannot be called: a service actor
(_service_actors.py) holds calls until a thread of the driver takes them.
"""

import asyncio
import collections
import itertools
import time
import weakref

from skate import _job, _service_actors, _skate, exceptions
from skate.dag.compiled_dag_ref import Result

NAME, SPACE = "graphs", _job.SERVED + __name__
living = weakref.WeakValueDictionary()  # the compiled graphs of this process, by their names


class GraphService:
    """The service actor: passes calls on to the driver, and the driver's answers back to the
    callers."""

    def __init__(self):
        self._calls, self._some, self._answers, self._number = (
            collections.deque(),
            asyncio.Event(),
            {},
            itertools.count(),
        )

    async def call(self, graph, given):
        """Called by a caller: passes a call on, and returns the references of its results. given:
        [a reference to (args, kwargs)]."""
        number = next(self._number)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._calls.append((number, graph, given))
        self._some.set()
        return await self._answers[number]

    async def work(self):
        """Called by the driver: waits for calls, and returns those that have arrived."""
        await self._some.wait()
        self._some.clear()
        calls = list(self._calls)
        self._calls.clear()
        return calls

    async def answer(self, number, results, error):
        """Called by the driver: answers a call with references of its results, or with an error."""
        answer = self._answers.pop(number)
        if error is None:
            answer.set_result(results)
        else:
            answer.set_exception(error)


def serve():
    """In the driver, on the engine's thread: starts to serve the service actor that a worker has
    made."""
    _service_actors.work(NAME, SPACE, _answer, "skate-graph-calls")


def _answer(service, asked):
    number, graph, given = asked
    try:
        service.answer.remote(number, call(None, graph, given), None)
    except Exception as e:
        service.answer.remote(number, None, e)


def call(_, graph, given):
    """In the owner: executes a graph. Returns references of the results."""
    compiled = living.get(graph)
    if compiled is None:
        raise exceptions.RayChannelError(
            f"the compiled graph {graph} is gone: its owner tore it down, or let go of it"
        )
    args, kwargs = _skate.get(given[0])
    results = compiled._execute_for_caller(args, kwargs)
    return [r._as_object() for r in results]


def here(graph, owner, outputs):
    """The value that a pickled CompiledDAG is unpickled to: the graph itself in the process that
    compiled it, a Caller in other processes."""
    return living.get(graph) or Caller(graph, owner, outputs)


class Caller:
    """A handle of a compiled graph that belongs to another process.

    Args:
        graph: The name of the graph.
        owner: The handle of the actor that compiled it; None: the driver did.
        outputs: The number of the graph's outputs; None: one output, whose result is not in a list.
    """

    def __init__(self, graph, owner, outputs):
        self._id, self._owner, self._outputs, self._service = graph, owner, outputs, None

    def __reduce__(self):
        return here, (self._id, self._owner, self._outputs)

    def __str__(self):
        return f"CompiledDAG({self._id})"

    def get_id(self):
        """The name of the graph."""
        return self._id

    def execute(self, *args, **kwargs):
        """Begins an execution; the owner runs executions in the order in which they arrive.

        Args:
            args: The values that the InputNode stands for; several: input[0], input[1].
            kwargs: input.name.

        Returns:
            A reference for skate.get(), which can be awaited, too; for a graph that ends with
            MultiOutputNode a list of them. Errors of CompiledDAG.execute() are raised when a
            reference is read.
        """
        given = [_skate.put((args, kwargs))]
        if self._owner is not None:
            called = self._owner.__ray_call__.remote(call, self._id, given)
        else:
            called = self._service_actor().call.remote(self._id, given)
        if self._outputs is None:
            return CalledRef(self, called, 0)
        return [CalledRef(self, called, i) for i in range(self._outputs)]

    async def execute_async(self, *args, **kwargs):
        """The same as execute()."""
        return self.execute(*args, **kwargs)

    def _service_actor(self):
        if self._service is None:
            self._service = _service_actors.get_or_create(GraphService, NAME, SPACE)
        return self._service

    def teardown(self, kill_actors=False):
        """Raises ValueError: only the owner may tear the graph down."""
        raise ValueError("teardown() of a compiled graph is for the process that compiled it")


class CalledRef(Result):
    """A result of Caller.execute().

    Args:
        dag: The Caller.
        called: The ObjectRef of the list of results.
        index: The index of this result in that list.
    """

    _what = "CalledRef"

    def __init__(self, dag, called, index):
        super().__init__(dag, None, index)
        self._called, self._taken = called, True

    def _as_object(self):
        if self._object is None:
            self._object = _skate.get(self._called)[self._channel_index]
        return self._object

    def get(self, timeout=None):
        """The value.

        Args:
            timeout: Seconds; None: waits without a limit.
        """
        until = None if timeout is None else time.monotonic() + timeout
        if self._object is None:
            self._object = _skate.get(self._called, timeout)[self._channel_index]
        return _skate.get(self._object, None if until is None else max(until - time.monotonic(), 0))

    @staticmethod
    def get_all(refs, timeout=None):
        """The values of several results, given as a list of CalledRefs and ObjectRefs."""
        objects = [ref._as_object() if isinstance(ref, Result) else ref for ref in refs]
        return _skate.get(objects, timeout)

    __skate_get__, __skate_get_all__ = get, get_all

    def __await__(self):
        if self._object is None:
            self._object = (yield from self._called.__await__())[self._channel_index]
        return (yield from self._object.__await__())
