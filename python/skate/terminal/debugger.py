"""pdb in a worker: breakpoint(), pdb.set_trace(), pdb.post_mortem().

One process at a time has the terminal, from its first prompt until it continues (c, q) or its task
ends; others wait for it. During that time the process's descriptor 1 and sys.stdout are the
terminal, so that lines can be edited as usual; the driver draws no progress line (progress_line.py) and
shows no prints there (prints.py). skate's own SIGINT handler stays in the worker: pdb's would open
a prompt inside skate when a task is cancelled. pdb is patched when user code imports it, so a
worker that needs no debugger does not load it.
"""

import _thread
import os
import sys

from skate import _skate

_lock = _thread.allocate_lock()  # for the threads of this process
_taken = None  # the _Taken of the thread that has the terminal, or None


class _Taken:
    """The state while a thread of this process has the terminal."""

    def __init__(self):
        self.thread = _thread.get_ident()
        holder = _skate.terminal(True, False)
        if holder:
            print(
                f"skate: {self.task()} waited at a breakpoint until process {holder} let the terminal go",
                file=sys.stderr,
            )
            _skate.terminal(True, True)
        self.old, self.new, self.fd = sys.stdout, None, -1
        plain = _skate.plain(1)
        if plain >= 0:
            self.fd = os.dup(1)
            self.old.flush()
            os.dup2(plain, 1)
            self.new = sys.stdout = open(
                1, "w", closefd=False, encoding="utf-8", errors="backslashreplace"
            )  # noqa: SIM115  it lasts until end()
            if self.new.isatty():
                self.new.write("\r\x1b[K")  # erases the progress line
            self.new.write(
                f"skate: {self.task()} in process {os.getpid()} has the terminal; other breakpoints wait until it goes on (c) or is quit (q)\n"
            )
        _skate.tidy_later()

    def task(self):
        task = _skate.current_task()
        return task[2] if task else "a thread"

    def end(self):
        if self.new is not None:
            self.new.flush()
            os.dup2(self.fd, 1)
            os.close(self.fd)
            if sys.stdout is self.new:
                sys.stdout = self.old
        _skate.terminal(False, False)


def take():
    """Waits until this thread has the terminal."""
    global _taken
    if _taken is None or _taken.thread != _thread.get_ident():
        _lock.acquire()
        try:
            _taken = _Taken()
        except BaseException:
            _lock.release()
            raise
    return _taken


def let_go():
    """Releases the terminal for the next process."""
    global _taken
    if _taken is not None:
        taken, _taken = _taken, None
        try:
            taken.end()
        finally:
            _lock.release()


def task_over():
    """Releases the terminal at the end of a task, which may have ended at a prompt (commands n,
    r)."""
    if _taken is not None and _taken.thread == _thread.get_ident():
        let_go()


def change(pdb):
    """Patches the module pdb to take and release the terminal."""

    class Pdb(pdb.Pdb):
        def __init__(
            self, completekey="tab", stdin=None, stdout=None, skip=None, nosigint=False, *args, **kw
        ):
            super().__init__(completekey, stdin, stdout, skip, True, *args, **kw)
            self._ours = stdin is None and stdout is None
            if not sys.modules.get("readline"):  # input() shows its prompt at descriptor 2 then,
                self.use_rawinput = False  # where lines are shown once they are whole

        def interaction(self, *args, **kw):
            if self._ours:
                self.stdout = take().new or self.stdout
            return super().interaction(*args, **kw)

        def _cmdloop(self):
            # without pdb's own handler of KeyboardInterrupt: in a worker this exception means that
            # the task was cancelled
            self.cmdloop()

        def set_continue(self):
            super().set_continue()
            let_go()

        def set_quit(self):
            super().set_quit()
            let_go()

    Pdb.__qualname__ = "Pdb"
    pdb.Pdb = Pdb


class _Finder:
    """Patches pdb when it is imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "pdb":
            return None
        sys.meta_path.remove(_Finder)
        spec = next(filter(None, (f.find_spec(name, path, target) for f in sys.meta_path)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module):
                execute(module)
                change(module)

            spec.loader.exec_module = execute_and_change
        return spec


def begin():
    """Prepares a fresh worker for pdb."""
    if "pdb" in sys.modules:
        change(sys.modules["pdb"])
    else:
        sys.meta_path.insert(0, _Finder)
