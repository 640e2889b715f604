"""`skate run`: runs an unmodified program written for Ray. It does the same as `python SCRIPT`,
except that `import ray` means skate, in the program and in the workers."""

import argparse
import builtins
import io
import os
import sys
import types
from typing import Any

from skate import config
from skate._deps import as_ray, importlib_util
from skate.cli import out
from skate.cli.parsers import Parser

EXAMPLES = """
skate run train.py --epochs 3            # what follows the script is for the script
skate run --cpus 4 --memory 8g train.py
skate run --trace run.skate -m package.module
skate run -c "import ray; print(ray.__version__)"
"""


def _read(path: str) -> types.CodeType:
    """The code object of a script. out.Refused if it cannot be read; SyntaxError for a script with an
    error."""
    try:
        with io.open_code(path) as f:
            text = f.read()
    except OSError as e:
        raise out.Refused(f"can't open file {path!r}: {e.strerror}", 2) from None
    return compile(text, path, "exec", dont_inherit=True)


def _module(name: str) -> tuple[Any, types.CodeType]:
    """(spec, code) of a module, or of the __main__ of a package. out.Refused if there is no such
    module."""
    try:
        spec = importlib_util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib_util.find_spec(name)
    except (ImportError, ValueError) as e:
        raise out.Refused(f"-m {name}: {e}", 2) from None
    if spec is None:
        raise out.Refused(f"no module named {name}", 2)
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(name) if get_code is not None else None
    if code is None:
        raise out.Refused(f"-m {name}: it has no code that could be run", 2)
    return spec, code


def _hide_own_frames() -> None:
    """If an error ends the program, makes the traceback show the program's frames only."""
    before = sys.excepthook

    def hook(kind, error, trace):
        own = trace
        while own is not None and own.tb_frame.f_code.co_filename != __file__:
            own = own.tb_next
        while own is not None and own.tb_frame.f_code.co_filename == __file__:
            own = own.tb_next
        if own is not None:
            trace = own
        before(kind, error.with_traceback(trace), trace)

    sys.excepthook = hook


def add_program(parser: Parser) -> None:
    """Declares the program that a command runs; all that follows it is for the program."""
    parser.takes_program = True
    parser.usage = f"{parser.prog} [OPTIONS] {{SCRIPT | -m MODULE | -c CODE}} [ARGUMENTS]"
    parser.add_argument("-m", metavar="MODULE", help="run a module")
    parser.add_argument("-c", metavar="CODE", help="run a text as a program")
    parser.add_argument(
        "script", metavar="SCRIPT", nargs="?", help="the program, then its arguments"
    )


def add_cpus_and_memory(parser: argparse.ArgumentParser) -> None:
    """Declares the size of an engine."""
    parser.add_argument(
        "--cpus",
        metavar="N",
        type=out.number,
        help="CPUs to give to tasks (SKATE_NUM_CPUS; default: those that the process may use)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=out.size,
        help="memory of the object store and of the workers together, such as 8g: 30 %% of it for "
        "the store, 70 %% for tasks (SKATE_OBJECT_STORE_MEMORY, SKATE_MEMORY; default: that of the "
        "machine or of its cgroup)",
    )


def arguments(parser: Parser) -> None:
    parser.description = (
        "Runs a Python program in which `import ray`, and everything below it, means skate "
        "(skate.as_ray()), in the driver and in all workers. sys.argv, sys.path[0], __main__ and "
        "the exit status are what `python` would give it. An installed Ray is not reached. Options "
        "stand before the program. They are settings of the environment: arguments that the program "
        "gives to init() come before them."
    )
    add_cpus_and_memory(parser)
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="run on this Ray cluster a program that imports skate: `import ray` stays Ray itself "
        "(SKATE_ADDRESS; needs the extra skate[ray]); or on nodes: skate://HOST:PORT,... (skate node)",
    )
    parser.add_argument(
        "--page", action="store_true", help="serve a live page of the run (SKATE_PAGE)"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write a record of the run into FILE, for `skate timeline` and `skate page` (SKATE_TRACE)",
    )
    add_program(parser)


def settings(args: argparse.Namespace) -> dict[str, str]:
    """The environment that the options ask for."""
    env, asked = {}, vars(args)
    if asked.get("cpus") is not None:
        env["SKATE_NUM_CPUS"] = f"{args.cpus:g}"
    if asked.get("memory") is not None:
        store = args.memory * 30 // 100
        if args.memory - store < config.LEAST_MEMORY:
            raise out.Refused("--memory: 100m or more is wanted; no worker runs in less", 2)
        env["SKATE_OBJECT_STORE_MEMORY"] = str(store)
        env["SKATE_MEMORY"] = str(args.memory - store)
    if asked.get("address") is not None:
        env["SKATE_ADDRESS"] = args.address
    if asked.get("page"):
        env["SKATE_PAGE"] = "1"
    if asked.get("trace") is not None:
        env["SKATE_TRACE"] = os.path.abspath(args.trace)
    return env


def run(args: argparse.Namespace) -> int:
    os.environ.update(settings(args))
    return program(args)


def _what(given: list[str]) -> tuple[str, str, list[str]]:
    """(the option that names the program, or ""; its name or text; the program's arguments).
    Refused for none."""
    if not given:
        raise out.Refused("a program is wanted: SCRIPT, -m MODULE or -c CODE", 2)
    if not given[0].startswith("-"):
        return "", given[0], given[1:]
    kind, joined = given[0][:2], given[0][2:]  # -mMODULE is one argument, as in `python`
    what = [joined, *given[1:]] if joined else given[1:]
    if not what:
        raise out.Refused(f"{kind}: an argument is wanted", 2)
    return kind, what[0], what[1:]


def program(args: argparse.Namespace) -> int:
    """Runs the program that the arguments name; returns the exit status. Exceptions of the program
    are passed on."""
    kind, what, rest = _what(args.program)
    address = os.environ.get("SKATE_ADDRESS", "")
    if not address or address.startswith("skate://"):  # a Ray cluster needs Ray's own package
        as_ray.as_ray()
    space: dict[str, Any] = {
        "__name__": "__main__",
        "__builtins__": builtins,
        "__doc__": None,
        "__loader__": None,
        "__spec__": None,
        "__package__": None,
    }
    # sys.path[0] is the folder of `skate`: the script's folder replaces it
    if not sys.flags.safe_path:
        folder = os.path.dirname(os.path.realpath(what))
        sys.path[0] = os.getcwd() if kind == "-m" else "" if kind == "-c" else folder
    if kind == "-m":
        spec, code = _module(what)
        space.update(
            __file__=spec.origin,
            __spec__=spec,
            __package__=spec.parent,
            __loader__=spec.loader,
            __cached__=spec.cached,
        )
        sys.argv = [spec.origin, *rest]
    elif kind == "-c":
        sys.argv = ["-c", *rest]
        code = compile(what, "<string>", "exec", dont_inherit=True)
    else:
        sys.argv = [what, *rest]
        code = _read(what)
        space.update(__file__=what, __cached__=None)
    main = types.ModuleType("__main__")
    vars(main).update(space)
    sys.modules["__main__"] = main
    _hide_own_frames()
    exec(code, vars(main))
    return 0
