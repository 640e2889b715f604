"""The actors of a compiled graph: starts the loop of each actor, and starts it again when the
actor's process has been replaced. C code replays the executions that were lost (src/dag/replay.h,
loop.c).

The rules for restarting an actor are those of plain calls: max_restarts limits its processes,
max_task_retries how often an execution is retried. Its state is restored if it has the methods
__skate_checkpoint__(self), which returns the state, and __skate_restore__(self, state); without
them the new process has the state that the constructor makes.
"""

import threading
import weakref

from skate import _skate
from skate.calls.in_graph import begin


class Crew:
    """The actors of a graph, in the process that compiled it.

    Args:
        graph: The _skate.Graph.
        calls: For each actor, by its number, the operations that it runs.
        calls: The operations of each, by its number.
    """

    def __init__(self, graph, actors, calls):
        self._graph, self._actors, self._calls = graph, actors, calls

    def begin(self, i):
        """Makes actor number `i` start its loop; if its process dies before that, the next process
        starts it. Returns a reference to the call."""
        actor = self._actors[i]
        call = actor.__ray_call__.options(max_task_retries=-1)
        return call.remote(
            begin,
            (*self._graph.plan(i), self._calls[i]),
            actor._meta.max_restarts,
            actor._meta.max_task_retries,
        )

    def tend(self, dag):
        """Starts a thread that, for each dead actor, makes the actor's next process start the loop.
        The thread ends when the graph is closed, which also happens when `dag` is garbage."""
        closer = weakref.finalize(dag, self._graph.close)
        closer.atexit = False
        thread = threading.Thread(
            target=self._tend, args=(closer,), daemon=True, name="skate-graph-crew"
        )
        thread.start()
        return thread

    def _tend(self, closer):
        try:
            self._tend_lost()
        finally:
            closer.detach()  # the finalizer holds a reference to the graph

    def _tend_lost(self):
        asked = {}
        while (lost := self._graph.lost(0.05 if asked else -1)) is not None:
            try:
                for i in lost:
                    asked[self.begin(i)] = i
            except Exception as e:  # the engine is shut down, or too many calls wait for the actor
                self._graph.fail(lost[0], f"its next process cannot be asked to go on: {e}")
                return
            done = _skate.wait(list(asked), len(asked), 0)[0] if asked else ()
            for ref in done:
                i = asked.pop(ref)
                try:
                    _skate.get(ref)
                except Exception as e:
                    self._graph.fail(i, f"its next process cannot go on: {e}")
