"""Campaigns: tests of random input, each of any length. `./dev test` runs a few rounds of each,
`./dev soak` repeats them.

SKATE_TEST_ROUNDS=n multiplies the rounds of all of them, and their deadlines; SKATE_TEST_SEED=n
repeats a run that printed n. hypothesis prints how to repeat its own."""

import os
import random

import pytest

FACTOR = max(1, int(os.environ.get("SKATE_TEST_ROUNDS", 1)))
QUICK = os.environ.get("SK_TEST_QUICK") == "1"


def rounds(usual):
    """The number of rounds of a test that has `usual` rounds in `./dev test`; in `./dev quick` a
    quarter of it."""
    return max(1, usual // 4) if QUICK else usual * FACTOR


def campaign(seconds=300):
    """Marks a test that has rounds(); `seconds` is the deadline for its usual rounds (it ends tests
    that hang, and measures nothing)."""

    def mark(f):
        return pytest.mark.campaign(pytest.mark.timeout(seconds * FACTOR)(f))

    return mark


def examples(usual, seconds=300):
    """The same for a test of hypothesis with `usual` examples."""
    # not at import, because workers import the modules of the functions that they run
    from hypothesis import HealthCheck, settings

    how = settings(
        max_examples=rounds(usual),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )

    def mark(f):
        return campaign(seconds)(how(f))

    return mark


def seed():
    """The value of SKATE_TEST_SEED, or a random one; prints it."""
    n = int(os.environ.get("SKATE_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
    print(f"SKATE_TEST_SEED={n}")
    return n
