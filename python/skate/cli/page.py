"""`skate page`: a page for the browser that shows a run while it goes on, or after it."""

import argparse

from skate import page
from skate.cli import out

EXAMPLES = """
skate page                       # of the only program of this user
skate page 4711 --port 8700      # of one, at a port of your own
skate page run.skate             # of a run that is over: skate run --trace run.skate ...
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serves a page for the browser until Ctrl-C, and prints its address, with a token without "
        "which nobody sees anything. It can be reached from this machine only. Where there is a "
        "display, it opens in your browser."
    )
    out.add_target(parser)
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        default=0,
        help="the port at 127.0.0.1 (default: any that is free)",
    )
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help="a UNIX socket to be made, for this user only, instead of a port: for a tunnel (ssh -L)",
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")


def port(text: str) -> int:
    """The type of an argument that is a port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise argparse.ArgumentTypeError(f"a number from 1 to 65535 is wanted, not {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> None:
    if args.port and args.socket:
        raise out.Refused("--port and --socket: choose one of them", 2)
    where = args.where or out.only()
    try:
        page.show(where, args.port, args.socket, browser=not args.no_browser)
    except (LookupError, ValueError, OSError) as e:
        raise out.Refused(str(e)) from None
