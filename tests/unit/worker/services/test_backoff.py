"""A store that fails is left in peace, longer each time, and not for long."""

from stem.runtime.backoff import FIRST_SECONDS, MOST_SECONDS, Backoff


def test_each_failure_waits_longer_up_to_a_bound() -> None:
    backoff = Backoff("claiming")
    assert not backoff.is_failing
    waits = [backoff.failed() for _ in range(50)]
    assert backoff.is_failing
    for number, wait in enumerate(waits):
        full = min(MOST_SECONDS, FIRST_SECONDS * 2**number)
        assert full / 2 <= wait <= full
    assert len(set(waits[10:])) > 1  # never the same for two workers


def test_a_success_begins_anew() -> None:
    backoff = Backoff("claiming")
    for _ in range(5):
        backoff.failed()
    backoff.succeeded()
    assert not backoff.is_failing
    assert backoff.failed() <= FIRST_SECONDS
