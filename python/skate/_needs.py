"""Imports the C part before all else. Where that is impossible, the error is one sentence that says
what this machine lacks; what the C part itself refuses (an old kernel, a subinterpreter) it says."""

import _imp
import os
import sys

_NEEDS = (
    "skate needs Linux 5.3 or newer, glibc 2.28 or newer or musl 1.2, and CPython 3.11 or newer"
)
_SOURCE = "build it here: pip install --no-binary skate skate (needs a C compiler)"


def _tag_here() -> str:
    return _imp.extension_suffixes()[0].removeprefix(".").removesuffix(".so")


def _tags_there() -> list[str]:
    """The Pythons and machines for which this copy of skate has a C part."""
    names = sorted(os.listdir(os.path.dirname(os.path.abspath(__file__))))
    return [
        n.removeprefix("_skate.").removesuffix(".so")
        for n in names
        if n.startswith("_skate.") and n.endswith(".so")
    ]


def _sentence(e: ImportError) -> str:
    """What is missing, and what to do."""
    there, here = _tags_there(), _tag_here()
    if e.name == "skate._skate" and isinstance(e, ModuleNotFoundError):
        if not there:
            return "skate's C part is not built in this source tree: run ./dev build"
        return (
            f"this copy of skate is for {', '.join(there)}, and this Python is {here}: install "
            "skate with this Python's own pip"
        )
    if "GLIBC_" in str(e):
        libc = os.confstr("CS_GNU_LIBC_VERSION") or "no glibc"
        return f"{_NEEDS}; this machine has {libc} ({e}): use a newer system, or {_SOURCE}"
    return f"the C part of skate cannot be loaded ({e}): {_NEEDS}; {_SOURCE}"


if sys.platform != "linux":
    raise ImportError(
        f"skate runs on Linux only, and this is {sys.platform}: use a container, or WSL 2 on Windows"
    )
try:
    import skate._skate  # noqa: F401
except ImportError as e:
    if str(e).startswith("skate "):  # told by the C part: see mod_may_be_here() in module.c
        raise
    raise ImportError(_sentence(e), name="skate._skate") from e
if not getattr(sys, "_is_gil_enabled", lambda: True)():  # the C part has turned it on, if it may
    raise ImportError(
        "skate needs Python's GIL, and PYTHON_GIL=0 or -X gil=0 keeps it off: without them, "
        "importing skate turns it on",
        name="skate",
    )
