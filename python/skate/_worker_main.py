"""The fork server and, forked from it, the workers. Imports as little as it can: each import here
is paid before the first task."""

import _signal
import atexit
import os
import sys

from skate import _hooks, _skate


def main():
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # Ctrl-C is for the driver, which ends us
    # and so is Ctrl-\, which shows stacks (src/py/worker/stack.c)
    _signal.signal(_signal.SIGQUIT, _signal.SIG_IGN)
    _hooks.install()
    if not _skate.serve():
        sys.exit("skate._worker_main is started by skate.init(), not by hand")
    atexit._run_exitfuncs()  # of the user's; what they raise is printed
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # nothing of a worker outlives its driver: no destructor may try to talk to it


if __name__ == "__main__":
    main()
