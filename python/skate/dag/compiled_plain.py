"""A compiled graph without channels, as its actors need not share memory: those of an engine without
channels, and of several nodes. Plain calls give the same results."""

from skate import _skate, exceptions
from skate.dag import task_workers


class Plain:
    """Takes the place of _skate.Graph in a CompiledDAG.

    Args:
        numbers: The graph in numbers.
        outputs: The numbers of the nodes whose values are read, each once.
    """

    dead = broke = None

    def __init__(self, numbers, outputs):
        self._numbers, self._outputs, self._under_way = numbers, outputs, []
        self._read = 0  # the number of executions read

    def write(self, values, seconds):
        """Begins an execution."""
        n, at = self._numbers, {}
        for (i, _), value in zip(n.inputs, values, strict=True):
            at[i] = _skate.put(value)
        rows = [(row, actor) for actor, calls in n.calls.items() for row in calls]
        for row, actor in sorted(rows, key=lambda r: r[0][0]):
            node, target, _, args, consts, names, returns, part_of, part = row
            if target is None:
                at[node] = at[part_of][part]
                continue
            n_kw = len(names or ())
            given = [at[a] if a >= 0 else consts[-1 - a] for a in args]
            kwargs = dict(zip(names or (), consts[len(consts) - n_kw :], strict=True))
            handle = n.actors[actor]
            if isinstance(target, tuple):
                at[node] = handle.__ray_call__.remote(task_workers.call, *target, *given, **kwargs)
            elif isinstance(target, str):
                at[node] = (
                    getattr(handle, target).options(num_returns=returns).remote(*given, **kwargs)
                )
            else:
                at[node] = handle.__ray_call__.remote(target, *given, **kwargs)
        self._under_way.append([at[o] for o in self._outputs])

    def _next(self, seconds):
        """The first output of the next execution that is ready; None: none became ready in
        `seconds`."""
        missing = [i for i, ref in enumerate(self._under_way[0]) if ref is not None]
        # The inline engine runs a task only when the program gets the task's result.
        if _skate.engine() == "inline":
            return missing[0]
        refs = [self._under_way[0][i] for i in missing]
        ready = _skate.wait(refs, 1, seconds if seconds >= 0 else None)[0]
        return missing[refs.index(ready[0])] if ready else None

    def under_way(self, execution, output):
        """The reference of a result that was not read yet; None if it was read."""
        at = execution - self._read
        return self._under_way[at][output] if at >= 0 else None

    def ready(self):
        """Whether read() need not wait."""
        return bool(self._under_way) and self._next(0) is not None

    def read(self, seconds, output):
        """Returns (output, its value or exception, whether it failed) for that output of the
        current execution that is ready first."""
        i = self._next(seconds)
        if i is None:
            raise exceptions.RayChannelTimeoutError(f"no result within {seconds} s")
        refs, failed = self._under_way[0], False
        try:
            value = _skate.get(refs[i])
        except Exception as e:
            value, failed = e, True
        refs[i] = None
        if not any(ref is not None for ref in refs):
            self._under_way.pop(0)
            self._read += 1
        return i, value, failed

    def close(self):
        """Does nothing: there are no channels to close."""

    def join(self, seconds):
        """Returns whether the actors' loops have ended: true, since there are none."""
        return True
