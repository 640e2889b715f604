"""Prepares an exception of user code for the process that gets the result: its text without frames
of skate, the place where it was raised, and its cause as bytes."""

import _pickle as pickle  # without re and struct
import os
import sys

from skate import _skate
from skate import exceptions as ex
from skate._deps import traceback
from skate.calls import ambient_environment, in_actor
from skate.calls.causes import ERROR_MAX, cause_bytes, load_cause, short

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # python/skate/


def _frames(tb):
    frames = traceback.extract_tb(tb)
    return [f for f in frames if not f.filename.startswith(_HERE)]


def only_text(e):
    """The exception as a text like 'ValueError: text', without the traceback."""
    return "".join(traceback.format_exception_only(type(e), e)).rstrip()


def _story(e, seen, head="Traceback (most recent call last):"):
    """The tracebacks of e and of its causes, in the order in which Python prints them, without
    frames of skate; each begins with `head`."""
    out = []
    if id(e) in seen:
        return out
    seen.add(id(e))
    if e.__cause__ is not None:
        out += _story(e.__cause__, seen, head)
        out += [
            only_text(e.__cause__),
            "",
            "The above exception was the direct cause of the following exception:",
            "",
        ]
    elif e.__context__ is not None and not e.__suppress_context__:
        out += _story(e.__context__, seen, head)
        out += [
            only_text(e.__context__),
            "",
            "During handling of the above exception, another exception occurred:",
            "",
        ]
    frames = _frames(e.__traceback__)
    if not frames and not ex.told(e):  # an error of skate's own
        frames = traceback.extract_tb(e.__traceback__)[-1:]
    if frames or not head.startswith("Traceback"):
        out.append(head)
    if frames:
        out += "".join(traceback.format_list(frames)).rstrip().splitlines()
    return out


def _where(name, attempt):
    """(whether the running task belongs to a Dataset, the task in Ray's words: "ray::f() (pid=1,
    ip=127.0.0.1)")."""
    t, f = _skate.current_task(), _skate.current_function()
    more = f", attempt={attempt}" if attempt else ""
    of_data = False
    if f is not None and t is not None:
        of_data = (
            getattr(f[0] if isinstance(f, tuple) else f, "__module__", None) or ""
        ).startswith("skate.data")
        if of_data:
            name = t[2]
        elif t[1]:
            name, what = in_actor.described(f, t[1], name)
            more += what
    return of_data, f"ray::{name}() (pid={os.getpid()}, ip=127.0.0.1{more})"


_READ_ONLY = "\n(values from the object store are shared, and so read-only: write to a copy, x = x.copy() or numpy.array(x))"


def install_hint():
    """Installs an excepthook that adds _READ_ONLY as a note to the ValueError by which NumPy refuses
    a write into a shared array, if that error ends the program. Arrays from get() stay plain NumPy
    arrays, so the error itself cannot carry the hint."""
    before = sys.excepthook

    def hook(cls, e, tb):
        if isinstance(e, ValueError) and "read-only" in str(e) and _READ_ONLY not in str(e):
            e.add_note(_READ_ONLY[1:])
        before(cls, e, tb)

    hook.of_skate = True
    if not hasattr(before, "of_skate"):
        sys.excepthook = hook


# In characters, of at most 4 bytes each; the rest of ERROR_MAX is for the exception itself.
_HEAD_MAX, _STORY_MAX = 128 << 10, 64 << 10


def dumps_error(e, name, attempt):
    of_data, where = _where(name, attempt)
    hint = _READ_ONLY if isinstance(e, ValueError) and "read-only" in str(e) else ""
    if isinstance(e, ex.RayTaskError):  # from a get() of another task inside this task
        only, cause = f"ray.exceptions.{type(e).__name__}: {e}", vars(e).get("raised", e.cause)
    else:
        only, cause = only_text(e), e
    if of_data:  # a Dataset has many operators and rows: the error is shown first
        first = e.text if isinstance(e, ex.RayTaskError) else only + hint
        text = (
            short(first, _HEAD_MAX)
            + "\n"
            + short("\n".join([*_story(e, set()), f"task {where}"]), _STORY_MAX)
        )
    else:
        text = (
            short("\n".join(_story(e, set(), where)), _STORY_MAX)
            + "\n"
            + short(only + hint, _HEAD_MAX)
        )
    room = ERROR_MAX - len(text.encode("utf-8", "backslashreplace")) - len(name) - 200
    return pickle.dumps(
        (
            name,
            text.encode("utf-8", "backslashreplace").decode(),
            None if cause is None else cause_bytes(cause, room),
        ),
        5,
    )


def load_error(kind, data):
    name, text, cause = pickle.loads(data)
    try:
        cause = load_cause(cause) if cause is not None else None
    except Exception as e:  # the exception's class cannot be imported in this process
        said = f"{text}\n(the exception itself could not be loaded here: {only_text(e)})"
        if kind != 0xE2:
            return ex.UnserializableException(
                name,
                f"Failed to deserialize exception.\nOriginal exception:\nray.exceptions.RayTaskError: {said}",
            )
        cause, text = None, said
    text += ambient_environment.hint(cause) if cause is not None else ""
    if kind == 0xE2:
        e = ex.ActorDiedError(
            f"The actor died in __init__: an error raised in its creation task, {text}"
        )
        e.cause, e.actor_init_failed, e.told = cause, True, text
        return e
    if isinstance(cause, KeyboardInterrupt):  # the task was interrupted, not this program
        e = ex.TaskCancelledError(error_message=text)
        e.cause = cause  # pyright: ignore[reportAttributeAccessIssue]
        return e
    if cause is None:
        cause = ex.RayError(
            f"the exception itself isn't serializable: {text.splitlines()[-1] if text else ''}"
        )
    return ex.RayTaskError(name, text, cause).as_instanceof_cause()
