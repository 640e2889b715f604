"""A stand-in for pytest in workers, which engines of tests preload
(`_system_config={"preload": "numpy,light_pytest"}`).

Workers import the module of a test for its functions, and with it pytest, whose import takes as
much CPU time as all else that the start of an engine does. The decorators of the stand-in change
nothing; what is used of pytest besides imports it."""

import importlib
import sys
import types


class _Decorator:
    """A decorator, or what makes one: `mark.slow`, `mark.parametrize(...)`, `fixture`."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kw):
        decorates = len(args) == 1 and not kw and isinstance(args[0], types.FunctionType | type)
        return args[0] if decorates else self


class _Pytest(types.ModuleType):
    mark = fixture = param = _Decorator()

    def __getattr__(self, name):
        if sys.modules.get("pytest") is self:
            del sys.modules["pytest"]
        return getattr(importlib.import_module("pytest"), name)


sys.modules.setdefault("pytest", _Pytest("pytest"))  # a driver has the real one
