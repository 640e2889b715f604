"""`skate docs`: where the documentation is."""

import argparse
import os
import webbrowser

import skate
from skate._deps import importlib_metadata
from skate.cli import out

EXAMPLES = """
skate docs
skate docs --open
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints where the documentation is: the addresses that the installed package names, or the "
        "folder docs of the sources that skate is run from."
    )
    parser.add_argument("--open", action="store_true", help="open the first of them in a browser")
    out.add_json(parser)


def places() -> dict[str, str]:
    """Where the documentation is: {what: address or path}."""
    found = {}
    try:
        urls = importlib_metadata.metadata("skate").get_all("Project-URL") or []
    except importlib_metadata.PackageNotFoundError:
        urls = []
    for line in urls:
        what, _, url = line.partition(",")
        if ".invalid/" not in url:  # a name that never leads anywhere (RFC 6761): not public yet
            found[what.strip()] = url.strip()
    sources = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(skate.__file__))))
    if os.path.exists(os.path.join(sources, "docs", "index.md")):
        found["Sources"] = os.path.join(sources, "docs")
        site = os.path.join(sources, "build", "site", "index.html")
        if os.path.exists(site):
            found = {"Site": site, **found}
    return found


def run(args: argparse.Namespace) -> None:
    found = places()
    if not found:
        raise out.Refused(
            "this package names no public address of its documentation: it is in docs/ of its "
            "sources; `man skate` and `python -m pydoc skate` are here"
        )
    if args.json:
        out.as_json(found)
    else:
        for what, where in found.items():
            print(f"{what + ':':15} {where}")
    first = next(iter(found.values()))
    if args.open and not webbrowser.open(first if "://" in first else f"file://{first}"):
        raise out.Refused(f"no browser could be opened for {first}")
