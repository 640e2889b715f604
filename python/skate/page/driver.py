"""The page of the engine of this process, which settings ask for (SKATE_PAGE, DataContext.page). It is
opened once, with the engine or the first run, and closed with the engine."""

from __future__ import annotations

import atexit
import logging
import os
import sys

from skate import _forked, _skate
from skate.page.server import Page, serve

_lock = _forked.lock()
_page: Page | None = None


def begin(asked: int) -> None:
    """Opens the page, if it is not open, and prints its address to stderr.

    Args:
        asked: The port at 127.0.0.1; 1 or True: any that is free.

    Raises:
        ValueError: It is no port.
        OSError: The port is in use.
    """
    global _page
    if _page is not None or _skate.in_worker():
        return
    with _lock:
        if _page is not None:
            return
        try:
            _page = serve(port=0 if asked == 1 else asked)
        except LookupError as e:
            logging.getLogger("skate").warning("there is no page of this run: %s", e)
            return
    if sys.stderr is not None:
        print(f"skate: a page shows this program: {_page.url}", file=sys.stderr, flush=True)


def end() -> None:
    """Closes the page: browsers keep the last state. Without a page it does nothing."""
    global _page
    with _lock:
        page, _page = _page, None
    if page is not None:
        page.close()


def _in_child() -> None:
    global _page
    _page = None  # the parent's


atexit.register(end)
os.register_at_fork(after_in_child=_in_child)
