"""Attacks on control over HTTP: traps for an operator's token, and strangers at a worker's endpoint.

Everything is seen over the socket, so that another server behind the endpoint has to hold as well.
"""

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from integration.control import test_http as over_http
from integration.control.test_http import KEYS, TOKEN, Served, served
from stem.contracts.store import Store
from stem.control.caller import Caller
from stem.control.transports.broker import BrokerTransport
from stem.control.transports.chain import TransportChain
from stem.control.transports.http import HttpTransport, caller_tls, endpoints_of
from stem.control.transports.http_allowed import AllowedEndpoints
from stem.control.transports.http_connection import ConnectionLimits, peer_of
from stem.control.transports.http_endpoint import HttpEndpoint, endpoint_tls
from stem.core.errors import ConfigError, StoreUnavailable
from support.until import until
from support.workers.steerable import beat, on_duty

papers = over_http.papers
store = over_http.store


class Trap:
    """Takes any connection, and keeps what it is sent."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.visitors = 0
        self.taken = b""
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        try:
            while True:
                visitor, _ = self.server.accept()
                self.visitors += 1
                visitor.settimeout(5)
                self.taken += visitor.recv(65536)
        except OSError:
            return


@pytest.fixture
def trap() -> Iterator[Trap]:
    there = Trap()
    yield there
    there.server.close()


def an_asker(store: Store, **options: Any) -> HttpTransport:
    return HttpTransport(endpoints_of(store.heartbeats), token=TOKEN, **options)


@contextmanager
def asking(store: Store, **options: Any) -> Iterator[Caller]:
    caller = Caller(store, KEYS, transport=an_asker(store, **options))
    try:
        yield caller
    finally:
        caller.close()


# 0.0.0.0 leads to the trap on this machine, as a stranger's host would to another one.
@pytest.mark.parametrize(
    ("url", "allowed", "reason"),
    [
        ("http://0.0.0.0:PORT", AllowedEndpoints(), "plain http beyond this machine"),
        ("http://0.0.0.0:PORT", AllowedEndpoints(("0.0.0.0",)), "plain http beyond this machine"),
        ("https://0.0.0.0:PORT", AllowedEndpoints(), "nothing vouches for it"),
        ("https://127.0.0.1@0.0.0.0:PORT", AllowedEndpoints(), "nothing vouches for it"),
        ("http://127.0.0.1:PORT", AllowedEndpoints(has_authority=True), "STEM_CONTROL_CA asks for TLS"),
        ("http://127.0.0.1:PORT", AllowedEndpoints(("127.0.0.1:1",)), "STEM_CONTROL_HTTP_ALLOW does not name it"),
        ("https://0.0.0.0:PORT", AllowedEndpoints(("worker1",), has_authority=True), "does not name it"),
        ("http://[127.0.0.1:PORT", AllowedEndpoints(), "not an http or https URL"),
        ("http://127.0.0.1:99999", AllowedEndpoints(), "not an http or https URL"),
        ("gopher://127.0.0.1:PORT", AllowedEndpoints(), "not an http or https URL"),
    ],
)
def test_a_token_is_not_sent_to_whatever_host_a_heartbeat_names(
    store: Store, trap: Trap, url: str, allowed: AllowedEndpoints, reason: str
) -> None:
    beat(store, "liar", controlUrl=url.replace("PORT", str(trap.port)))
    with asking(store, allowed=allowed) as caller, pytest.raises(StoreUnavailable, match=reason):
        caller.ask("ping", timeout_seconds=20)
    assert trap.visitors == 0


def test_with_an_authority_a_strangers_certificate_gets_no_token(store: Store, trap: Trap, papers: Path) -> None:
    beat(store, "liar", controlUrl=f"https://127.0.0.1:{trap.port}")
    with (
        asking(store, tls=caller_tls(papers / "ca.pem"), deadline_seconds=1) as caller,
        pytest.raises(StoreUnavailable),
    ):
        caller.ask("ping", timeout_seconds=20)
    assert TOKEN.encode() not in trap.taken


def test_one_liar_keeps_nobody_from_being_asked(store: Store, trap: Trap) -> None:
    with served(store, "w1", token=TOKEN), asking(store) as caller:
        beat(store, "liar", host="another-machine", controlUrl=f"http://0.0.0.0:{trap.port}")
        answers = caller.ask("ping", timeout_seconds=2)
        assert (answers.replies["w1"].status, answers.silent) == ("ok", ["liar"])
    assert trap.visitors == 0


@pytest.mark.parametrize(
    ("name", "url", "is_allowed"),
    [
        ("worker1.example.org", "https://worker1.example.org:1", True),
        ("worker1.example.org:1", "https://worker1.example.org:2", False),
        ("worker1.example.org", "https://worker1.example.org.evil.net", False),
        ("*.example.org", "https://Worker1.Example.Org:1", True),
        ("*.example.org", "https://example.org.evil.net", False),
        ("*.example.org", "https://evilexample.org", False),
        ("worker1:443", "https://worker1", True),
        ("[::1]:1", "http://[::1]:1", True),
        ("[::1]", "http://[::1]:2", True),
    ],
)
def test_hosts_are_allowed_by_name_and_port(name: str, url: str, is_allowed: bool) -> None:
    try:
        AllowedEndpoints((name,)).endpoint(url)
    except StoreUnavailable:
        assert not is_allowed
    else:
        assert is_allowed


class TestEndpoint:
    @pytest.mark.parametrize("options", [{"token": "fifteen-letters"}, {"token": TOKEN, "host": "0.0.0.0"}])
    def test_an_endpoint_with_a_short_token_or_without_tls_does_not_start(self, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError, match=r"16 characters|needs TLS"):
            HttpEndpoint(**options)

    @pytest.mark.parametrize(
        ("host", "is_ours"),
        [
            ("evil.example", False),
            ("evil.example:PORT", False),
            ("127.0.0.1.evil.example", False),
            ("", False),
            ("127.0.0.1:PORT\r\nHost: evil.example", False),
            ("127.0.0.1:PORT", True),
            ("localhost", True),
            ("[::1]:PORT", True),
        ],
    )
    def test_a_page_of_another_name_cannot_have_a_browser_steer(self, store: Store, host: str, is_ours: bool) -> None:
        with served(store, "w1", token=TOKEN) as (worker,):
            named = host.replace("PORT", str(worker.port))
            head = f"GET /control/nothing HTTP/1.1\r\nHost: {named}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            assert said(worker, head.encode())[:12] == (b"HTTP/1.1 404" if is_ours else b"HTTP/1.1 400")

    def test_a_request_without_a_host_is_refused(self, store: Store) -> None:
        with served(store, "w1", token=TOKEN) as (worker,):
            head = f"GET /control/nothing HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            assert said(worker, head.encode()).startswith(b"HTTP/1.1 400 ")

    def test_a_stranger_is_refused_before_the_body_comes(self, store: Store) -> None:
        with served(store, "w1", token=TOKEN) as (worker,):
            head = b"POST /control HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 200000\r\n\r\n"
            assert said(worker, head).startswith(b"HTTP/1.1 401 ")
            assert worker.responder.counts == {}

    def test_a_head_is_not_read_without_end(self, store: Store) -> None:
        with served(store, "w1", token=TOKEN) as (worker,):
            for filling in (b"X: " + b"x" * 60_000 + b"\r\n", b"X: x\r\n" * 10_000):
                head = b"GET /control/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n" + filling
                answer = said(worker, head + f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
                assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer
                assert b" 404 " not in answer

    def test_a_head_that_drips_is_cut_off(self, store: Store) -> None:
        with served(store, "w1", token=TOKEN) as (worker,), connected(worker) as dripping:
            dripping.sendall(b"GET / HTTP/1.1\r\n")
            began = time.monotonic()
            over_http.drip_until_cut(dripping, began)
            assert time.monotonic() - began < 10, "as a whole, not byte by byte"

    @pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
    def test_strangers_that_hold_connections_open_lock_no_operator_out(self, store: Store, address: str) -> None:
        """The second address is the same peer: all of 127.0.0.0/8 is this machine."""
        with served(store, "w1", token=TOKEN) as (worker,), ExitStack() as held:
            for _ in range(100):
                held.enter_context(connected(worker))
            operator = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=10, source_address=(address, 0))
            operator.request("GET", "/control/nothing", headers={"Authorization": f"Bearer {TOKEN}"})
            assert operator.getresponse().status == 404
            operator.close()

    def test_strangers_that_stall_in_the_handshake_lock_no_operator_out(self, store: Store, papers: Path) -> None:
        tls = endpoint_tls(papers / "server.pem", papers / "server.key")
        with served(store, "w1", token=TOKEN, tls=tls) as (worker,), ExitStack() as held:
            for _ in range(100):
                held.enter_context(connected(worker))
            with asking(store, tls=caller_tls(papers / "ca.pem")) as caller:
                assert caller.ask("ping", timeout_seconds=20).is_all_ok

    def test_an_authenticated_connection_does_not_give_way_to_strangers(self, store: Store) -> None:
        with served(store, "w1", token=TOKEN) as (worker,), ExitStack() as held:
            stream = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=10)
            held.callback(stream.close)
            stream.request("GET", "/control/replies/r?timeoutMs=1500", headers={"Authorization": f"Bearer {TOKEN}"})
            answer = stream.getresponse()
            for _ in range(100):
                held.enter_context(connected(worker))
            assert answer.read().endswith(b"event: end\ndata: {}\n\n")

    def test_a_flood_of_strangers_is_a_line_of_the_log_for_each_kind(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        with served(store, "w1", token=TOKEN) as (worker,), ExitStack() as held:
            for _ in range(50):
                assert said(worker, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 401 ")
                assert said(worker, b"\x00\r\n\r\n").startswith(b"HTTP/1.1 400 ")
            for _ in range(100):
                held.enter_context(connected(worker))
            until(lambda: "control.connection_dropped" in caplog.text)
        refused = [record.getMessage().partition(" ")[0] for record in caplog.records]
        assert sorted(refused) == ["control.connection_dropped", "control.refused"]

    @pytest.mark.parametrize("is_known", [False, True])
    def test_a_malformed_body_leaves_no_traceback_in_the_log(
        self, store: Store, caplog: pytest.LogCaptureFixture, is_known: bool
    ) -> None:
        """After the answer has begun, and in one packet with the head, before it has."""
        token = f"Authorization: Bearer {TOKEN}\r\n".encode() if is_known else b""
        head = b"POST /control HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + b"Transfer-Encoding: chunked\r\n\r\n"
        stream = b"GET /control/replies/r HTTP/1.1\r\nHost: 127.0.0.1\r\n" + token + b"\r\n"
        with served(store, "w1", token=TOKEN) as (worker,):
            assert said(worker, head + b"no chunk\r\n").startswith(b"HTTP/1.1 400 ")
            for request in (head, stream):
                with connected(worker) as raw:
                    raw.sendall(request)
                    assert raw.recv(12) in (b"HTTP/1.1 401", b"HTTP/1.1 411", b"HTTP/1.1 200")
                    with suppress(ConnectionError):
                        raw.sendall(b"no chunk\x00\r\n\r\n")
                        while raw.recv(1000):
                            pass
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []

    def test_an_endpoint_that_closes_on_half_sent_bodies_logs_no_error(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        head = b"POST /control HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n"
        with served(store, "w1", token=TOKEN) as (worker,), connected(worker) as stranger, connected(worker) as known:
            stranger.sendall(head + b"\r\n{")
            known.sendall(head + f"Expect: 100-continue\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            assert stranger.recv(12) == b"HTTP/1.1 401"
            assert known.recv(12) == b"HTTP/1.1 100"
            worker.endpoint.close()
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []


class TestLimits:
    @pytest.mark.parametrize(
        ("address", "peer"),
        [
            ("127.0.0.1", "loopback"),
            ("127.9.9.9", "loopback"),
            ("::1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("10.0.0.7", "10.0.0.7"),
            ("::ffff:10.0.0.7", "10.0.0.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
        ],
    )
    def test_one_who_has_many_addresses_is_one_peer(self, address: str, peer: str) -> None:
        assert peer_of(address) == peer

    def test_strangers_get_half_of_the_room_and_one_peer_a_quarter(self) -> None:
        limits = ConnectionLimits()
        for _ in range(50):
            assert limits.admit(a_connection("10.0.0.1"))
        assert len(limits.all) == 16
        for n in range(2, 60):
            assert limits.admit(a_connection(f"10.0.0.{n}"))
        assert len(limits.all) == 32
        assert limits.all[-1].peer == "10.0.0.59", "the oldest gave way"

    def test_where_all_are_authenticated_a_stranger_is_turned_away(self) -> None:
        limits = ConnectionLimits()
        for _ in range(64):
            limits.admit(known := a_connection("10.0.0.1"))
            limits.authenticate(known)
        assert len(limits.all) == 64
        assert not limits.admit(a_connection("10.0.0.2"))
        limits.release(known)
        assert limits.admit(a_connection("10.0.0.2"))


def a_connection(address: str) -> Any:
    """As much of one as is counted."""

    class Counted:
        peer = address

        def cut(self) -> None:
            """Nothing is open."""

    return Counted()


def test_a_worker_without_the_extra_is_told_what_to_install() -> None:
    code = """
import sys
sys.modules["uvicorn"] = None
from stem.backends import connect
from stem.control.transport_factory import command_receivers
from stem.core.settings.app import ControlSettings, Settings
settings = Settings(control=ControlSettings(http="127.0.0.1:0", token="a-token-of-some-length"))
command_receivers(settings, connect("memory://x", settings).mail, "w1")
"""
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.stderr.endswith("needs the package 'uvicorn'; pip install 'stem-tasks[http]'.\n")


def test_only_a_worker_with_an_endpoint_imports_the_server() -> None:
    code = """
import sys
import stem.worker.supervisor, stem.control.transport_factory, stem.control.transports.http
assert not {"starlette", "uvicorn", "anyio", "h11"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


class TestChain:
    def chain(self, store: Store) -> TransportChain:
        beats = store.heartbeats
        return TransportChain(
            [an_asker(store), BrokerTransport(store.mail, store.namespace)],
            lambda: [pulse.heartbeat.worker_id for pulse in beats.all()],
        )

    def test_workers_without_an_endpoint_are_asked_by_the_next_transport(self, store: Store) -> None:
        with served(store, "w1", token=TOKEN) as (served_one,), on_duty(store, "w2", keyring=KEYS) as (other,):
            caller = Caller(store, KEYS, transport=self.chain(store))
            answers = caller.ask("ping", timeout_seconds=20)
            assert answers.is_all_ok and list(answers.replies) == ["w1", "w2"]
            assert answers.transport == "http+broker"
            named = caller.ask("ping", workers=["w1", "w2"], timeout_seconds=20)
            assert named.is_all_ok and named.transport == "http+broker"
            only = caller.ask("ping", workers=["w2"], timeout_seconds=20)
            assert only.is_all_ok and only.transport == "broker"
            assert caller.ask("ping", workers=["w1"], timeout_seconds=20).transport == "http"
            assert len(served_one.worker.told) == 3 and len(other.worker.told) == 3, "each is asked once"
            caller.close()

    def test_one_whose_endpoint_hangs_is_asked_by_the_next_in_time(self, store: Store, trap: Trap) -> None:
        with served(store, "w1", token=TOKEN), on_duty(store, "w2", keyring=KEYS):
            beat(store, "w2", controlUrl=f"http://127.0.0.1:{trap.port}")
            caller = Caller(store, KEYS, transport=self.chain(store))
            answers = caller.ask("ping", timeout_seconds=4)
            assert answers.is_all_ok and list(answers.replies) == ["w1", "w2"]
            caller.close()


@contextmanager
def connected(worker: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", worker.port), timeout=10) as raw:
        yield raw


def said(worker: Served, request: bytes) -> bytes:
    with connected(worker) as raw:
        try:
            raw.sendall(request)
            return raw.recv(1000)
        except ConnectionError:
            return b""
