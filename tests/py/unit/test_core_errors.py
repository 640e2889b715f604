"""RayTaskError, texts of errors, pickled errors, without an engine."""

import os
import pickle

import pytest
from skate import exceptions as ex
from skate.calls import user_errors


class Picky(Exception):
    def __new__(cls, a, b):
        return super().__new__(cls)

    def __init__(self, a, b):
        self.a, self.b = a, b


def raised(e):
    try:
        raise e
    except BaseException as x:
        return x


def through(e, kind=0xE1, name="f", attempt=0):
    return user_errors.load_error(kind, user_errors.dumps_error(raised(e), name, attempt))


@pytest.mark.parametrize(
    "cls",
    [
        ValueError,
        KeyError,
        OSError,
        FileNotFoundError,
        MemoryError,
        StopIteration,
        SyntaxError,
        ImportError,
        ZeroDivisionError,
        RecursionError,
        SystemExit,
        GeneratorExit,
        ex.GetTimeoutError,
        ExceptionGroup,
        UnicodeDecodeError,
    ],
)
def test_every_class_is_mixed_in(cls):
    e = (
        cls("x", [ValueError(1)])
        if cls is ExceptionGroup
        else cls("ascii", b"x", 0, 1, "y")
        if cls is UnicodeDecodeError
        else cls("x")
    )
    got = through(e)
    assert isinstance(got, cls) and isinstance(got, ex.RayTaskError) and isinstance(got, Exception)
    assert type(got.cause) is cls
    assert got.as_instanceof_cause() is got


def test_an_interrupted_task_is_a_cancelled_one():
    got = through(KeyboardInterrupt("x"))
    assert (
        type(got) is ex.TaskCancelledError
        and type(got.cause) is KeyboardInterrupt
        and "KeyboardInterrupt: x" in str(got)
    )


def test_text():
    e = through(ValueError("some message"), name="my_task", attempt=2)
    lines = str(e).splitlines()
    assert lines[0] == f"ray::my_task() (pid={os.getpid()}, ip=127.0.0.1, attempt=2)"
    assert "in raised" in lines[1]
    assert lines[-1] == "ValueError: some message"
    assert type(e).__name__ == "RayTaskError(ValueError)"
    assert e.args == (e.cause,)


def test_attributes_of_the_cause():
    e = through(FileNotFoundError(2, "no", "path"))
    assert (e.cause.errno, e.cause.filename) == (2, "path")
    e = raised(ValueError("x"))
    e.extra = 5
    assert through(e).extra == 5
    with pytest.raises(AttributeError):
        _ = through(e).missing


def test_a_dual_error_can_be_pickled_again():
    e = pickle.loads(pickle.dumps(through(KeyError("k"))))
    assert isinstance(e, KeyError) and isinstance(e, ex.RayTaskError) and e.cause.args == ("k",)
    e = pickle.loads(pickle.dumps(ex.RayTaskError("text")))
    assert type(e) is ex.RayTaskError and str(e) == "text"


def test_a_class_that_cannot_be_made_again():
    e = through(Picky(1, 2))
    assert isinstance(e, ex.RayTaskError) and "Picky" in str(e)


def test_long_errors_fit_into_a_message():
    for e in (
        ValueError("x" * 3_000_000),
        ValueError(*["y" * 900_000] * 10),
        OSError(5, "é" * 1_500_000),
        ValueError("\U0001f40d" * 900_000),
    ):
        data = user_errors.dumps_error(raised(e), "f" * 10, 0)
        assert len(data) <= 1 << 20
        got = user_errors.load_error(0xE1, data)
        assert isinstance(got, type(e)) and "characters left out" in str(got)

    def deep(n):
        if n == 0:
            raise ValueError("bottom")
        deep(n - 1)

    try:
        deep(500)
    except ValueError as e:
        assert len(user_errors.dumps_error(e, "f", 0)) <= 1 << 20


def test_errors_arrive_whole():
    for e in (ValueError("x" * 100_000), ValueError(*["y" * 9000] * 10), OSError(5, "é" * 50_000)):
        got = user_errors.load_error(0xE1, user_errors.dumps_error(raised(e), "f", 0))
        assert isinstance(got, type(e)) and got.cause.args == e.args and str(e) in str(got)


def test_chains():
    try:
        try:
            raise KeyError("first")
        except KeyError as e:
            raise RuntimeError("second") from e
    except RuntimeError as e:
        text = str(user_errors.load_error(0xE1, user_errors.dumps_error(e, "f", 0)))
    parts = text.split(
        "\n\nThe above exception was the direct cause of the following exception:\n\n"
    )
    assert len(parts) == 2 and all(p.startswith("ray::f() (pid=") for p in parts)
    assert parts[0].endswith("KeyError: 'first'") and parts[1].endswith("RuntimeError: second")


def test_an_error_of_an_error():
    inner = through(ValueError("deep"), name="inner")
    outer = through(inner, name="outer")
    assert isinstance(outer, ValueError)
    lines = str(outer).splitlines()
    assert lines[0].startswith("ray::outer() (pid=") and lines[-1] == "ValueError: deep"
    assert [
        x
        for x in lines
        if x.startswith("ray.exceptions.RayTaskError(ValueError): ray::inner() (pid=")
    ]
    assert type(outer.cause) is ValueError


def test_a_constructors_error():
    e = through(ValueError("no"), kind=0xE2)
    assert (
        type(e) is ex.ActorDiedError
        and str(e).endswith("ValueError: no")
        and isinstance(e.cause, ValueError)
    )


def test_family():
    assert issubclass(ex.GetTimeoutError, TimeoutError) and issubclass(
        ex.ActorDiedError, ex.RayActorError
    )
    for name in (
        "RayError",
        "RayTaskError",
        "TaskCancelledError",
        "GetTimeoutError",
        "WorkerCrashedError",
        "RayActorError",
        "ActorDiedError",
        "ActorUnavailableError",
        "ObjectStoreFullError",
        "ObjectLostError",
        "OutOfMemoryError",
        "OwnerDiedError",
        "TaskUnschedulableError",
        "RaySystemError",
        "RuntimeEnvSetupError",
        "OutOfDiskError",
        "PendingCallsLimitExceeded",
        "ActorUnschedulableError",
    ):
        assert issubclass(getattr(ex, name), ex.RayError)
        assert (
            str(getattr(ex, name)(*(("0a",) if name == "RayActorError" else ()), "text")) == "text"
        )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise ValueError('é')", True),
        ("if 'é': raise ValueError('x')", True),
        ("raise ValueError(\n  'x'\n) from None", True),
        ("def refused():\n  raise ValueError\nrefused()", True),
        ("try:\n  raise ValueError\nfinally:\n  pass", True),
        ("int('x')", False),
        ("raise ValueError(int('x'))", False),
        ("raised = int\nraised('x')", False),
        ("assert False", False),
        ("raise AssertionError", False),
    ],
)
def test_what_skate_raises_is_told_and_what_goes_wrong_in_it_is_not(
    tmp_path, monkeypatch, source, told
):
    monkeypatch.setattr(ex, "_HOME", str(tmp_path))
    for folder, expected in ((tmp_path, told), (tmp_path.parent, False)):
        (file := folder / "a_module.py").write_text(source)
        with pytest.raises(Exception) as e:
            exec(compile(source, str(file), "exec"), {})
        assert ex.told(e.value) is expected
