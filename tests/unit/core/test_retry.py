"""How long to wait before the next attempt."""

from hypothesis import given
from hypothesis import strategies as st

from stem.core.decisions.retry import Delays, Exponential, Fixed, delay

attempts = st.integers(0, 100_000)
random_fractions = st.floats(0, 1, exclude_max=True)
exponentials = st.builds(Exponential, st.floats(0.001, 1000), st.floats(0.001, 1e6), st.floats(0, 1))


@given(exponentials, attempts, random_fractions)
def test_an_exponential_delay_stays_between_nothing_and_its_cap(
    strategy: Exponential, attempt: int, random_fraction: float
) -> None:
    assert 0 <= delay(strategy, attempt, random_fraction) <= strategy.cap_seconds


@given(exponentials, attempts)
def test_without_luck_an_exponential_delay_never_shrinks(strategy: Exponential, attempt: int) -> None:
    assert delay(strategy, attempt, 0.0) <= delay(strategy, attempt + 1, 0.0)


@given(exponentials, attempts, random_fractions)
def test_jitter_takes_no_more_than_its_share(strategy: Exponential, attempt: int, random_fraction: float) -> None:
    full = delay(strategy, attempt, 0.0)
    assert full * (1 - strategy.jitter) * 0.999999 <= delay(strategy, attempt, random_fraction) <= full


def test_an_exponential_delay_doubles_up_to_the_cap() -> None:
    strategy = Exponential(2.0, 20.0, jitter=0.0)
    assert [delay(strategy, n, 0.9) for n in range(6)] == [2, 4, 8, 16, 20, 20]


@given(st.floats(0, 1e6), attempts, random_fractions)
def test_a_fixed_delay_is_fixed(seconds: float, attempt: int, random_fraction: float) -> None:
    assert delay(Fixed(seconds), attempt, random_fraction) == seconds


@given(st.lists(st.floats(0, 1e6), min_size=1), attempts, random_fractions)
def test_listed_delays_go_in_order_and_the_last_repeats(
    steps: list[float], attempt: int, random_fraction: float
) -> None:
    assert delay(Delays(tuple(steps)), attempt, random_fraction) == (
        steps[attempt] if attempt < len(steps) else steps[-1]
    )


def test_an_empty_list_of_delays_does_not_wait() -> None:
    assert delay(Delays(()), 3, 0.5) == 0.0
