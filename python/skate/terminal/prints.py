"""Shows in the driver what tasks print: whole lines, with "(name pid=N)" in front, written to the
present sys.stdout and sys.stderr of the driver (capsys, redirect_stdout, the cell of a notebook).

A thread of the driver reads the lines from the pipes of the workers (engine/local/wire/prints.c), or
gets them from the nodes of a cluster, which do so. A
call that waits for tasks (get, wait, the next block of a Dataset) also reads them before it
returns, so the prints of a task's Python code are shown before the caller has the task's value.
Output of C code and of child programs may be shown a little later. If a worker's pipe is full (64
KiB), its print waits until the driver has read, as in any program that writes to a pipe. Nothing is
shown on a terminal while a debugger has it. Text that a stream of the driver cannot take (the
stream is closed, or its pipe has no reader) is dropped.
"""

import _thread
import functools
import io
import os
import sys

from skate import _skate

# Lines are collected for these milliseconds, so that the thread takes little of the driver's time.
PAUSE_MS = 10
# Seconds to wait for another thread that is showing lines; it may be blocked in a write.
WAIT_S = 1.0

_lock = _thread.RLock()
_labels = True
_showing = False
_over = None  # a lock that the thread that shows prints holds while it runs

# ---- The driver's side: showing prints.


def start(labels, to=None):
    """Starts showing prints. Is called when the engine is open.

    Args:
        labels: Whether lines have "(name pid=N) " in front.
        to: Called when there are some, in the place of show().
    """
    global _labels, _over
    _labels = labels
    _skate.set_hooks(prints=to or show)
    _over = _thread.allocate_lock()
    _over.acquire()
    _thread.start_new_thread(_work, (_over, to or show))


def _work(over, to):
    try:
        pause = 0
        while _skate.prints_wait(pause):
            to()
            pause = PAUSE_MS
    finally:
        over.release()


def stop():
    """Shows the remaining prints. Is called when the engine is closed."""
    global _over
    if _over is not None:
        # prints_end() fails if the program has closed the descriptors of the thread that shows
        # prints
        heard = _skate.prints_end()
        if heard:
            _over.acquire(timeout=WAIT_S)
        _over = None
        if not heard:
            return
        show(last=True)
        if _lock.acquire(timeout=WAIT_S):
            _skate.prints_close()
            _lock.release()


def show(last=False):
    """Shows the lines that have arrived."""
    global _showing
    if not _lock.acquire(timeout=WAIT_S):
        return
    try:
        # If this thread is showing prints already, the program's own stream has called a function
        # that waits for a task: nothing is shown inside this call.
        if not _showing and (last or not _debugged()):
            _showing = True
            try:
                for to, lines in _skate.prints_take(last, _labels):
                    write(
                        sys.stdout if to == 1 else sys.stderr,
                        lines.decode("utf-8", "backslashreplace"),
                    )
            finally:
                _showing = False
    finally:
        _lock.release()


def _debugged():
    """Whether a worker's debugger has the terminal; the prints of others wait until the debugger
    releases it."""
    if not (os.isatty(1) or os.isatty(2)):
        return False
    holder = _skate.terminal(True, False)
    if not holder:
        _skate.terminal(False, False)
    return bool(holder)


def write(stream, text):
    """Writes text to a stream of the driver; text that the stream cannot take is dropped."""
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
        stream.flush()
    except Exception:
        pass  # the stream has no reader; code that prints in this process gets the error itself


def _in_child():
    """Resets this module in a fork of the driver. The child does not have the thread, which may
    have held the lock."""
    global _lock, _showing, _over
    _lock, _showing, _over = _thread.RLock(), False, None


os.register_at_fork(after_in_child=_in_child)

# ---- A worker's side: sending prints.


class _Out(io.FileIO):
    """Descriptor 1 or 2, below sys.stdout or sys.stderr: writes each line separately, with its
    label."""

    def __init__(self, fd):
        super().__init__(fd, "wb", closefd=False)
        self.name = ("<stdout>", "<stderr>")[fd - 1]
        self.write = functools.partial(_skate.say, fd)
        self.flush = functools.partial(_skate.say_now, fd)


# The driver's note sets this in the fork server (_hooks.note), from which workers inherit it.
labelled = True


def begin():
    """Redirects the prints of a fresh worker."""
    _skate.prints_begin(labelled)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        if old is None:
            continue
        # A worker may be killed at any time: its prints must not be lost in a buffer.
        old.reconfigure(line_buffering=True)
        new = io.TextIOWrapper(_Out(fd), encoding="utf-8", errors=old.errors, write_through=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
