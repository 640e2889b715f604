"""The main program of the fork server and of the workers forked from it. It imports as little as
possible, because each import delays the first task."""

import _signal
import atexit
import os
import sys

from skate import _hooks, _skate


def main():
    # Ctrl-C is for the driver, which ends its workers
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    # Workers ignore the signal of Ctrl-\: the driver gets the signal as well, and shows the stacks
    # (src/py/worker/stack.c)
    _signal.signal(_signal.SIGQUIT, _signal.SIG_IGN)
    _hooks.install()
    if not _skate.serve():
        sys.exit("skate._worker_main is started by skate.init(), not by hand")
    atexit._run_exitfuncs()  # exit handlers of the user; their errors are printed
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # The driver has ended: no destructor may try to reach it.


if __name__ == "__main__":
    main()
