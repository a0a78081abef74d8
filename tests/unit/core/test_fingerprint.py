"""Which errors count as the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.text.fingerprint import fingerprint, normalised

SAME = [
    ("No user 17.", "No user 40213."),
    ("Took 1.5 s of 30", "Took -2e-9 s of 3,000"),
    ("order 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 is gone", "order 5c1b7a2e-0000-4d44-8b0a-3f6a5b2c1dff is gone"),
    ("<Thing object at 0x7f0a11>", "<Thing object at 0xDEADBEEF>"),
    ("commit 9fceb02d0ae598e9 not found", "commit a1b2c3d4e5f6 not found"),
    ("No such file: '/tmp/a b.txt'", "No such file: '/var/lib/it.csv'"),
    ("cannot open /tmp/x/report.csv: denied", "cannot open ./data/2026-01-02.csv: denied"),
    (r"cannot open C:\Users\ada\x.csv", r"cannot open D:\y.csv"),
    ("GET https://a.example/x?y=1 gave 502", "GET http://b.example:8080/ gave 503"),
    ('column "total" is missing', "column \"a 'quoted' name\" is missing"),
    ("'user-17'", "'user-18'"),  # a KeyError whose key is data
    ("'2026-01-01'", "'Ada Lovelace'"),
    ("No user named 'ada'", "No user named 'grace'"),
    ("timed out\n  after 3 s ", "timed out after 4 s"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_numbers_ids_paths_addresses_and_quoted_text_do_not_count(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert fingerprint("ValueError", one) == fingerprint("ValueError", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("No user 17.", "No order 17."),
        ("can't read 'a'", "can't write 'a'"),
        ("and/or", "either/or"),
        ("the face is decade-old", "the feed is decade-old"),
        ("'country'", "'price'"),  # as a KeyError says it
        ("'NoneType' object has no attribute 'name'", "'NoneType' object has no attribute 'price'"),
        ("send() got an unexpected keyword argument 'to'", "send() got an unexpected keyword argument 'cc'"),
    ],
)
def test_words_count(one: str, other: str) -> None:
    assert fingerprint("ValueError", one) != fingerprint("ValueError", other)


def test_the_type_of_the_error_counts() -> None:
    assert fingerprint("ValueError", "boom") != fingerprint("KeyError", "boom")


def test_a_message_as_the_log_cuts_it_and_the_whole_one_are_the_same_error() -> None:
    whole = "row refused: " + "word " * 200
    assert fingerprint("ValueError", whole) == fingerprint("ValueError", whole[:500])


@given(st.text(max_size=600))
def test_every_message_has_a_short_fingerprint_of_plain_hexadecimal_digits(message: str) -> None:
    assert len(fingerprint("E", message)) == 12
    assert set(fingerprint("E", message)) <= set("0123456789abcdef")
    assert len(normalised(message)) <= 200
