"""When a run is reported as stalled (skate/data/run/stall.py): the policy on simulated machines."""

import random

import pytest
from skate.data.run.stall import WORKING_S, Quiet, Sample

# What a worker does in a second: (seconds on a CPU or waiting for one, bytes read or written,
# whether it waits for a disk).
AT_WORK = {
    "computes": lambda r: (1.0, 0, False),
    # mostly waiting for a CPU
    "computes on a loaded machine": lambda r: (r.uniform(0.9, 1.0), 0, False),
    "computes and sleeps": lambda r: (r.uniform(0.05, 1.0), 0, False),
    "reads": lambda r: (0.001, r.randrange(1, 1 << 20), False),
    "waits for a disk": lambda r: (0.0, 0, True),
}


def run(seed, seconds, work, late=0.0, longest=0.0):
    """Returns the seconds of quiet at which a warning was given. work: a function from the time to
    what the worker does in a second."""
    r = random.Random(seed)
    q, s, at, told = Quiet(), Sample(), 0.0, []
    while at < seconds:
        dt = r.choice([0.2, 1.0]) * r.uniform(1.0, 1.5 if not late else 3.0)
        at += dt
        worked, n, disk = work(at)
        s = Sample(s.worked_s + worked * dt, s.io_bytes + n, disk, s.late_s + late * dt)
        if q.wants(at) and q.look(at, s, longest):
            told.append(at)
    return told


@pytest.mark.parametrize("what", AT_WORK)
def test_who_works_is_not_stalled(what):
    for seed in range(200):
        r = random.Random(seed)
        state = [0.0, AT_WORK[what](r)]

        def work(at, state=state, r=r):
            if at - state[0] > 1.0:
                state[:] = [at, AT_WORK[what](r)]
            return state[1]

        told = run(seed, 55, work)
        assert told == [], (what, seed, told)
    # a computation without end is reported, too
    assert run(1, 200, lambda at: (1.0, 0, False))[0] == pytest.approx(WORKING_S, abs=3.1)


def test_a_stall_is_told_at_once_and_then_seldom():
    for seed in range(200):
        told = run(seed, 100, lambda at: (0.0, 0, False))
        assert (
            3 <= told[0] <= 7
            and all(b >= 2 * a for a, b in zip(told, told[1:], strict=False))
            and 4 <= len(told) <= 6
        )
        began = random.Random(seed).uniform(5, 30)  # until then it computed, then it stopped
        told = run(seed, 100, lambda at, began=began: (1.0 if at < began else 0.0, 0, False))
        assert began + 1.5 <= told[0] <= began + 7


def test_a_process_that_is_late_itself_says_nothing():
    for seed in range(100):
        assert run(seed, 55, lambda at: (0.0, 0, False), late=0.6) == []


def test_tasks_that_take_long_are_given_the_time_that_they_took_before():
    told = run(3, 100, lambda at: (0.0, 0, False), longest=10.0)
    assert told[0] == pytest.approx(30, abs=2)


def test_what_moves_begins_it_anew():
    q = Quiet()
    assert q.wants(4.0) and not q.look(4.0, Sample()) and q.wants(5.0) and q.look(5.0, Sample())
    assert (
        not q.wants(0.1)
        and q.wants(3.5)
        and not q.look(3.5, Sample())
        and q.wants(4.5)
        and q.look(4.5, Sample())
    )


def test_who_draws_often_looks_once_a_second():
    q, looks = Quiet(), []
    for tick in range(1, 300):
        at = tick / 5
        if q.wants(at):
            q.look(at, Sample())
            looks.append(at)
    assert (
        3 <= looks[0] <= 3.2
        and looks[-1] > 58
        and all(b - a >= 1.0 for a, b in zip(looks, looks[1:], strict=False))
    )
