"""Which failures are worth a retry: the task's classes before the app's, and the exception's own word."""

from typing import Any

import pytest

from stem import InvalidTask, Stem
from stem.client.run.attempt import attempt
from stem.core.outcome import Dead, Retry
from stem.testing import StoreChannel


class Final(ConnectionError):
    retryable = False


class Sure(ValueError):
    retryable = True


def is_retried(app: Stem, error: BaseException, **options: Any) -> bool:
    def it() -> None:
        raise error

    app.task(name=f"it{len(app.tasks)}", **options)(it).enqueue()
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    settlement = attempt(app, delivery, StoreChannel(app.store, delivery.lease), worker="w").settlement
    if isinstance(settlement, Dead):
        assert settlement.reason == "not-retryable"
        assert not settlement.error.retryable
        return False
    assert isinstance(settlement, Retry)
    return True


@pytest.mark.parametrize(
    ("options", "error", "retried"),
    [
        ({}, ValueError(), True),
        ({"retry_on": ConnectionError}, ConnectionResetError(), True),
        ({"retry_on": ConnectionError}, ValueError(), False),
        ({"retry_on": (ConnectionError, ValueError)}, UnicodeError(), True),
        ({"retry_on": [ConnectionError, ValueError]}, UnicodeError(), True),
        ({"retry_on": Exception}, SystemExit(), False),
        ({"no_retry_on": ValueError}, UnicodeError(), False),
        ({"no_retry_on": ValueError}, KeyError(), True),
        ({"no_retry_on": (ValueError, KeyError)}, KeyError(), False),
        ({"no_retry_on": ()}, KeyError(), True),
        ({"retry_on": OSError, "no_retry_on": ConnectionError}, ConnectionResetError(), False),
        ({"retry_on": OSError, "no_retry_on": ConnectionError}, FileNotFoundError(), True),
        ({"retry_on": ConnectionError}, Final(), False),
        ({"no_retry_on": ValueError}, Sure(), False),
        ({"retry_on": ConnectionError}, Sure(), False),
        ({"no_retry_on": BaseException}, MemoryError(), False),
    ],
)
def test_the_classes_decide(app: Stem, options: dict[str, Any], error: BaseException, retried: bool) -> None:
    assert is_retried(app, error, **options) is retried


def test_the_task_counts_before_the_app_option_by_option() -> None:
    with Stem("memory://classes-app", retry_on=OSError, no_retry_on=FileNotFoundError) as app:
        assert is_retried(app, ConnectionError())
        assert not is_retried(app, ValueError())
        assert not is_retried(app, FileNotFoundError())
        assert is_retried(app, ValueError(), retry_on=Exception)
        assert not is_retried(app, FileNotFoundError(), retry_on=Exception)
        assert is_retried(app, FileNotFoundError(), no_retry_on=())


@pytest.mark.parametrize("wrong", [5, "ValueError", ValueError("no"), int, [int], (ValueError, None)])
@pytest.mark.parametrize("option", ["retry_on", "no_retry_on"])
def test_an_option_that_is_no_exception_class_is_refused_with_a_sentence(app: Stem, option: str, wrong: Any) -> None:
    sentence = f"{option} holds .*; give an exception class, or a tuple of them"
    with pytest.raises(InvalidTask, match=sentence):
        app.task(name="it", **{option: wrong})(lambda: None)
    with pytest.raises(InvalidTask, match=sentence):
        Stem("memory://classes-wrong", **{option: wrong})


def test_to_retry_on_nothing_is_said_otherwise(app: Stem) -> None:
    with pytest.raises(InvalidTask, match=r"retry_on is empty; .* or set max_retries=0"):
        app.task(name="it", retry_on=())(lambda: None)


def test_classes_cannot_travel_with_a_call(app: Stem) -> None:
    work = app.task(name="it")(lambda: None)
    with pytest.raises(InvalidTask, match="There is no option 'retry_on'"):
        work.options(retry_on=ValueError)  # type: ignore[call-arg]
