"""A second round of attacks on the dashboard, and the sentences of what is only half done."""

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from conftest import url_of
from stem import Stem
from stem.dashboard import Access, dashboard, live
from stem.dashboard.access.passwords import PasswordFile, write_password
from support.builders import a_push
from support.until import until
from support.web.dashboards import PAGE, ServedDashboard, furnish, served, serving

PASSWORD, TOKEN = "correct horse battery", "t" * 40


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(url_of("sqlite", request, tmp_path), namespace=namespace) as made:
        yield made


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "passwords"
    write_password(path, "ada", "operator", PASSWORD)
    return path


def test_pages_answer_while_passwords_are_checked(app: Stem, passwords: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, go = threading.Semaphore(0), threading.Event()

    def slow(self: PasswordFile, name: str, password: str) -> None:
        checked.release()
        go.wait(20)

    monkeypatch.setattr(PasswordFile, "check", slow)
    with served(app, Access(password_file=passwords, token=TOKEN)) as board, ThreadPoolExecutor(3) as pool:
        logins = [pool.submit(board.post, "/login", {"name": "ada", "password": "guess"}) for _ in range(3)]
        try:
            assert checked.acquire(timeout=10)
            for path in ("/", "/tasks", "/login"):
                assert board.get(path, Authorization=f"Bearer {TOKEN}").status == 200
            assert not any(login.done() for login in logins)
        finally:
            go.set()
        assert [login.result().status for login in logins] == [401] * 3


def test_a_terminate_that_no_worker_confirms_says_so(app: Stem) -> None:
    """The worker of the furniture has a heartbeat and does not answer."""
    furnish(app)
    with served(app) as board:
        answer = board.post("/tasks/t-running/terminate")
        assert (
            "it does not run again; nobody has said that it is stopped. 0 of 1 worker has confirmed it." in answer.words
        )
        assert "stopped where it runs" not in answer.words and "w1: " in answer.words


def test_a_terminate_without_workers_says_that_none_runs(app: Stem) -> None:
    app.store.broker.push([a_push("t")])
    with served(app) as board:
        assert "No worker is running; those that start later heed it." in board.post("/tasks/t/terminate").words


def test_a_bulk_action_that_was_cut_off_says_for_how_many_it_is(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    app.store.broker.push([a_push(f"t{number}") for number in range(5)])
    monkeypatch.setattr("stem.observe.tasks.MOST_MATCHES", 3)
    with served(app) as board:
        page = board.get("/tasks/bulk?verb=revoke&state=queued")
        assert "Revoke 3 tasks?" in page.words
        assert "More than that match: this is for the newest 3. Repeat it for the rest." in page.words
        monkeypatch.setattr("stem.observe.tasks.SCAN_SECONDS", -1.0)
        monkeypatch.setattr("stem.observe.tasks._STEP", 2)
        assert "older ones may match" in board.get("/tasks/bulk?verb=replay&error=gateway").words


def test_a_session_that_somebody_else_has_chosen_is_not_taken_over(app: Stem, passwords: Path) -> None:
    with served(app, Access(password_file=passwords)) as board:
        planted = "stem_session=chosen-by-the-attacker"
        answer = board.post("/login", {"name": "ada", "password": PASSWORD}, Cookie=planted)
        given = answer.headers["set-cookie"].split(";")[0]
        assert given != planted and "chosen" not in given
        assert board.get("/", Cookie=planted).status == 303
        again = board.post("/login", {"name": "ada", "password": PASSWORD}, Cookie=given)
        assert again.headers["set-cookie"].split(";")[0] != given
        assert board.get("/", Cookie=given).status == 303, "the session before is over"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../handling.py", "/static/%2e%2e/handling.py", "/static/..%2fhandling.py", "/static/%2fetc/passwd",
        "//evil.example/", "/%2f%2fevil.example", "/tasks/..%2f..%2flogin", "/static/", "/static/vendor/..%00/x",
        "/queues/%00", "/workers/%ff%fe", "/tasks/" + "a" * 5000,
    ],
)  # fmt: skip
def test_tricks_with_paths_reach_nothing_and_redirect_nowhere(app: Stem, path: str) -> None:
    with served(app) as board:
        answer = board.get(path)
        assert answer.status in (400, 404, 405) or (answer.status == 200 and "import" not in answer.text), answer.status
        assert "evil" not in answer.headers.get("location", "") and "Traceback" not in answer.text


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "X-Forwarded-Proto"]
)
def test_a_forwarded_request_is_not_taken_for_one_of_this_machine_or_of_the_proxy(app: Stem, header: str) -> None:
    with served(app, Access(trusted_header="X-User", trusted_proxies=("10.0.0.1",))) as board:
        assert board.request("GET", "/", None, {**PAGE, "X-User": "eve", header: "10.0.0.1"}).status == 401
    with served(app, Access(trusted_header="X-User")) as board:
        two = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
        two.putrequest("GET", "/")
        for name in ("ada", "eve"):  # the client's own beside the proxy's
            two.putheader("X-User", name)
        two.endheaders()
        assert two.getresponse().status == 401
        two.close()


def test_one_user_cannot_take_all_live_streams(app: Stem, passwords: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_PAGES", 4)
    monkeypatch.setattr(live, "MOST_PAGES_EACH", 2)
    with served(app, Access(trusted_header="X-User")) as board, ExitStack() as stack:

        def stream(who: str) -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
            stack.callback(connection.close)
            connection.request("GET", "/live", headers={"X-User": who})
            return connection.getresponse()

        eve = [stream("eve") for _ in range(4)]
        assert [each.status for each in eve] == [200, 200, 503, 503]
        ada = stream("ada")
        assert ada.status == 200 and stream("bob").status == 200 and stream("cy").status == 503
        ada.close()
        stack.close()
        until(lambda: board.app.state.desk.feed._places.total() == 0)
        assert stream("cy").status == 200


def test_streams_that_are_asked_for_at_once_count_each_other(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_PAGES", 3)
    with served(app) as board, ThreadPoolExecutor(12) as pool, ExitStack() as stack:

        def status(_: int) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
            stack.callback(connection.close)
            connection.request("GET", "/live")
            return connection.getresponse().status

        assert sorted(pool.map(status, range(12))) == [200] * 3 + [503] * 9


def test_an_origin_of_nobody_is_not_ours_where_the_host_is_missing(app: Stem) -> None:
    inner = dashboard(app, Access(trusted_header="X-User"))
    with serving(Starlette(routes=[Mount("/ops", inner)])) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"  # type: ignore[attr-defined]
        connection.putrequest("POST", "/ops/queues/default/pause", skip_host=True)
        for name, value in {"X-User": "ada", "Origin": "null", "Content-Length": "0"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 403
        connection.close()


def test_a_login_below_a_path_stays_below_it(app: Stem, passwords: Path) -> None:
    inner = dashboard(app, Access(password_file=passwords))
    with serving(Starlette(routes=[Mount("/ops", inner)])) as port:
        board = ServedDashboard(port, inner, "/ops")
        assert board.get("/").headers["location"] == "/ops/login"
        answer = board.post("/login", {"name": "ada", "password": PASSWORD, "next": "https://evil.example/"})
        assert (answer.status, answer.headers["location"]) == (303, "/ops/")
        assert "path=/ops" in answer.headers["set-cookie"].lower()
