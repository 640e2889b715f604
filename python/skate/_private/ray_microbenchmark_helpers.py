"""What Ray's microbenchmarks measure with, under Ray's names: calls of a function in a second."""

import os
import statistics
import time
from contextlib import contextmanager

import skate
from skate._deps import asyncio

WARM_UP_S, ROUND_S, ROUNDS = 1.0, 2.0, 4
filter_pattern = os.environ.get("TESTS_TO_RUN", "")
skip_pattern = os.environ.get("TESTS_TO_SKIP", "")


def _wanted(name):
    return filter_pattern in name and not (skip_pattern and skip_pattern in name)


def _told(name, rates):
    mean, spread = statistics.fmean(rates), statistics.pstdev(rates)
    print(name, "per second", round(mean, 2), "+-", round(spread, 2), flush=True)
    return [(name, mean, spread)]


def timeit(name, fn, multiplier=1, warmup_time_sec=10):
    """[(name, mean, spread)] of fn's calls per second, times `multiplier` (what one call does),
    printed; [None] when TESTS_TO_RUN or TESTS_TO_SKIP leave it out. After warmup_time_sec seconds
    of rest and a second of calls, four rounds of two seconds."""
    if not _wanted(name):
        return [None]
    time.sleep(warmup_time_sec)

    def calls(seconds, at_a_time):
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(at_a_time):
                fn()
            n += at_a_time
        return n, time.perf_counter() - start

    at_a_time = calls(WARM_UP_S, 1)[0] // 10 + 1  # the clock is read ten times a second
    rounds = [calls(ROUND_S, at_a_time) for _ in range(ROUNDS)]
    return _told(name, [multiplier * n / s for n, s in rounds])


async def asyncio_timeit(name, async_fn, multiplier=1, warmup_time_sec=10):
    """timeit() of a coroutine function."""
    if not _wanted(name):
        return [None]
    await asyncio.sleep(warmup_time_sec)

    async def calls(seconds, at_a_time):
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(at_a_time):
                await async_fn()
            n += at_a_time
        return n, time.perf_counter() - start

    at_a_time = (await calls(WARM_UP_S, 1))[0] // 10 + 1
    rounds = [await calls(ROUND_S, at_a_time) for _ in range(ROUNDS)]
    return _told(name, [multiplier * n / s for n, s in rounds])


@contextmanager
def ray_setup_and_teardown(**init_args):
    """An engine for the length of the block."""
    skate.init(**init_args)
    try:
        yield None
    finally:
        skate.shutdown()
