"""Logins and sessions hold against many requests at once, changed passwords and odd headers."""

import http.client
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import url_of
from stem import Stem
from stem.dashboard import Access
from stem.dashboard.access.attempts import TRIES, LoginAttempts
from stem.dashboard.access.passwords import write_password
from stem.dashboard.pages import login
from support.builders import a_push
from support.web.dashboards import ServedDashboard, served

PASSWORD = "correct horse battery"


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(url_of("sqlite", request, tmp_path), namespace=namespace) as made:
        yield made


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "passwords"
    write_password(path, "ada", "operator", PASSWORD)
    return path


def log_in(board: ServedDashboard, password: str = PASSWORD) -> None:
    answer = board.post("/login", {"name": "ada", "password": password})
    assert answer.status == 303, answer.words
    board.headers["Cookie"] = answer.headers["set-cookie"].split(";")[0]


def test_guesses_that_come_at_once_are_counted_like_others(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords)) as board, ThreadPoolExecutor(20) as pool:
        form = {"name": "ada", "password": "guess"}
        found = list(pool.map(lambda _: board.post("/login", form).status, range(20)))
        assert sorted(found) == [401] * TRIES + [429] * (20 - TRIES)


def test_an_attempt_that_succeeds_is_given_back() -> None:
    attempts = LoginAttempts()
    for _ in range(3 * TRIES):
        assert attempts.take("192.0.2.1") == 0
        attempts.give_back("192.0.2.1")
    assert [attempts.take("192.0.2.1") > 0 for _ in range(TRIES + 1)] == [False] * TRIES + [True]


def test_logins_beyond_those_that_may_wait_are_refused(
    app: Stem, passwords: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "MOST_WAITING", -1)
    with served(app, Access(password_file=passwords)) as board:
        for _ in range(TRIES + 1):  # which do not count as guesses
            answer = board.post("/login", {"name": "ada", "password": PASSWORD})
            assert answer.status == 429 and "right now" in answer.words


def test_a_changed_password_ends_the_sessions_of_the_old_one(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords)) as board:
        log_in(board)
        assert board.get("/").status == 200
        write_password(passwords, "ada", "operator", "another horse")
        assert board.get("/").status == 303
        log_in(board, "another horse")
        assert board.get("/").status == 200


def test_a_live_stream_ends_when_its_user_is_removed(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords)) as board:
        log_in(board)
        connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
        connection.request("GET", "/live", headers=board.headers)
        stream = connection.getresponse()
        while stream.readline() != b"event: ready\n":
            pass
        passwords.write_text("")
        app.store.broker.push([a_push("t1")])
        assert b"changed" not in stream.read()
        connection.close()


@pytest.mark.parametrize(
    ("said", "role"),
    [
        (["operator"], "operator"),
        (["viewer"], "viewer"),
        (["viewer, operator"], "viewer"),
        (["operator", "viewer"], "viewer"),
        ([""], "viewer"),
        (["none"], "viewer"),
    ],
    ids=str,
)
def test_a_proxy_that_names_a_role_makes_an_operator_by_that_word_only(app: Stem, said: list[str], role: str) -> None:
    with served(app, Access(trusted_header="X-User")) as board:
        connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
        connection.putrequest("GET", "/")
        for name, value in [("Accept", "text/html"), ("X-User", "ada"), *(("Stem-Role", each) for each in said)]:
            connection.putheader(name, value)
        connection.endheaders()
        assert f"ada · {role}" in connection.getresponse().read().decode()
        connection.close()


def test_logins_are_logged_with_the_peer_and_without_line_breaks(
    app: Stem, passwords: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stem.dashboard")
    with served(app, Access(password_file=passwords)) as board:
        board.post("/login", {"name": "eve\nlogin.accepted who=eve", "password": "guess"})
        log_in(board)
    lines = [record.getMessage() for record in caplog.records if record.name == "stem.dashboard"]
    assert lines == [
        "login.refused who=eve\\nlogin.accepted who=eve from=127.0.0.1",
        "login.accepted who=ada from=127.0.0.1",
    ]


def test_a_password_file_that_cannot_be_read_is_named_in_the_log_only(
    app: Stem, passwords: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(app, Access(password_file=passwords)) as board:
        log_in(board)
        passwords.chmod(0o644)
        for answer in (board.get("/"), board.post("/login", {"name": "ada", "password": PASSWORD})):
            assert answer.status == 503 and str(passwords) not in answer.text
    assert caplog.text.count(f"chmod 600 {passwords}") == 2
