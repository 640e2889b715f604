"""What tasks print, shown by the driver: whole lines, with "(name pid=N)" in front, through its
sys.stdout and sys.stderr as they are at that moment (capsys, redirect_stdout, the cell of a
notebook).

A thread of the driver takes the lines from the pipes of the workers (engine/local/wire/prints.c);
so does a call that waits for tasks (get, wait, the next block of a Dataset) before it
returns: what a task printed by Python is there when its value is. What C code and child programs
wrote comes a moment later. A worker whose pipe is full (64 KiB) waits in its print until the driver
has read, as a program in front of a pipe does; nothing is shown on a terminal while a debugger has
it. What a stream of the driver refuses (closed, or a pipe that nobody reads) is dropped.
"""

import _thread
import functools
import io
import os
import sys

from skate import _skate

# in which lines gather: the thread takes little of the driver's time, whatever is printed
PAUSE_MS = 10
# for another thread that is showing lines, and may be stopped in a write of the program's own
WAIT_S = 1.0

_lock = _thread.RLock()
_labels = True
_showing = False
_over = None  # a lock that the thread holds while it runs

# ---- in the driver


def start(labels):
    """The engine is open, and its workers' prints come here."""
    global _labels, _over
    _labels = labels
    _skate.set_hooks(prints=show)
    _over = _thread.allocate_lock()
    _over.acquire()
    _thread.start_new_thread(_work, (_over,))


def _work(over):
    try:
        pause = 0
        while _skate.prints_wait(pause):
            show()
            pause = PAUSE_MS
    finally:
        over.release()


def stop():
    """The engine is closed: what is left is shown."""
    global _over
    if _over is not None:
        # not when the program has closed what that thread sleeps on: it sleeps on
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
    """Shows what is there."""
    global _showing
    if not _lock.acquire(timeout=WAIT_S):
        return
    try:
        # it is showing: a write of the program's own waits for a task
        if not _showing and (last or not _debugged()):
            _showing = True
            try:
                for to, lines in _skate.prints_take(last, _labels):
                    _write(
                        sys.stdout if to == 1 else sys.stderr,
                        lines.decode("utf-8", "backslashreplace"),
                    )
            finally:
                _showing = False
    finally:
        _lock.release()


def _debugged():
    """A worker's debugger has the terminal: what others print is shown there when it lets go."""
    if not (os.isatty(1) or os.isatty(2)):
        return False
    holder = _skate.terminal(True, False)
    if not holder:
        _skate.terminal(False, False)
    return bool(holder)


def _write(stream, text):
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
        stream.flush()
    except Exception:
        pass  # there is nobody to tell: what prints in this process hears of it itself


def _in_child():
    """Of a fork of the driver: the thread is the parent's, which may have had the lock."""
    global _lock, _showing, _over
    _lock, _showing, _over = _thread.RLock(), False, None


os.register_at_fork(after_in_child=_in_child)

# ---- in a worker


class _Out(io.FileIO):
    """Descriptor 1 or 2, below sys.stdout or sys.stderr: lines go out one by one, with their
    label."""

    def __init__(self, fd):
        super().__init__(fd, "wb", closefd=False)
        self.name = ("<stdout>", "<stderr>")[fd - 1]
        self.write = functools.partial(_skate.say, fd)
        self.flush = functools.partial(_skate.say_now, fd)


# the fork server hears it from the driver (_hooks.note), and its workers have it from there
labelled = True


def begin():
    """In a fresh worker."""
    _skate.prints_begin(labelled)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        old = getattr(sys, name)
        if old is None:
            continue
        # a worker may be killed at any time: what it printed is not to be lost in a buffer
        old.reconfigure(line_buffering=True)
        new = io.TextIOWrapper(_Out(fd), encoding="utf-8", errors=old.errors, write_through=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
