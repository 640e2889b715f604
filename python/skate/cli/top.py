"""`skate top`: a program that runs, seen live in the terminal."""

import argparse
import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any

from skate._deps import rich_live
from skate._private import view
from skate.cli import out, screen

EXAMPLES = """
skate top                # the only program of this user that runs skate
skate top 4711
skate top --once | head
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows a program that runs: its Datasets with a row for each operator (tasks done and in "
        "all, tasks now, rows, rows a second, what waits in its queue, workers busy on average, what "
        "it waits for), the bottleneck, the share that is done and the time left, the object store "
        "and what is on disk, nodes, workers and the last errors. Reading takes no lock of the "
        "program. q or Ctrl-C ends it. Where standard output is no terminal, or TERM is dumb, it "
        "prints the present state once."
    )
    out.add_pid(parser, "the only one of this user")
    parser.add_argument("--once", action="store_true", help="print the present state, and end")
    parser.add_argument(
        "--interval",
        metavar="S",
        type=out.number,
        default=1.0,
        help="seconds from one look to the next (default: 1)",
    )
    out.add_json(parser)


def run(args: argparse.Namespace) -> None:
    pid = args.pid or out.only()
    now = out.snapshot(pid)
    console = out.console()
    if args.json:
        out.as_json(now)
    elif args.once or not console.is_terminal or console.is_dumb_terminal:
        console.print(screen.render(now, None, console.width))
    else:
        _live(pid, console, args.interval)


def _live(pid: int, console: Any, interval: float) -> None:
    """Shows the engine until it ends, or until q or Ctrl-C."""
    before, now, ended = None, out.snapshot(pid), False
    live = rich_live.Live(console=console, screen=True, auto_refresh=False)
    keys = _Keys()

    def pause(*_: Any) -> None:  # Ctrl-Z
        live.stop()
        keys.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # returns when the shell lets this process go on
        signal.signal(signal.SIGTSTP, pause)
        keys.enter()
        live.start(refresh=True)

    with _handlers(pause), contextlib.suppress(KeyboardInterrupt), keys, live:
        while True:
            live.update(screen.render(now, before, console.width), refresh=True)
            if keys.wait(interval) in ("q", "Q", "\x03", "\x04"):
                break
            try:
                before, now = now, view.snapshot(pid)
            except LookupError:
                ended = True
                break
    if ended:
        console.print(screen.render({**now, "live": False}, before, console.width))


@contextlib.contextmanager
def _handlers(pause: Any) -> Iterator[None]:
    """SIGTERM and SIGHUP end the command as sys.exit() would, so that the terminal is restored;
    pause() handles SIGTSTP."""

    def end(number: int, _: Any) -> None:
        sys.exit(128 + number)

    wanted = {signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGTSTP: pause}
    before = {s: signal.signal(s, handler) for s, handler in wanted.items()}
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


class _Keys:
    """Keys as they are pressed, not shown; leave() sets the terminal to what it was. Without a
    terminal there are none."""

    def __init__(self) -> None:
        self._fd = 0
        self._before: Any = termios.tcgetattr(0) if os.isatty(0) else None

    def enter(self) -> None:
        if self._before:
            tty.setcbreak(self._fd)

    def leave(self) -> None:
        if self._before:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """The key that is pressed within so many seconds; "": none."""
        if not select.select([self._fd] if self._before else [], [], [], seconds)[0]:
            return ""
        # The end of the input: the terminal is gone.
        return os.read(self._fd, 1).decode("latin-1") or "q"

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()
