"""Which requests the page answers: the rules, without a socket.

A page is open to every program of the machine that can reach 127.0.0.1, and to every web site that
the browser shows. So each request must carry the token, which only the user and their browser know,
must name this machine as its host (another name means that a site has pointed its own name here, and
its scripts would read the answer), must not come from another site, and can only read.

The token is a part of the path (/TOKEN/...), and no cookie: browsers send a cookie of 127.0.0.1 to
every port of it, so to the servers of other users of the machine, and two pages would overwrite each
other's. A path is sent to this server alone. It also lets curl and Prometheus read the page.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

METHODS = ("GET", "HEAD")
HEAD_BYTES = 8 << 10  # the most bytes of a request


class Refusal(NamedTuple):
    """The answer to a request that is refused."""

    status: int
    text: str


def hosts(port: int | None) -> frozenset[str]:
    """The values of the header Host that name this machine at a port. None: without a port."""
    end = f":{port}" if port is not None else ""
    return frozenset(f"{name}{end}" for name in ("127.0.0.1", "localhost", "[::1]"))


def names_this_machine(host: str, port: int | None) -> bool:
    """Whether a Host is this machine at the server's port. port: None for a server at a UNIX socket,
    to which a tunnel may lead from any port."""
    if port is not None:
        return host in hosts(port)
    name, _, number = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    return (name if name and number.isdecimal() else host) in hosts(None)


def refused(
    method: str, header: Callable[[str], str | None], port: int | None, enters: bool = False
) -> Refusal | None:
    """Why a request is refused, whatever its path; None: it is not.

    Args:
        method: The method, as it was sent.
        header: A function from the name of a header to its value; None: the request has none.
        port: The server's port; None: it has a UNIX socket.
        enters: Whether its path is the way in (Page.way_in), to which a file of the user leads, which
            browsers take for another site.
    """
    if method not in METHODS:
        return Refusal(405, "This server is only read: GET and HEAD.")
    host = (header("Host") or "").strip().lower()
    if not names_this_machine(host, port):
        at = f"http://127.0.0.1:{port}/" if port is not None else "http://localhost/"
        return Refusal(
            403,
            f"The request names another host than this machine: open the page under {at} (with a tunnel: at the same port).",
        )
    origin = header("Origin")
    if origin is not None and origin.strip().lower() != f"http://{host}":
        return Refusal(403, "The request comes from another site.")
    # "none": the user has typed or pasted the address. Browsers without this header are stopped by
    # the rules for Host and Origin, and by the token.
    site = None if enters else header("Sec-Fetch-Site")
    if site is not None and site.strip().lower() not in ("same-origin", "none"):
        return Refusal(
            403, "The request comes from another site: paste the address of the page instead."
        )
    if header("Content-Length") not in (None, "0") or header("Transfer-Encoding") is not None:
        return Refusal(413, "A request has no body here.")
    return None


def route(path: str, token: str) -> str | None:
    """What follows the token in a path, without the query; None: the token is missing or wrong."""
    root, _, whole = path.partition("?")[0].partition("/")
    given, slash, rest = whole.partition("/")
    if root or not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return None
    return rest if slash else "/"
