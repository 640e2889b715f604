"""ActorPool: a number of actors; each call goes to an actor that is idle."""

from __future__ import annotations

from collections import deque

import skate

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


class ActorPool:
    """ActorPool([a, b]).map(lambda actor, x: actor.work.remote(x), xs) gives the results of the
    calls. get_next() and map() give results in the order of submission; get_next_unordered() and
    map_unordered() in the order in which they become ready."""

    def __init__(self, actors: Iterable[Any]):
        self._skate = skate
        self._idle = list(actors)
        self._pending_submits: deque[tuple[Any, Any]] = (
            deque()
        )  # (fn, value) that wait for an idle actor
        # reference of a call (the first one, if the call has several) -> (index of the call, actor,
        # the reference or the list of references)
        self._running: dict[Any, tuple[int, Any, Any]] = {}
        self._ref_of: dict[int, Any] = {}  # index -> reference, for results that were not taken
        self._next_submit = self._next_return = 0

    def map(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """The results of fn(actor, value) for each value, in order. Results of an earlier map()
        that were not taken are dropped."""
        return self._map(fn, values, self.get_next)

    def map_unordered(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """The results of fn(actor, value) for each value, as they become ready."""
        return self._map(fn, values, self.get_next_unordered)

    def _map(
        self, fn: Callable[[Any, Any], Any], values: Iterable[Any], take: Callable[[], Any]
    ) -> Iterator[Any]:
        while self.has_next():
            try:
                self.get_next_unordered(timeout=0, ignore_if_timedout=True)
            except Exception:  # the call has failed, but its result will not be taken
                continue
        for v in values:
            self.submit(fn, v)

        def results():
            while self.has_next():
                yield take()

        return results()

    def submit(self, fn: Callable[[Any, Any], Any], value: Any) -> None:
        """Calls fn(actor, value) with an idle actor, or with the next one that becomes idle. fn
        returns a reference (a list of them for a method with several returns)."""
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        result = fn(actor, value)
        ref = result[0] if isinstance(result, list) else result
        self._running[ref] = (self._next_submit, actor, result)
        self._ref_of[self._next_submit] = ref
        self._next_submit += 1

    def has_next(self) -> bool:
        """Whether there are results that were not taken, ready or not."""
        return bool(self._running)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in the order of submission. StopIteration if there is none, TimeoutError
        after `timeout` seconds (the result can be taken later; with ignore_if_timedout it is
        dropped)."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        if self._next_return >= self._next_submit:
            raise ValueError(
                "get_next: get_next_unordered() took results out of their order; go on with get_next_unordered()"
            )
        ref = self._ref_of[self._next_return]
        timed_out = timeout is not None and not self._skate.wait([ref], timeout=timeout)[0]
        if timed_out and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        del self._ref_of[self._next_return]
        self._next_return += 1
        return self._take(ref, timed_out)

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """The next result that is ready; else like get_next()."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        ready, _ = self._skate.wait(list(self._running), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        ref = ready[0] if ready else next(iter(self._running))
        index = self._running[ref][0]
        del self._ref_of[index]
        self._next_return = max(self._next_return, index + 1)
        return self._take(ref, not ready)

    def _take(self, ref: Any, timed_out: bool) -> Any:
        _, actor, result = self._running.pop(ref)
        self._return_actor(actor)
        if timed_out:
            raise TimeoutError(
                "Timed out waiting for result. The task id: " + ref.task_id().hex() + " is ignored."
            )
        return self._skate.get(result)

    def _return_actor(self, actor: Any) -> None:
        self._idle.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())

    def has_free(self) -> bool:
        """Whether an actor is idle and no call waits for one."""
        return bool(self._idle) and not self._pending_submits

    def pop_idle(self) -> Any:
        """Takes an idle actor out of the pool; None if no actor is idle."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Puts an actor into the pool. ValueError if it is in the pool already."""
        if actor in self._idle or any(actor == a for _, a, _ in self._running.values()):
            raise ValueError(f"push: {actor!r} is in this pool already")
        self._return_actor(actor)
