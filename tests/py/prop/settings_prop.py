"""Property tests: random input against a naive model. SKATE_TEST_ROUNDS=n runs n times the examples; the seed of a failure is printed by hypothesis."""

import os

from hypothesis import HealthCheck, settings

ROUNDS = int(os.environ.get("SKATE_TEST_ROUNDS", 1))


def examples(n):
    """Settings of a test with n examples in the default run."""
    return settings(max_examples=n * ROUNDS, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck))
