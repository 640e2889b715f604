"""Pool: the interface of multiprocessing.Pool, with actors as its processes. Calls are sent to them
in chunks; exceptions of calls are passed on unchanged."""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import skate
from skate import _forked

TimeoutError = multiprocessing.TimeoutError
T = TypeVar("T")
R = TypeVar("R")


class _Process:
    """The actor that is a process of the pool."""

    def __init__(self, initializer, initargs):
        if initializer is not None:
            initializer(*initargs)

    def started(self):
        """Does nothing; if the call returns, the initializer has run."""

    def run(self, fn, chunk, star):
        """Runs the calls of one chunk; returns [(True, value) or (False, exception)]."""
        out = []
        for args, kwargs in chunk:
            try:
                out.append((True, fn(*args, **kwargs) if star else fn(args)))
            except Exception as e:
                out.append((False, e))
        return out


def _values(results):
    for ok, value in results:
        if not ok:
            raise value
    return [value for _, value in results]


class AsyncResult(Generic[R]):
    """The result of an `..._async()` method, whose calls are still running."""

    def __init__(
        self,
        refs: list[Any],
        callback: Callable[[R], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
        single: bool = False,
    ):
        self._refs, self._single = refs, single
        self._callback, self._error_callback = callback, error_callback
        self._done = None  # the results of all calls
        self._called = threading.Event()
        if callback is None and error_callback is None:
            self._called.set()
        else:
            threading.Thread(target=self._call_back, name="skate-pool", daemon=True).start()

    def _call_back(self):
        try:
            value = self._get(None)
        except BaseException as e:
            if self._error_callback is not None:
                self._error_callback(e)
        else:
            if self._callback is not None:
                self._callback(value)
        finally:
            self._called.set()

    def _results(self, timeout):
        if self._done is None:
            try:
                chunks = skate.get(self._refs, timeout=timeout)
            except skate.exceptions.GetTimeoutError:
                raise TimeoutError from None
            self._done = list(itertools.chain.from_iterable(chunks))
            self._refs = None
        return self._done

    def _get(self, timeout: float | None) -> Any:
        values = _values(self._results(timeout))
        return values[0] if self._single else values

    def wait(self, timeout: float | None = None) -> None:
        """Waits until all calls have ended, at most `timeout` seconds."""
        refs = self._refs
        if refs:
            skate.wait(refs, num_returns=len(refs), timeout=timeout)

    def get(self, timeout: float | None = None) -> R:
        """The result. Raises the exception of the first call that failed; TimeoutError after
        `timeout` seconds."""
        value = self._get(timeout)
        self._called.wait(timeout)
        return value

    def ready(self) -> bool:
        """Whether all calls have ended."""
        refs = self._refs
        return not refs or len(skate.wait(refs, num_returns=len(refs), timeout=0)[0]) == len(refs)

    def successful(self) -> bool:
        """Whether no call raised an exception. ValueError while some are running."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        try:
            return all(ok for ok, _ in self._results(None))
        except skate.exceptions.RayError:  # a process has died or was killed
            return False


class _Map(Iterator[R]):
    """The result of imap() and imap_unordered(): an iterator with next(timeout=). A chunk is
    submitted when results are taken."""

    def __init__(
        self,
        pool: Pool,
        fn: Callable[[T], R],
        iterable: Iterable[T],
        chunksize: int | None,
        ordered: bool,
    ):
        self._pool, self._fn, self._ordered = pool, fn, ordered
        self._items = iter(iterable)
        self._size = chunksize or 1
        self._refs, self._results = deque(), deque()
        self._more = True
        for _ in range(2 * pool._n):
            self._submit()

    def _submit(self):
        chunk = [(x, None) for x in itertools.islice(self._items, self._size)] if self._more else []
        if len(chunk) < self._size:
            self._more = False
        if chunk:
            self._refs.append(self._pool._run(self._fn, chunk, False))

    def __next__(self) -> R:
        return self.next()

    def next(self, timeout: float | None = None) -> R:
        """The next result; TimeoutError if it is not ready within `timeout` seconds."""
        if not self._results:
            if not self._refs:
                raise StopIteration
            ready, _ = skate.wait(
                [self._refs[0]] if self._ordered else list(self._refs),
                num_returns=1,
                timeout=timeout,
            )
            if not ready:
                raise TimeoutError
            self._refs.remove(ready[0])
            self._submit()
            self._results.extend(skate.get(ready[0]))
        ok, value = self._results.popleft()
        if not ok:
            raise value
        return value


class Pool:
    """A pool with the methods of multiprocessing.Pool, whose processes are actors.

    Args:
        processes: The number of actors; None: the number of CPUs.
        initializer: A function that runs first in each process.
        initargs: Its arguments.
        maxtasksperchild: The number of chunks after which a process is replaced; None: never.
        context: Not supported: NotImplementedError if it is given.
        ray_address: The address for skate.init(), if no engine runs.
        ray_remote_args: Options of the actors.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ):
        if context is not None:
            raise NotImplementedError("Pool(context=...): processes are skate's")
        if not skate.is_initialized():
            skate.init(ray_address, num_cpus=processes or None)
        cpus = int(skate.cluster_resources().get("CPU", 0))
        if processes is None:
            processes = max(cpus, 1)
        if processes <= 0:
            raise ValueError(f"Pool: processes={processes}: 1 or more")
        if processes > cpus and "num_cpus" not in (ray_remote_args or {}):
            raise ValueError(
                f"Pool: {processes} processes, but the engine that runs has {cpus} CPUs: give fewer processes, or "
                "ray_remote_args={'num_cpus': a fraction}"
            )
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._n = processes
        self._init = initializer, tuple(initargs or ())
        self._max = maxtasksperchild
        if maxtasksperchild is not None and (
            not isinstance(maxtasksperchild, int) or maxtasksperchild < 1
        ):
            raise ValueError("maxtasksperchild must be a positive int or None")
        options: dict = {"num_cpus": 1, **(ray_remote_args or {})}
        self._actor = skate.remote(**options)(_Process)
        self._lock = _forked.lock()
        self._processes = [self._start() for _ in range(processes)]
        if initializer is not None:
            # waits until all processes have run the initializer, so that its errors are raised here
            skate.get([p[0].started.remote() for p in self._processes])
        self._turn = 0
        self._closed = False
        self._all = []  # references of all calls that may still be running

    def _start(self):
        # [handle, number of chunks sent to the actor, references of these calls]
        return [self._actor.remote(*self._init), 0, []]

    def _run(self, fn, chunk, star):
        if self._closed:
            raise ValueError("Pool not running")
        with self._lock:
            i = self._turn = (self._turn + 1) % self._n
            p = self._processes[i]
            if self._max is not None and p[1] >= self._max:
                skate.wait(p[2], num_returns=len(p[2]))
                # replacing p drops the last handle of the old actor, which ends that actor
                p = self._processes[i] = self._start()
            p[1] += 1
            ref = p[0].run.remote(fn, chunk, star)
            if self._max is not None:
                p[2].append(ref)
            self._all = (
                [r for r in self._all if not skate.wait([r], timeout=0)[0]]
                if len(self._all) > 1000
                else self._all
            )
            self._all.append(ref)
            return ref

    def _chunks(self, fn, iterable, chunksize, star):
        items = [(x, {}) if star else (x, None) for x in iterable]
        if chunksize is None:
            chunksize, extra = divmod(len(items), self._n * 4)
            chunksize += bool(extra)
        if chunksize is not None and chunksize < 1 and items:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        n = chunksize or 1
        return [self._run(fn, items[i : i + n], star) for i in range(0, len(items), n)]

    def apply(
        self,
        func: Callable[..., R],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> R:
        """Runs `func(*args, **kwargs)` in a process; returns its result."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Callable[..., R],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callback: Callable[[R], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult[R]:
        """apply() that returns an AsyncResult at once."""
        ref = self._run(func, [(tuple(args or ()), dict(kwargs or {}))], True)
        return AsyncResult([ref], callback, error_callback, single=True)

    def map(
        self, func: Callable[[T], R], iterable: Iterable[T], chunksize: int | None = None
    ) -> list[R]:
        """[func(x) for x in iterable], in the processes."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(
        self,
        func: Callable[[T], R],
        iterable: Iterable[T],
        chunksize: int | None = None,
        callback: Callable[[list[R]], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult[list[R]]:
        """map() that returns an AsyncResult at once."""
        return AsyncResult(self._chunks(func, iterable, chunksize, False), callback, error_callback)

    def starmap(
        self,
        func: Callable[..., R],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[R]:
        """Returns `[func(*x) for x in iterable]`, computed in the processes."""
        return self.starmap_async(func, iterable, chunksize=chunksize).get()

    def starmap_async(
        self,
        func: Callable[..., R],
        iterable: Iterable[Iterable[Any]],
        callback: Callable[[list[R]], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
        chunksize: int | None = None,
    ) -> AsyncResult[list[R]]:
        """starmap() that returns an AsyncResult at once."""
        return AsyncResult(self._chunks(func, iterable, chunksize, True), callback, error_callback)

    def imap(
        self, func: Callable[[T], R], iterable: Iterable[T], chunksize: int | None = 1
    ) -> _Map[R]:
        """An iterator of func(x) for x in iterable, in order; it reads items only as results are
        taken."""
        return _Map(self, func, iterable, chunksize, True)

    def imap_unordered(
        self, func: Callable[[T], R], iterable: Iterable[T], chunksize: int | None = 1
    ) -> _Map[R]:
        """imap() that gives results in the order in which they become ready."""
        return _Map(self, func, iterable, chunksize, False)

    def __enter__(self) -> Pool:
        if self._closed:
            raise ValueError("Pool not running")
        return self

    def __exit__(self, *exc: object) -> None:
        self.terminate()

    def close(self) -> None:
        """Accepts no more calls; calls submitted before are finished."""
        self._closed = True

    def terminate(self) -> None:
        """Ends the processes at once."""
        self._closed = True
        for p in self._processes:
            if p[0] is not None:
                skate.kill(p[0])

    def join(self) -> None:
        """Waits until the processes have ended, after close() or terminate()."""
        if not self._closed:
            raise ValueError("Pool is still running")
        if self._all:
            skate.wait(self._all, num_returns=len(self._all))
        for p in self._processes:
            p[0] = None  # the last handle: the actor ends
