"""A compiled graph on an engine without channels: the same results, by plain calls."""

import time

from skate import _skate, exceptions


class Plain:
    """What _skate.Graph is to CompiledDAG.

    Args:
        numbers: The graph in numbers.
        outputs: Which nodes are read, each once.
    """

    dead = broke = None

    def __init__(self, numbers, outputs):
        self._numbers, self._outputs, self._under_way = numbers, outputs, []

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
            if isinstance(target, str):
                at[node] = getattr(handle, target).options(num_returns=returns).remote(*given, **kwargs)
            else:
                at[node] = handle.__ray_call__.remote(target, *given, **kwargs)
        self._under_way.append([at[o] for o in self._outputs])

    def ready(self):
        """The next execution has all its results."""
        if not self._under_way or _skate.engine() == "inline":  # there whoever asks runs it
            return bool(self._under_way)
        return not _skate.wait(self._under_way[0], len(self._under_way[0]), 0)[1]

    def read(self, seconds):
        """([value or exception of each output], [whether it failed]) of the next execution."""
        until, values, failed = time.monotonic() + seconds, [], []
        forever = seconds < 0 or _skate.engine() == "inline"
        for ref in self._under_way[0]:
            try:
                values.append(_skate.get(ref, None if forever else max(until - time.monotonic(), 0)))
                failed.append(False)
            except exceptions.GetTimeoutError as e:
                raise exceptions.RayChannelTimeoutError(str(e)) from None
            except Exception as e:
                values.append(e)
                failed.append(True)
        self._under_way.pop(0)
        return values, failed

    def close(self):
        """Nothing is to be closed."""

    def join(self, seconds):
        """Whether no loop runs in it any more: there is none."""
        return True
