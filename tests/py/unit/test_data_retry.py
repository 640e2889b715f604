"""Which reads and writes are retried, how long the waits are, and when skate gives up."""

import errno

import pytest
from skate.data.files import retry


@pytest.fixture(autouse=True)
def whole_budget():
    retry.begin()
    yield
    retry.begin()


@pytest.mark.parametrize(
    ("e", "kind"),
    [
        (
            OSError(
                "AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate."
            ),
            "throttled",
        ),
        (
            OSError(
                "AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body."
            ),
            "service",
        ),
        (
            OSError(
                "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout was reached"
            ),
            "connection",
        ),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "connection"),
        (TimeoutError("x"), "connection"),
        (OSError(errno.EPIPE, "pipe"), "connection"),
        (FileNotFoundError(2, "HTTP status 503"), None),
        (PermissionError(13, "no"), None),
        (OSError("AWS Error ACCESS_DENIED during GetObject operation"), None),
        (OSError(errno.ENOSPC, "full"), None),
        (ValueError("HTTP status 503"), None),
        (ValueError("my own trouble"), "listed"),
    ],
)
def test_what_may_pass(e, kind):
    assert retry.passing(e, ["my own trouble"]) == kind


def test_waits_double_within_a_budget(monkeypatch):
    asked = []
    monkeypatch.setattr(retry.random, "uniform", lambda a, b: asked.append((a, b)) or 0.0)
    left = [ConnectionError("a")] * 8

    def work():
        if left:
            raise left.pop()
        return 7

    before = retry.counts.tries
    assert retry.retried(work, "w", []) == 7
    assert (
        asked[0] == (0, retry.FIRST_S)
        and asked[1] == (0, 2 * retry.FIRST_S)
        and asked[-1] == (0, retry.LONGEST_S)
    )
    assert retry.counts.tries - before == 8
    # the wait exceeds the remaining budget: the error is raised without waiting
    monkeypatch.setattr(retry.random, "uniform", lambda a, b: retry.BUDGET_S + 1)
    with pytest.raises(ConnectionError) as e:
        retry.retried(lambda: (_ for _ in ()).throw(ConnectionError("down")), "w", [])
    assert getattr(e.value, "__notes__", []) == [] and retry.counts.tries - before == 8


def test_what_stays_is_not_tried_again():
    calls = []
    with pytest.raises(PermissionError):
        retry.retried(
            lambda: calls.append(1) or (_ for _ in ()).throw(PermissionError("no")), "w", []
        )
    assert calls == [1]
