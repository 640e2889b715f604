"""Errors as users see them: those of their functions show their own frames only
(src/py/core/front.c), and are short; which errors these are is decided here."""

from __future__ import annotations

import functools
import inspect
import logging
from typing import Any, TypeVar

from skate._skate import front
from skate.data.context import DataContext
from skate.exceptions import ActorDiedError, RayTaskError, UserCodeException

C = TypeVar("C", bound=type)


def methods(cls: C) -> C:
    """A class decorator: the public methods of cls are called through C, which leaves no frame in a
    traceback and says what a wrong keyword may have meant."""
    for name, f in list(vars(cls).items()):
        if inspect.isfunction(f) and (
            not name.startswith("_") or name in ("__init__", "__iter__", "__next__")
        ):
            setattr(cls, name, functools.update_wrapper(front(f), f))
    return cls


def in_front(e: BaseException, context: DataContext) -> BaseException:
    """e, marked to be shown without frames of skate (py/core/front.c);
    DataContext.log_internal_stack_trace_to_stdout keeps them."""
    try:
        e._skate_front = not context.log_internal_stack_trace_to_stdout  # type: ignore[attr-defined]
    except AttributeError:  # a class of the user's without room for it: shown with all frames
        pass
    return e


LINES = 12  # of an error of a function


_HEAD = "Traceback (most recent call last):"


_LINKS = ("The above exception was the direct cause", "During handling of the above exception")


def brief(text: str) -> str:
    """The text of an error of a function in LINES lines, where it has more of its tracebacks: of
    exceptions that came before it only what they say, of the last traceback the first frame and
    those next to where it was raised. RayTaskError.traceback_str keeps all."""
    lines = text.splitlines()
    heads = [i for i, line in enumerate(lines) if line == _HEAD]
    if len(lines) <= LINES or not heads:
        return text
    first, last = heads[0], heads[-1]
    said = [
        line
        for line in lines[first:last]
        if line and line[0] != " " and line != _HEAD and not line.startswith(_LINKS)
    ]
    frames: list[list[str]] = []
    at = last + 1
    while at < len(lines) and lines[at].startswith("  "):
        if lines[at].startswith('  File "') or not frames:
            frames.append([])
        frames[-1].append(lines[at])
        at += 1
    before = lines[:first] + [f"after: {line}" for line in said]
    room = LINES - len(before) - (len(lines) - at) - 2  # a head, and what is left out
    kept = frames[-1:]
    # is there room for the user's function itself
    left = sum(map(len, frames[:1])) + sum(map(len, kept)) <= room and len(frames) > 1
    room -= sum(map(len, kept)) + (len(frames[0]) if left else 0)
    for f in reversed(frames[1:-1]):
        room -= len(f)
        if room < 0:
            break
        kept.insert(0, f)
    n = len(frames) - len(kept) - left
    more = (
        [f"  ... {n} more frame{'s' if n > 1 else ''}: traceback_str of this error has them"]
        if n
        else []
    )
    shown = (
        [line for f in (frames[:1] if left else []) for line in f]
        + more
        + [line for f in kept for line in f]
    )
    return "\n".join([*before, *([_HEAD] if frames else []), *shown, *lines[at:]])


_user_classes: dict[tuple[type, ...], type] = {}


def of_user_code(e: BaseException, context: DataContext) -> BaseException:
    """The error of a function of the user as a UserCodeException too; other errors as they are.
    That of a constructor of the user's is caught by its own class, as those of calls are, and stays
    an ActorDiedError. It is said in the log as well where the program has set one up: where it has
    none, logging would write it to stderr, and the exception says it."""
    also: tuple[type, ...] = (UserCodeException,)
    cause: Any
    if isinstance(e, ActorDiedError) and e.actor_init_failed and e.cause is not None:
        e, also = (
            RayTaskError("__init__", e.told, e.cause).as_instanceof_cause(),
            (UserCodeException, ActorDiedError),
        )
        e.actor_init_failed = True  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(e, RayTaskError):
        return e
    cause = vars(e).get("raised", e.cause)
    if not any(str(n).startswith("in ") for n in getattr(cause, "__notes__", ())) or isinstance(
        e, UserCodeException
    ):
        return e
    if context.raise_original_map_exception:
        return cause
    log = logging.getLogger("ray.data")
    if not context.log_internal_stack_trace_to_stdout and log.hasHandlers():
        log.error("Exception occurred in user code; its own frames follow.")
    if log.hasHandlers():
        log.error(
            "Full stack trace:\n%s",
            e,
            extra={"hide": not context.log_internal_stack_trace_to_stdout},
        )
    if not context.log_internal_stack_trace_to_stdout:
        e.text = brief(e.text)
    name = type(e).__name__
    key = (type(e), *also)
    if key not in _user_classes:
        _user_classes[key] = type(
            name, key, {"__module__": type(e).__module__, "__qualname__": name}
        )
    try:
        e.__class__ = _user_classes[key]
    except TypeError:  # a class of the user's with a layout of its own
        pass
    return e
