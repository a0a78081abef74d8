"""`stem schedule next`: an expression in words, and when it comes due."""

import pytest

from acceptance.shell import Shell

NINE = ("schedule", "next", "0 9 * * mon-fri", "--time-zone", "Europe/Berlin", "--after", "2026-10-23T00:00:00Z")


def test_it_says_the_expression_and_its_next_instants_locally_and_in_utc(shell: Shell) -> None:
    assert shell.out(*NINE, "-n", "2").splitlines() == [
        "At 09:00 on weekdays; local times are Europe/Berlin.",
        "",
        "day  local                      UTC",
        "Fri  2026-10-23T09:00:00+02:00  2026-10-23T07:00:00Z",
        "Mon  2026-10-26T09:00:00+01:00  2026-10-26T08:00:00Z",
    ]
    assert shell.files == []  # no store is opened


def test_as_json(shell: Shell) -> None:
    assert shell.json(*NINE, "-n", "1") == {
        "expression": "0 9 * * mon-fri",
        "words": "At 09:00 on weekdays",
        "timeZone": "Europe/Berlin",
        "next": [{"local": "2026-10-23T09:00:00+02:00", "utc": "2026-10-23T07:00:00Z"}],
    }


def test_five_are_shown_from_now_unless_told_otherwise(shell: Shell) -> None:
    assert len(shell.json("schedule", "next", "every 90s")["next"]) == 5


def test_a_solar_entry_takes_a_place(shell: Shell) -> None:
    place = ("--latitude", "-33.87", "--longitude", "151.21", "--time-zone", "Australia/Sydney")
    found = shell.json("schedule", "next", "sunrise", *place, "--after", "2024-12-21T13:00:00Z", "-n", "1")
    assert found["next"][0]["local"].startswith("2024-12-22T05:4")


def test_a_moment_that_has_passed_does_not_come_again(shell: Shell) -> None:
    assert "It does not come again." in shell.out("schedule", "next", "at 2020-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("0 0 31 2 *",), "never comes"),
        (("1--100000000 * * * *",), "is no minute"),
        (("* * *",), "has 3 fields"),
        (("@reboot",), "`on_start`"),
        (("@daily", "--time-zone", "Mars/Olympus"), "is not a time zone"),
        (("@daily", "--after", "2026-01-01T00:00:00"), "has no time zone"),
        (("@daily", "-n", "0"), "'-n'"),
        (("sunset",), "needs a place"),
        (("sunset", "--latitude", "nan", "--longitude", "0"), "-90 to 90"),
        ((), "Missing argument 'EXPRESSION'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exits_64(shell: Shell, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in shell.refusal("schedule", "next", *words, code=64)
