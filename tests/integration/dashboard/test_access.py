"""Who gets in, and who may change anything: every changing route, taken from the router."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.routing import Route

from conftest import url_of
from stem import Stem
from stem.core.errors import ConfigError
from stem.dashboard import Access, dashboard
from stem.dashboard.access.options import check_address
from stem.dashboard.access.passwords import PasswordFile, write_password
from support.web.dashboards import ServedDashboard, furnish, served, serving

TOKEN = "a-token-of-some-length"
PASSWORD = "correct horse battery"
PUBLIC = {"/login", "/logout"}


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(url_of("sqlite", request, tmp_path), namespace=namespace) as made:
        yield made


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "passwords"
    write_password(path, "ada", "operator", PASSWORD)
    write_password(path, "vic", "viewer", PASSWORD)
    return path


def routes(board: ServedDashboard, method: str) -> list[str]:
    """Paths of all routes of that method, with something for each parameter."""
    found = [route for route in board.app.routes if isinstance(route, Route) and method in (route.methods or ())]
    return [re.sub(r"\{[^}]*\}", "t-queued", route.path) for route in found]


def changing(board: ServedDashboard) -> list[str]:
    return [path for path in routes(board, "POST") if path not in PUBLIC]


def log_in(board: ServedDashboard, name: str, password: str = PASSWORD) -> None:
    answer = board.post("/login", {"name": name, "password": password})
    assert answer.status == 303, answer.words
    board.headers["Cookie"] = answer.headers["set-cookie"].split(";")[0]


def test_every_route_is_known_to_be_a_get_or_a_post(app: Stem) -> None:
    with served(app) as board:
        assert len(changing(board)) >= 20
        methods = {method for route in board.app.routes if isinstance(route, Route) for method in route.methods or ()}
        assert methods == {"GET", "HEAD", "POST"}
        for path in changing(board):
            assert board.get(path).status in (404, 405, 400, 200) and not actions(app)


def actions(app: Stem) -> list[object]:
    from stem.observe.event_log import operator_actions

    return list(operator_actions(app.store))


def test_without_a_login_nothing_is_shown_and_nothing_done(app: Stem, passwords: Path) -> None:
    furnish(app)
    with served(app, Access(password_file=passwords)) as board:
        for path in changing(board):
            assert board.post(path, {"confirmed": "yes"}).status == 401, path
        for path in routes(board, "GET"):
            if path != "/login":
                answer = board.get(path)
                assert (answer.status, answer.headers.get("location")) == (303, "/login"), path
        assert actions(app) == []


def test_a_viewer_sees_everything_and_changes_nothing(app: Stem, passwords: Path) -> None:
    furnish(app)
    with served(app, Access(password_file=passwords)) as board:
        log_in(board, "vic")
        assert board.get("/tasks").status == 200 and "/tasks/bulk" not in board.get("/tasks").text
        for path in changing(board):
            answer = board.post(path, {"confirmed": "yes"})
            assert answer.status == 403 and "viewer" in answer.words, path
        assert actions(app) == []


def test_read_only_makes_an_operator_a_viewer(app: Stem) -> None:
    with served(app, Access(read_only=True)) as board:
        for path in changing(board):
            assert board.post(path, {"confirmed": "yes"}).status == 403, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {},
    ],
    ids=str,
)
def test_a_form_of_another_site_does_nothing(app: Stem, passwords: Path, headers: dict[str, str]) -> None:
    with served(app, Access(password_file=passwords)) as board:
        log_in(board, "ada")
        for path in [*changing(board), *PUBLIC]:
            answer = board.request("POST", path, {"confirmed": "yes"}, headers)
            assert answer.status == 403 and "another site" in answer.text, path
        assert actions(app) == []


def test_an_old_browser_shows_its_origin_and_a_program_its_token(app: Stem) -> None:
    with served(app, Access(token=TOKEN)) as board:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert board.request("POST", "/queues/mail/pause", {}, bearer).status == 200
        origin = {"Origin": board.url, **bearer}
        assert board.request("POST", "/queues/mail/resume", {}, origin).status == 200
        assert board.request("POST", "/queues/mail/pause", {}, {"Authorization": "Bearer wrong"}).status == 403
        assert board.get("/", Authorization="Bearer wrong", Accept="text/plain").status == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"])
def test_another_hosts_name_is_refused_on_every_route(app: Stem, host: str) -> None:
    with served(app) as board:
        for path in routes(board, "GET"):
            assert board.get(path, Host=host).status == 400, path
        for path in routes(board, "POST"):
            assert board.post(path, Host=host).status == 400, path
        assert board.get("/", Host="localhost").status == 200


def test_an_allowed_host_is_served(app: Stem) -> None:
    with served(app, Access(allowed_hosts=("Stem.Example.org",))) as board:
        assert board.get("/", Host="stem.example.org:8080").status == 200


def test_a_session_is_a_strict_cookie_and_ends_with_log_out_and_with_the_user(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords)) as board:
        answer = board.post("/login", {"name": "ada", "password": PASSWORD})
        cookie = answer.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Max-Age=43200", "Path=/"))
        board.headers["Cookie"] = cookie.split(";")[0]
        assert board.get("/").status == 200
        lines = passwords.read_text().splitlines(keepends=True)
        passwords.write_text("".join(line for line in lines if not line.startswith("ada:")))
        assert board.get("/").status == 303
        log_in(board, "vic")
        assert board.post("/logout").status == 303
        assert board.get("/").status == 303


def test_a_session_expires(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords, session_seconds=0.0)) as board:
        log_in(board, "ada")
        assert board.get("/").status == 303


def test_a_peer_that_guesses_has_to_wait_even_with_the_right_password(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords)) as board:
        guesses = [
            board.post("/login", {"name": name, "password": "guess"}).status for name in ("ada", "eve", "vic", "x", "")
        ]
        assert guesses == [401] * 5
        answer = board.post("/login", {"name": "ada", "password": PASSWORD})
        assert answer.status == 429 and "try again in" in answer.words


def test_a_header_counts_only_from_a_trusted_proxy(app: Stem) -> None:
    with served(app, Access(trusted_header="X-User")) as board:
        assert "ada · operator" in board.get("/", X_User="ada").words
        assert "ada · viewer" in board.get("/", X_User="ada", Stem_Role="viewer").words
        assert board.get("/").status == 401
        assert board.get("/", X_User="<script>").status == 401
    with served(app, Access(trusted_header="X-User", trusted_proxies=("10.0.0.1",))) as board:
        assert board.get("/", X_User="ada").status == 401


def test_a_proxy_that_asks_for_somebody_else_is_not_this_machine(app: Stem) -> None:
    inner = dashboard(app)
    with serving(inner) as port:
        board = ServedDashboard(port, inner)
        assert board.get("/").status == 200
        answer = board.get("/", X_Forwarded_For="203.0.113.5")
        assert answer.status == 403 and "no login is configured" in answer.words


def test_another_address_without_a_login_is_refused_with_a_sentence() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "stem.example.org"):
        with pytest.raises(ConfigError, match="--password-file"):
            check_address(host, Access())
        check_address(host, Access(token=TOKEN))
    check_address("127.0.0.1", Access())
    with pytest.raises(ConfigError, match="16 characters"):
        Access(token="short")


def test_the_password_file_is_for_its_owner_only(passwords: Path) -> None:
    assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
    assert PasswordFile(passwords).check("ada", PASSWORD) == "operator"
    assert PasswordFile(passwords).check("ada", "wrong") is None
    assert PasswordFile(passwords).check("nobody", PASSWORD) is None
    assert PASSWORD not in passwords.read_text()
    passwords.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        PasswordFile(passwords)
    with pytest.raises(ConfigError, match="shorter than"):
        write_password(passwords.with_name("new"), "ada", "viewer", "short")


def test_a_form_that_is_too_large_is_not_read(app: Stem) -> None:
    with served(app) as board:
        answer = board.post("/tasks/t/run-again", {"arguments": "x" * 2_000_000})
        assert answer.status == 413
