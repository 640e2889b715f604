"""Functions of the extension that read their arguments by a table (src/py/core/core.h): each error
names the function and the field, and says which values are allowed."""

import math
import os
import subprocess
import sys

import pytest
from cases import case
from skate import _skate


class Odd:
    def __index__(self):
        raise LookupError("its own")


class Number:
    def __index__(self):
        return 7

    def __float__(self):
        return 7.0


def template(*args, **kw):
    return _skate.Template(*(args or ("task", len, "x")), **kw)


def refused(kind, message, call, *args, **kw):
    with case(message), pytest.raises(kind) as e:
        call(*args, **kw)
    assert str(e.value) == message


def test_every_type_says_what_it_wants():
    for kw, kind, says in (
        ({"max_retries": "3"}, TypeError, "'max_retries' must be an int, not str"),
        ({"max_retries": 3.0}, TypeError, "'max_retries' must be an int, not float"),
        (
            {"max_retries": 2**31},
            ValueError,
            "'max_retries' must be -2147483648 to 2147483647, not 2147483648",
        ),
        (
            {"max_retries": 2**70},
            ValueError,
            f"'max_retries' must be -2147483648 to 2147483647, not {2**70}",
        ),
        ({"stream_window": -1}, ValueError, "'stream_window' must be 0 to 4294967295, not -1"),
        ({"pg": -1}, ValueError, "'pg' must be 0 to 18446744073709551615, not -1"),
        ({"pg": "a"}, TypeError, "'pg' must be an int, not str"),
        ({"num_cpus": -1}, ValueError, "'num_cpus' must be a number >= 0, not -1"),
        ({"num_cpus": math.nan}, ValueError, "'num_cpus' must be a number >= 0, not nan"),
        (
            {"num_cpus": math.inf},
            ValueError,
            "'num_cpus' must be a number >= 0 of at most 9.2e+14, not inf",
        ),
        (
            {"memory": 10**400},
            ValueError,
            f"'memory' must be a number >= 0 of at most 9.2e+18, not {10**400}",
        ),
        ({"num_gpus": "1"}, TypeError, "'num_gpus' must be a number, not str"),
        ({"resources": [1]}, TypeError, "'resources' must be dict, not list"),
        ({"env": "x"}, TypeError, "'env' must be bytes, not str"),
        ({"nope": 1}, TypeError, None),
    ):
        refused(
            kind,
            "Template has no argument 'nope'" if says is None else f"Template: {says}",
            template,
            **kw,
        )
    refused(TypeError, "Template: 'name' must be str, not int", template, "task", len, 1)
    refused(TypeError, "Template: 'kind' must be a str, not int", template, 1, len, "x")
    refused(
        ValueError,
        "Template: 'kind' must have no NUL character: 'task\\x00'",
        template,
        "task\0",
        len,
        "x",
    )
    refused(
        ValueError,
        "Template: 'kind' must be task, actor or method, not 'what'",
        template,
        "what",
        len,
        "x",
    )
    refused(
        TypeError,
        "Template: 'target' of a method must be (ActorToken, name[, classes])",
        template,
        "method",
        len,
        "x",
    )


def test_how_they_are_given():
    refused(TypeError, "Template: 'name' is missing", template, "task", len)
    refused(
        TypeError, "Template takes 3 arguments by position, not 4", template, "task", len, "x", 1
    )
    refused(
        TypeError,
        "Template: 'name' is given by position and by name",
        template,
        "task",
        len,
        "x",
        name="y",
    )
    refused(TypeError, "Template: 'name' must be str, not NoneType", template, "task", len, None)
    assert _skate.Template(kind="task", target=len, name="x") is not None
    # None counts as not given
    assert (
        template(num_cpus=None, max_retries=None, resources=None, retry_exceptions=None) is not None
    )


def test_what_is_a_number_by_its_methods_is_one():
    assert (
        template(max_retries=Number(), stream_window=Number(), pg=Number(), num_cpus=Number())
        is not None
    )
    for name in ("max_retries", "pg"):
        with case(name), pytest.raises(LookupError, match="its own"):
            template(**{name: Odd()})


PLAN = """
import skate
from skate import _skate
skate.init()
p = _skate.Plan()
for args, kw in (
    (("read", "x", b"", (0,)), {"source": True}),
    (("filter", "x", b"", ()), {"sorce": True}),
    (("filter", "x", "", ()), {}),
    (("filter", "x", b"", ()), {"max_tasks": -1}),
    (("filter", "x", b"", ()), {"limit": 2**63}),
    (("filter", "x", b"", ()), {"pool": (1,)}),
    (("filter", "x", b"", ()), {"pool": (-1, 1)}),
    (("filter", "x", b"", ()), {"units": ()}),
    (("filter", "x", b""), {}),
):
    try: p.add(*args, **kw)
    except (TypeError, ValueError) as e: print(f"{type(e).__name__}: {e}")
for conf in {"consumer_blocks": -1}, {"skip_units": "x"}, {"no_such": 1}:
    try: _skate.Exec(p, p.add("blocks", "x", b"", (), blocks=[], source=True), conf)
    except (TypeError, ValueError) as e: print(f"{type(e).__name__}: {e}")
skate.shutdown()
for conf in {"num_cpus": "x"}, {"argv": [1]}, {"preload": "x"}, {"engine": "none"}, {"resources": 1}:
    try: _skate.init(conf)
    except (TypeError, ValueError) as e: print(f"{type(e).__name__}: {e}")
"""


def test_plans_runs_and_engines():
    run = subprocess.run(
        [sys.executable, "-c", PLAN],
        env={**os.environ, "SKATE_ENGINE": "inline"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.splitlines() == [
        "ValueError: x: takes 0 to 0 inputs, has 1",
        "TypeError: add has no argument 'sorce'",
        "TypeError: add: 'params' must be bytes, not str",
        "ValueError: add: 'max_tasks' must be 0 to 4294967295, not -1",
        f"ValueError: add: 'limit' must be {-(2**63)} to {2**63 - 1}, not {2**63}",
        "TypeError: add: 'pool' must be (least, most)",
        "ValueError: add: 'pool' must be (least, most), not (-1, 1)",
        "TypeError: add: 'units' must be list, not tuple",
        "TypeError: add: 'inputs' is missing",
        "ValueError: Exec: 'consumer_blocks' must be 0 to 4294967295, not -1",
        "TypeError: Exec: 'skip_units' must be bytes, not str",
        "TypeError: Exec has no argument 'no_such'",
        "TypeError: init: 'num_cpus' must be a number, not str",
        "TypeError: init: 'argv' must be a list of str, not of int",
        "TypeError: init: 'preload' must be bytes, not str",
        'ValueError: there is no engine "none"',
        "TypeError: init: 'resources' must be dict, not int",
    ], run.stderr
