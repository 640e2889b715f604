"""What users call: errors of their functions show their own frames only (src/py/py_front.c; which errors: execute.in_front)."""

import functools
import inspect
from typing import TypeVar

from skate._skate import front

C = TypeVar("C", bound=type)


def methods(cls: C) -> C:
    """A class decorator: the public methods of cls are called through C, which leaves no frame in a traceback."""
    for name, f in list(vars(cls).items()):
        if inspect.isfunction(f) and (not name.startswith("_") or name in ("__iter__", "__next__")):
            setattr(cls, name, functools.update_wrapper(front(f), f))
    return cls
