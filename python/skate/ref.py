"""Futures of ObjectRefs (ref.future(), await ref): threads that wait and then resolve.

A thread takes every ref that came in before it started and lives until those are done; refs that come later get the next thread. So
no ref ever waits for another one, and a gather over a thousand refs starts a few threads, not a thousand."""

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
