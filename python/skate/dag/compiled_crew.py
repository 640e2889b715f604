"""The actors of a compiled graph: how each begins its part, and how it begins again in its next
process. What is done again then is C's (src/dag/replay.h, loop.c).

An actor goes on with a graph where its plain calls would be tried again: max_restarts says in how
many processes, max_task_retries how often an execution is run again. With the methods
__skate_checkpoint__(self), which gives its state, and __skate_restore__(self, state), the state
goes along; without them the next process has that of the constructor."""

import threading
import weakref

from skate import _skate
from skate._in_graph import begin


class Crew:
    """The actors of a graph, where it was compiled.

    Args:
        graph: The _skate.Graph.
        actors: Their handles.
        calls: What each computes, by its number.
    """

    def __init__(self, graph, actors, calls):
        self._graph, self._actors, self._calls = graph, actors, calls

    def begin(self, i):
        """Asks actor number `i` to begin; its next process where this one dies before it has.
        Returns the reference."""
        actor = self._actors[i]
        call = actor.__ray_call__.options(max_task_retries=-1)
        return call.remote(
            begin,
            (*self._graph.plan(i), self._calls[i]),
            actor._meta.max_restarts,
            actor._meta.max_task_retries,
        )

    def tend(self, dag):
        """A thread that asks the next process of each that dies, until the graph is closed, as it
        is when `dag` is garbage."""
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
            closer.detach()  # it holds the graph

    def _tend_lost(self):
        asked = {}
        while (lost := self._graph.lost(0.05 if asked else -1)) is not None:
            try:
                for i in lost:
                    asked[self.begin(i)] = i
            except Exception as e:  # of a shut down engine, or there are too many calls of it
                self._graph.fail(lost[0], f"its next process cannot be asked to go on: {e}")
                return
            done = _skate.wait(list(asked), len(asked), 0)[0] if asked else ()
            for ref in done:
                i = asked.pop(ref)
                try:
                    _skate.get(ref)
                except Exception as e:
                    self._graph.fail(i, f"its next process cannot go on: {e}")
