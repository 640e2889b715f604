"""Futures of ObjectRefs (ref.future(), await ref), and the methods of ObjectRef and
ObjectRefGenerator that src/py/value/ref.c does not have.

No thread waits for a single reference: a Watcher (src/py/call/watch.c) has one file descriptor for
any number of references. Each event loop polls its own Watcher; for concurrent.futures one thread
sleeps on a Watcher.
"""

import os
import threading
import weakref
from collections import deque

from skate import _forked, _skate
from skate._deps import asyncio, futures
from skate.exceptions import GetTimeoutError
from skate.ids import JOB, TaskID
from skate.terminal import notebook


def _settle(future, good, value):
    if future.done():  # the future was cancelled in the meantime
        return
    if good:
        future.set_result(value)
        return
    # A StopIteration from an await would be taken for the end of the coroutine.
    if isinstance(value, StopIteration):
        e = RuntimeError(f"the awaited task raised {type(value).__name__}: {value}")
        e.__cause__ = value
        value = e
    future.set_exception(value)


def _settle_all(pairs):
    """Settles futures. pairs: (reference or generator, future) of all references that are ready."""
    refs = [p for p in pairs if type(p[0]) is _skate.ObjectRef]
    for what, future in pairs:
        if type(what) is not _skate.ObjectRef:
            _settle(future, True, None)
    if not refs:
        return
    try:
        results = _skate.get_each([ref for ref, _ in refs])
    except BaseException as e:  # the engine was shut down
        results = [(False, e)] * len(refs)
    for (_, future), (good, value) in zip(refs, results):
        _settle(future, good, value)


class _OfLoop:
    """The Watcher of an event loop."""

    def __init__(self, loop):
        self.watcher = _skate.Watcher()
        loop.add_reader(self.watcher.fd, self._ready)

    def _ready(self):
        _settle_all(self.watcher.take())


_loops = weakref.WeakKeyDictionary()  # event loop -> _OfLoop


def _in_loop(loop, what):
    """An asyncio.Future of that loop for the value of a reference; None for a generator that is
    ready."""
    mine = _loops.get(loop)
    if mine is None:
        mine = _loops[loop] = _OfLoop(loop)
    future = loop.create_future()
    if mine.watcher.add(what, future):
        _settle_all([(what, future)])
    return future


_lock = _forked.lock()
_futures = None  # the Watcher for all concurrent.futures


def _run(watcher):
    while True:
        watcher.wait(None)
        _settle_all(watcher.take())


def future_of(ref):
    """A concurrent.futures.Future of the value of ref."""
    global _futures
    f = futures.Future()
    f.set_running_or_notify_cancel()
    with _lock:
        if _futures is None:
            _futures = _skate.Watcher()
            threading.Thread(
                target=_run, args=(_futures,), name="skate-futures", daemon=True
            ).start()
    if _futures.add(ref, f):
        _settle_all([(ref, f)])
    return f


def _after_fork():
    global _futures
    _futures = None  # its thread exists only in the parent process


os.register_at_fork(after_in_child=_after_fork)


def await_ref(ref):
    return _in_loop(asyncio.get_running_loop(), ref).__await__()


# ---- ObjectRef


def _as_future(ref, _internal=False):
    """An asyncio.Future of the value, in the running loop (or in the thread's loop if none is
    running)."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.get_event_loop()
    return _in_loop(loop, ref)


def _on_completed(ref, callback):
    """Calls callback(value or exception) on a thread of skate's when the value exists."""

    def done(f):
        e = f.exception()
        callback(f.result() if e is None else e)

    future_of(ref).add_done_callback(done)


def _task_id(ref):
    """TaskID of the task that makes the object; nil if no task makes it, or if the task has ended
    and the ref is from another process."""
    n = ref._task_number() or _maker(ref)
    return TaskID._of(n) if n else TaskID.nil()


def _maker(ref):
    """The number of the task that makes the object of a reference from another process; 0 if
    unknown. The engine's list of unfinished tasks has it."""
    if not _skate.is_initialized():
        return 0
    number = ref._number()
    return next((o[4] for o in _skate.state("objects", [])[0] if o[0] == number), 0)


def _job_id(ref):
    """JobID of the job."""
    return JOB


def _ref_as_html(ref):
    """HTML for notebooks: whether the value exists. Waits for nothing."""
    label, state = f"ObjectRef({ref.hex()[-16:]})", "of no object of this session"
    if _skate.is_initialized() and ref._number():
        ready = _skate.wait([ref], 1, 0.0)[0]
        state = "its value exists" if ready else "its value does not exist yet"
    return notebook.labelled(label, state)


def _extend_ref(cls):
    def size():
        """The number of bytes of a reference: 28."""
        return 28

    def nil():
        """The reference that names no object."""
        return cls(b"\xff" * 28)

    def from_random():
        """A reference of random bytes, which names no object."""
        return cls(os.urandom(28))

    cls.as_future = _as_future
    cls._on_completed = _on_completed
    cls.task_id = _task_id
    cls.job_id = _job_id
    cls._repr_html_ = _ref_as_html
    cls.size = staticmethod(size)
    cls.nil = staticmethod(nil)
    cls.from_random = staticmethod(from_random)


_extend_ref(_skate.ObjectRef)


# ---- Methods of ObjectRefGenerator.


def _next_sync(gen, timeout_s=None):
    """The next ref; a nil ref if there is none within timeout_s seconds; StopIteration at the
    end."""
    if timeout_s is None or timeout_s < 0:
        return next(gen)
    try:
        return gen.next_within(timeout_s)
    except GetTimeoutError:
        return _skate.ObjectRef.nil()


async def _anext(gen):
    if not gen.peek(0):
        await _in_loop(asyncio.get_running_loop(), gen)
    try:
        return next(gen)
    except StopIteration:
        raise StopAsyncIteration from None


def _next_ready(gen):
    """Whether next() would give a ref at once."""
    return gen.peek(0) == 1


def _extend_generator(cls):
    cls._next_sync = _next_sync
    cls.next_ready = _next_ready
    cls.__aiter__ = lambda gen: gen
    cls.__anext__ = _anext


_extend_generator(_skate.ObjectRefGenerator)


class DynamicObjectRefGenerator:
    """The value of a task with num_returns="dynamic": an iterator over its references.

    Args:
        refs: The references.
    """

    def __init__(self, refs):
        self._refs = deque(refs)

    def __iter__(self):
        while self._refs:
            yield self._refs.popleft()

    def __len__(self):
        return len(self._refs)

    def __repr__(self):
        return f"DynamicObjectRefGenerator(num_objects={len(self._refs)})"


ObjectID = _skate.ObjectRef  # Ray's older name
