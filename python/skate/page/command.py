"""What `skate page` does."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser

from skate._private import stack
from skate.page.server import Page, leads_to, serve


def show(
    where: int | str | os.PathLike[str] | None = None,
    port: int = 0,
    socket_path: str | os.PathLike[str] | None = None,
    browser: bool = False,
) -> None:
    """Serves a page until Ctrl-C; prints its address. When the engine ends, the page keeps its last
    state.

    Args:
        where: The pid of any process of an engine of this user, or the path of a record; None: the
            only engine of this user.
        port: The port at 127.0.0.1; 0: any that is free.
        socket_path: The path of a UNIX socket to be made instead.
        browser: Whether to open the page in the user's browser, where there is a display.

    Raises:
        LookupError: There is no such engine or record, or no pid is given and there are several.
        PermissionError: It is of another user.
        ValueError: The port is no port; a newer skate has made the record, or it is damaged.
        OSError: The port or the path is in use, or not for this user.
    """
    if where is None:
        where = stack.only()
    with serve(where, port, socket_path=socket_path) as page:
        print(page.url, flush=True)
        if socket_path is not None:
            browser = False
            print(
                f"ssh -L PORT:{os.path.abspath(socket_path)} HOST leads a browser there, at localhost:PORT",
                file=sys.stderr,
            )
        with tempfile.TemporaryDirectory(prefix="skate-page-") as folder:
            try:
                if browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
                    webbrowser.open(door(page, folder))  # waits for some browsers to end
                page.closing.wait()
            except KeyboardInterrupt:
                pass


def door(page: Page, folder: str) -> str:
    """Makes a file that leads a browser to the page; returns its address, which tells others
    nothing.

    Args:
        page: The page.
        folder: A folder that only this user can read.
    """
    path = os.path.join(folder, "page.html")
    with open(path, "w") as f:
        f.write(leads_to(page.way_in()))
    return f"file://{path}"
