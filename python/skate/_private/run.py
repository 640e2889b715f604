"""`skate run`: runs an unmodified program written for Ray. It does the same as `python SCRIPT`,
except that `import ray` means skate, in the program and in the workers."""

import builtins
import importlib.util
import io
import os
import sys
import types

from skate._deps import as_ray

USAGE = """usage: skate run SCRIPT [ARGS...]
       skate run -m MODULE [ARGS...]
       skate run -c CODE [ARGS...]

Runs a Python program in which `import ray`, and everything below it, means skate (skate.as_ray()), in the driver and in all workers. sys.argv,
sys.path[0], __main__ and the exit status are what `python` would give it. An installed Ray is not reached."""


class _Refused(Exception):
    """The error for a wrong command line, or for a program that cannot be run."""


def _read(path):
    """The code object of a script. _Refused if it cannot be read; SyntaxError for a script with an
    error."""
    try:
        with io.open_code(path) as f:
            text = f.read()
    except OSError as e:
        raise _Refused(f"can't open file {path!r}: {e.strerror}") from None
    return compile(text, path, "exec", dont_inherit=True)


def _module(name):
    """(spec, code) of a module, or of the __main__ of a package. _Refused if there is no such
    module."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as e:
        raise _Refused(f"-m {name}: {e}") from None
    if spec is None:
        raise _Refused(f"no module named {name}")
    get_code = getattr(spec.loader, "get_code", None)
    code = get_code(name) if get_code is not None else None
    if code is None:
        raise _Refused(f"-m {name}: it has no code that could be run")
    return spec, code


def _hide_own_frames():
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


def main(argv):
    """Runs the program that argv (the arguments after "run") names; returns the exit status.
    Exceptions of the program are passed on."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    kind = argv[0] if argv[0] in ("-m", "-c") else None
    if kind and len(argv) < 2 or kind is None and argv[0].startswith("-"):
        print(
            f"skate run: {argv[0]}: "
            + ("an argument is wanted" if kind else "no such option")
            + f"\n{USAGE}",
            file=sys.stderr,
        )
        return 2
    what, args = (argv[1], argv[2:]) if kind else (argv[0], argv[1:])
    as_ray.as_ray()
    space = {
        "__name__": "__main__",
        "__builtins__": builtins,
        "__doc__": None,
        "__loader__": None,
        "__spec__": None,
        "__package__": None,
    }
    first = (
        os.getcwd()
        if kind == "-m"
        else ""
        if kind == "-c"
        else os.path.dirname(os.path.realpath(what))
    )
    # sys.path[0] is the folder of `skate`: the script's folder replaces it
    if not sys.flags.safe_path:
        sys.path[0] = first
    try:
        if kind == "-m":
            spec, code = _module(what)
            space.update(
                __file__=spec.origin,
                __spec__=spec,
                __package__=spec.parent,
                __loader__=spec.loader,
                __cached__=spec.cached,
            )
            sys.argv = [spec.origin, *args]
        elif kind == "-c":
            sys.argv = ["-c", *args]
            code = compile(what, "<string>", "exec", dont_inherit=True)
        else:
            sys.argv = [what, *args]
            code = _read(what)
            space.update(__file__=what, __cached__=None)
    except _Refused as e:
        print(f"skate run: {e}", file=sys.stderr)
        return 2
    program = types.ModuleType("__main__")
    vars(program).update(space)
    sys.modules["__main__"] = program
    _hide_own_frames()
    exec(code, vars(program))
    return 0
