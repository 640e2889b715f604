"""Takes items from an iterator on a background thread, before the consumer asks for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from skate._deps import futures

# Seconds that close() waits for the thread. If the thread is in a function of the user, it ends
# after close(), when the function returns.
LEAVE_S = 5.0


class Ahead:
    """Runs the iterator that items() makes on a background thread, up to n items ahead of the
    consumer, and gives the items in order. An error is raised when the consumer reaches the item
    that failed.

    Args:
        items: Makes the iterator; the thread calls it, runs the iterator and closes it.
        n: The largest number of items that wait to be taken; 1 or more.
        interrupt: A function that ends a wait of the thread when this object is closed early.
        work: A function from an item to the value that is given out, run on `workers` more threads;
            the order of the items is kept.
    """

    def __init__(
        self,
        items: Callable[[], Iterator[Any]],
        n: int,
        interrupt: Callable[[], Any] = lambda: None,
        work: Callable[[Any], Any] | None = None,
        workers: int = 1,
    ):
        self._items, self._n, self._interrupt, self._work = items, n, interrupt, work
        self._workers = (
            futures.ThreadPoolExecutor(workers, "skate-ahead") if work is not None else None
        )
        self._ready: deque[tuple[Any, BaseException | None]] = deque()
        self._changed = threading.Condition()
        self._ended = self._closed = False
        self._thread = threading.Thread(target=self._run, name="skate-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            it = self._items()
            try:
                for item in it:
                    if self._workers is not None:
                        item = self._workers.submit(self._work, item)  # type: ignore[arg-type]
                    if not self._give(item):
                        break
                    del item
            finally:
                it.close()  # type: ignore[attr-defined]
        except BaseException as e:
            error = e
        with self._changed:
            if error is not None and not self._closed:
                self._ready.append((None, error))
            self._ended = True
            self._changed.notify_all()

    def _give(self, item: Any) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._ready) < self._n)
            if self._closed:
                return False
            self._ready.append((item, None))
            self._changed.notify_all()
            return True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended)
            if not self._ready:
                raise StopIteration
            item, error = self._ready.popleft()
            self._changed.notify_all()
        if error is not None:
            raise error
        return item.result() if self._workers is not None else item

    def close(self) -> None:
        """Stops the thread and closes the iterator; the consumer gets no more items."""
        with self._changed:
            early = not self._ended
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        if early:
            self._interrupt()
        if self._thread is not threading.current_thread():
            self._thread.join(LEAVE_S)
        if self._workers is not None:
            self._workers.shutdown(wait=True, cancel_futures=True)
