"""Runs programs in forks of a process that has imported what they import, which takes as long as
many of them run. It imports nothing of the tests."""

import atexit
import multiprocessing
import os
import subprocess
import sys
import types

_of = multiprocessing.get_context("forkserver")


def preload(*modules):
    """The modules that are imported once, before the first program."""
    _of.set_forkserver_preload(list(modules))


def _main(text, argv, env, errors):
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["-c", *argv]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), main.__dict__)
    atexit._run_exitfuncs()  # a process of multiprocessing ends without


def run(text, *argv, env, errors, timeout=120):
    """Runs the text of a program, as subprocess.run() would; its stderr goes through the file
    `errors`."""
    p = _of.Process(target=_main, args=(text, list(map(str, argv)), dict(env), str(errors)))
    p.start()
    p.join(timeout)
    if p.exitcode is None:
        p.kill()
        p.join()
        raise TimeoutError(f"the program has not ended after {timeout} s")
    with open(errors) as f:
        return subprocess.CompletedProcess(argv, p.exitcode, None, f.read())
