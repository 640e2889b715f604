"""The results of an execution of a compiled graph: CompiledDAGRef (for get()) and CompiledDAGFuture
(for await). Each result can be taken once."""

import collections
import sys
import time

from skate import _skate
from skate._deps import asyncio
from skate.dag.compiled_results import Failed


def _itself(ref):
    return ref


class Result:
    """The base of all results: they can be passed on as arguments."""

    _what = "CompiledDAGRef"

    def __init__(self, dag, execution_index, channel_index=None):
        self._dag, self._execution_index, self._channel_index = dag, execution_index, channel_index
        self._taken, self._object = False, None

    def __str__(self):
        return f"{self._what}({self._dag.get_id()}, execution_index={self._execution_index}, channel_index={self._channel_index})"

    def __copy__(self):
        raise ValueError(f"{self._what} cannot be copied.")

    def __deepcopy__(self, memo):
        raise ValueError(f"{self._what} cannot be deep copied.")

    def __reduce__(self):
        return _itself, (self._as_object(),)

    def _as_object(self):
        """The ObjectRef that stands for this result when it is passed on as an argument; its value
        may arrive later."""
        if self._object is None:
            if self._taken:
                raise ValueError(
                    f"{self} was taken already: pass on the value that get() gave, or pass it on before"
                )
            self._object, self._taken = (
                self._dag._promise(self._execution_index, self._channel_index),
                True,
            )
        return self._object

    def __del__(self):
        if not self._taken and not self._dag.is_teardown and not sys.is_finalizing():
            self._dag._delete_execution_results(self._execution_index, self._channel_index)


class CompiledDAGRef(Result):
    """A result of compiled.execute(), for one call of skate.get(ref).

    Args:
        dag: The CompiledDAG.
        execution_index: The number of the execution.
        channel_index: The number of the output; None: the only output.
    """

    def get(self, timeout=None):
        """The value.

        Args:
            timeout: Seconds; None: DAGContext.get_timeout; -1: waits without a limit.

        Raises:
            RayChannelTimeoutError: The value has not arrived in time. get() may be called again.
            RayChannelError: The graph was torn down.
            ActorDiedError: An actor of the graph died.
            ValueError: The value was taken already.
            Exception: The exception that the user's method raised.
        """
        if self._object is not None:
            return _skate.get(self._object, timeout)
        if self._taken:
            raise ValueError(
                "ray.get() can only be called once on a CompiledDAGRef, and it was already called."
            )
        dag, index = self._dag, self._execution_index
        if index == dag._max_finished_execution_index + 1 and self._channel_index is None:
            value = dag._read_next(index, timeout)  # most programs take results in order
            self._taken = True
        else:
            value, self._taken = dag._get(index, self._channel_index, timeout)
        if type(value) is Failed:
            raise value.error
        return value

    @staticmethod
    def get_all(refs, timeout=None):
        """The values of several results. If one of the outputs of an execution has failed, its
        exception is raised at once.

        Args:
            refs: A list or tuple of CompiledDAGRefs.
            timeout: Seconds for all of them together; None: DAGContext.get_timeout for each.
        """
        together = collections.defaultdict(list)
        for ref in refs:
            if not isinstance(ref, _skate.ObjectRef) and not hasattr(type(ref), "__skate_get__"):
                raise ValueError(
                    "Invalid type of object refs. 'object_refs' must be a list of CompiledDAGRefs if there is any CompiledDAGRef within it."
                )
            if (
                isinstance(ref, CompiledDAGRef)
                and ref._channel_index is not None
                and not ref._taken
            ):
                together[id(ref._dag), ref._execution_index].append(ref._channel_index)
        until = None if timeout is None or timeout < 0 else time.monotonic() + timeout
        values = []
        for ref in refs:
            left = timeout if until is None else max(until - time.monotonic(), 0)
            if isinstance(ref, _skate.ObjectRef):
                values.append(_skate.get(ref, left))
                continue
            others = together.get((id(ref._dag), ref._execution_index), ())
            if len(others) < 2 or ref._taken:
                values.append(ref.get(left))
                continue
            value, ref._taken = ref._dag._get(
                ref._execution_index, ref._channel_index, left, others
            )
            if type(value) is Failed:
                raise value.error
            values.append(value)
        return values

    __skate_get__, __skate_get_all__ = get, get_all  # the protocol of skate.get()


class CompiledDAGFuture(Result):
    """A result of compiled.execute_async(), for one await.

    Args:
        dag: The CompiledDAG.
        execution_index: The number of the execution.
        channel_index: The number of the output; None: the only output.
    """

    _what = "CompiledDAGFuture"

    def __await__(self):
        if self._object is not None:
            return (yield from self._object.__await__())
        if self._taken:
            raise ValueError(
                "CompiledDAGFuture can only be awaited upon once, and it has already been awaited upon."
            )
        dag = self._dag
        if not dag._try_until(self._execution_index, self._channel_index):
            yield from asyncio.wrap_future(
                dag._ask(self._execution_index, self._channel_index, dag._get_timeout)
            ).__await__()
        self._taken = True
        value = dag._take(self._execution_index, self._channel_index)
        if type(value) is Failed:
            raise value.error
        return value


_skate.Graph.results(Result)
