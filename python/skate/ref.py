"""Futures of ObjectRefs (ref.future(), await ref): threads that wait and then resolve; and what ObjectRef and ObjectRefGenerator have besides
what src/py/py_ref.c gives them.

A thread takes every ref that came in before it started and lives until those are done; refs that come later get the next thread. So
no ref ever waits for another one, and a gather over a thousand refs starts a few threads, not a thousand."""

import os
import threading

from skate import _skate

_lock = threading.Lock()
_next = None  # the batch that a thread is about to take


def _resolve(ref, futures):
    try:
        value = _skate.get(ref)
    except BaseException as e:
        for f in futures:
            f.set_exception(e)
    else:
        for f in futures:
            f.set_result(value)


def _run():
    global _next
    with _lock:
        batch, _next = _next, None
    while batch:
        try:
            _skate.wait(list(batch), 1, None)
            ready, _ = _skate.wait(list(batch), len(batch), 0)
        except BaseException as e:  # shut down
            for futures in batch.values():
                for f in futures:
                    f.set_exception(e)
            return
        for ref in ready:
            _resolve(ref, batch.pop(ref))


def future_of(ref):
    """A concurrent.futures.Future of the value of ref."""
    from concurrent.futures import Future

    global _next
    f = Future()
    f.set_running_or_notify_cancel()
    with _lock:
        first = _next is None
        if first:
            _next = {}
        _next.setdefault(ref, []).append(f)
    if first:
        threading.Thread(target=_run, name="skate-future", daemon=True).start()
    return f


def await_ref(ref):
    import asyncio

    return asyncio.wrap_future(future_of(ref)).__await__()


# ---- ObjectRef


def _as_future(ref, _internal=False):
    """An asyncio.Future of the value, of the running loop (or of the thread's, when none runs)."""
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.get_event_loop()
    return asyncio.wrap_future(future_of(ref), loop=loop)


def _on_completed(ref, callback):
    """callback(value, or the exception) once it is there, on a thread of skate's."""

    def done(f):
        e = f.exception()
        callback(f.result() if e is None else e)

    future_of(ref).add_done_callback(done)


def _task_id(ref):
    """TaskID of the task that makes the object; nil when that is not known here."""
    from skate.ids import TaskID

    n = ref._task_number()
    return TaskID._of(n) if n else TaskID.nil()


def _job_id(ref):
    from skate.ids import JOB

    return JOB


def _extend_ref(cls):
    cls.as_future = _as_future
    cls._on_completed = _on_completed
    cls.task_id = _task_id
    cls.job_id = _job_id
    cls.size = staticmethod(lambda: 28)
    cls.nil = staticmethod(lambda: cls(b"\xff" * 28))
    cls.from_random = staticmethod(lambda: cls(os.urandom(28)))


_extend_ref(_skate.ObjectRef)


# ---- ObjectRefGenerator


def _next_sync(gen, timeout_s=None):
    """The next ref; a nil ref when there is none within timeout_s seconds; StopIteration at the end."""
    from skate.exceptions import GetTimeoutError

    if timeout_s is None or timeout_s < 0:
        return next(gen)
    try:
        return gen.next_within(timeout_s)
    except GetTimeoutError:
        return _skate.ObjectRef.nil()


async def _anext(gen):
    import asyncio

    loop = asyncio.get_running_loop()
    while not gen.peek(0):
        await loop.run_in_executor(_threads(), gen.peek, 1.0)  # a slice: an await that is cancelled leaves no thread behind for long
    try:
        return next(gen)
    except StopIteration:
        raise StopAsyncIteration from None


_pool = None


def _threads():
    """Threads for awaiting generators: many may wait at once, and the loop's own executor is the user's."""
    global _pool
    with _lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor

            _pool = ThreadPoolExecutor(256, "skate-generator")
    return _pool


def _next_ready(gen):
    """Whether next() would give a ref at once."""
    return not gen.is_finished() and gen.peek(0) and not gen.is_finished()


def _extend_generator(cls):
    cls._next_sync = _next_sync
    cls.next_ready = _next_ready
    cls.__aiter__ = lambda gen: gen
    cls.__anext__ = _anext


_extend_generator(_skate.ObjectRefGenerator)


class DynamicObjectRefGenerator:
    """Value of a task with num_returns="dynamic": its references, each given once."""

    def __init__(self, refs):
        from collections import deque

        self._refs = deque(refs)

    def __iter__(self):
        while self._refs:
            yield self._refs.popleft()

    def __len__(self):
        return len(self._refs)

    def __repr__(self):
        return f"DynamicObjectRefGenerator(num_objects={len(self._refs)})"
