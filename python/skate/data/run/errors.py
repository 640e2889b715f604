"""Errors of Datasets as users see them: short, and an error of a user's function shows only the
user's frames. This module decides which errors are shown in this form; src/py/core/front.c removes
the other frames."""

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
    """A class decorator: the public methods of cls are called through C code that removes skate's
    frames from tracebacks and adds a suggestion to errors about an unknown keyword."""
    for name, f in list(vars(cls).items()):
        if inspect.isfunction(f) and (
            not name.startswith("_") or name in ("__init__", "__iter__", "__next__")
        ):
            setattr(cls, name, functools.update_wrapper(front(f), f))
    return cls


def in_front(e: BaseException, context: DataContext) -> BaseException:
    """Marks e to be shown without skate's frames (py/core/front.c), and returns it. If
    DataContext.log_internal_stack_trace_to_stdout is set, the frames stay."""
    try:
        e._skate_front = not context.log_internal_stack_trace_to_stdout  # type: ignore[attr-defined]
    except AttributeError:  # the user's class allows no new attribute: all frames are shown
        pass
    return e


LINES = 12  # lines that an error of a user's function may have


_HEAD = "Traceback (most recent call last):"


_LINKS = ("The above exception was the direct cause", "During handling of the above exception")


def brief(text: str) -> str:
    """Cuts the text of an error of a user's function to LINES lines. Of the exceptions that led to
    the last one only the messages stay; of the last traceback, the first frame and the frames next
    to the raise. RayTaskError.traceback_str keeps the whole text."""
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
    # two lines are the head line and the line that says how many frames were left out
    room = LINES - len(before) - (len(lines) - at) - 2
    kept = frames[-1:]
    # Whether the first frame, which is that of the user's function, fits.
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
    """Turns the error of a user's function into a UserCodeException that an except clause for the
    user's own class catches, too; returns other errors unchanged. An error of a user's constructor
    stays an ActorDiedError, and is caught by its own class as well. The error is also logged if the
    program has set up logging: else logging would write it to stderr, which shows the exception
    anyway."""
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
    except TypeError:  # the user's class cannot be a base class together with UserCodeException
        pass
    return e
