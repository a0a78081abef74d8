"""Scopes of a pause: who leaves a queue alone, and who goes on."""

import pytest

from stem.core.pause import ALL, covers, narrowed, widened


@pytest.mark.parametrize(
    ("scope", "paused", "going"),
    [
        (widened("", []), ["a", "b"], []),
        (widened("", ["a"]), ["a"], ["b"]),
        (widened("a", ["b"]), ["a", "b"], ["c"]),
        (narrowed(ALL, ["a"]), ["b"], ["a"]),
        (widened(narrowed(ALL, ["a"]), ["a"]), ["a", "b"], []),
        (widened(narrowed(ALL, ["a"]), []), ["a", "b"], []),
        (narrowed("a,b", ["a"]), ["b"], ["a"]),
        (narrowed(ALL, []), [], ["a", "b"]),
        (narrowed("a", ["a"]), [], ["a"]),
    ],
)
def test_a_scope_covers_whom_it_was_made_for(scope: str, paused: list[str], going: list[str]) -> None:
    assert [name for name in ["a", "b", "c"] if name in paused and covers(scope, name)] == paused
    assert not any(covers(scope, name) for name in going)
