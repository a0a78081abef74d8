"""Control over HTTP: real sockets, tokens and certificates, and peers that stall, lie or vanish."""

import datetime
import http.client
import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stem.backends import connect
from stem.contracts.store import Store
from stem.control.caller import Answers, Caller
from stem.control.listener import ControlListener
from stem.control.responder import Responder
from stem.control.signing import sign
from stem.control.transports import http_app, http_connection, http_paths
from stem.control.transports.broker import BrokerTransport
from stem.control.transports.chain import TransportChain
from stem.control.transports.http import HttpTransport, caller_tls, endpoints_of
from stem.control.transports.http_endpoint import HttpEndpoint, endpoint_tls
from stem.core.control import MAX_COMMAND_BYTES, Reply, decode_reply, encode_command
from stem.core.errors import ConfigError, StoreUnavailable
from stem.core.settings.app import Settings
from stem.runtime.keys import Keyring
from support.background import in_thread, is_waiting, takes_less_than
from support.servers import free_port
from support.until import until
from support.workers.steerable import Steered, a_command, beat, on_duty

TOKEN = "a-token-of-some-length"
HEAD = f"POST /control HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
KEYS = Keyring.parse("one:hmac-sha256:" + "b25l" * 8)


@pytest.fixture
def store(namespace: str) -> Iterator[Store]:
    """Heartbeats and the clock; the commands themselves travel by HTTP."""
    opened = connect(f"memory://{namespace}", Settings(namespace=namespace))
    yield opened
    opened.upkeep.close()


class Served:
    def __init__(self, store: Store, name: str, **options: Any) -> None:
        self.worker = Steered(name)
        self.endpoint = HttpEndpoint(**options)
        self.responder = Responder(self.worker, namespace=store.namespace, clock=store.upkeep.now, keyring=KEYS)
        self.listener = ControlListener([self.endpoint], self.responder)
        self.listener.start()
        beat(store, name, controlUrl=self.endpoint.url)

    @property
    def port(self) -> int:
        return int(self.endpoint.url.rpartition(":")[2])


@contextmanager
def served(store: Store, *names: str, **options: Any) -> Iterator[list[Served]]:
    there = [Served(store, name, **options) for name in names]
    try:
        yield there
    finally:
        for each in there:
            each.worker.may_go_on.set()
            each.listener.stop()


@contextmanager
def asking(store: Store, **options: Any) -> Iterator[Caller]:
    caller = Caller(store, KEYS, transport=HttpTransport(endpoints_of(store.heartbeats), **options))
    try:
        yield caller
    finally:
        caller.close()


def test_three_workers_answer_over_http_with_a_token(store: Store) -> None:
    with served(store, "w1", "w2", "w3", token=TOKEN) as workers, asking(store, token=TOKEN) as caller:
        assert all(each.endpoint.url.startswith("http://127.0.0.1:") for each in workers)
        answers = caller.ask("ping", timeout_seconds=20)
        assert answers.is_all_ok and list(answers.replies) == ["w1", "w2", "w3"] and answers.transport == "http"
        assert answers.elapsed_seconds < 10, "it did not wait out the time"
        named = caller.ask("revoke", {"taskIds": ["t"]}, workers=["w2"], timeout_seconds=20)
        assert named.replies["w2"].payload == {"tasks": {"t": "noted"}}
        assert [len(each.worker.told) for each in workers] == [1, 2, 1]


def test_an_ask_over_http_ends_with_the_last_reply(store: Store) -> None:
    with served(store, "w1", "w2", "w3", token=TOKEN) as workers, asking(store, token=TOKEN) as caller:

        def lasts() -> float:
            for each in workers:
                each.worker.told.clear()
            workers[1].worker.may_go_on.clear()
            ask = in_thread(lambda: (caller.ask("revoke", {"taskIds": ["t"]}, timeout_seconds=20), time.monotonic()))
            until(lambda: all(each.worker.told for each in workers))
            assert is_waiting(ask)
            released = time.monotonic()
            workers[1].worker.may_go_on.set()
            answers, ended = ask.result(20)
            assert answers.is_all_ok
            return ended - released

        takes_less_than(0.5, lasts)


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "Bearer " + TOKEN])
def test_without_the_token_nothing_reaches_the_worker(
    store: Store, token: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with served(store, "w1", token=TOKEN) as (worker,), asking(store, token=token) as caller:
        with pytest.raises(StoreUnavailable, match="401 Unauthorized"):
            caller.ask("ping", timeout_seconds=20)
        assert worker.worker.told == [] and worker.responder.counts == {}
        assert "control.refused code=unauthorized from=127.0.0.1" in caplog.text
        assert TOKEN not in caplog.text
        before = worker.endpoint.unauthorized_count
        assert before > 0
        assert get(worker, "/control/replies/r1", token="wrong").status == 401
        assert worker.endpoint.unauthorized_count == before + 1


def test_requests_without_the_token_are_summed_up_in_the_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with served(store, "w1", token=TOKEN) as (worker,):
        for _ in range(30):
            assert get(worker, "/control/replies/r1", token="wrong").status == 401
        assert worker.endpoint.unauthorized_count == 30
        assert caplog.text.count("control.refused") == 1


def test_a_token_does_not_stand_in_for_a_signature(store: Store) -> None:
    with served(store, "w1", token=TOKEN) as (worker,):
        transport = HttpTransport(endpoints_of(store.heartbeats), token=TOKEN)
        answers = Caller(store, transport=transport).ask("shutdown", timeout_seconds=20)
        error = answers.replies["w1"].error
        assert error is not None and error.code == "signature-invalid"
        assert worker.worker.told == []


def test_an_endpoint_that_would_let_anybody_in_does_not_start(papers: Path) -> None:
    for options in ({}, {"token": ""}, {"tls": endpoint_tls(papers / "server.pem", papers / "server.key")}):
        with pytest.raises(ConfigError, match="needs a token or TLS that asks for client certificates"):
            HttpEndpoint(**options)
    taken = HttpEndpoint(token=TOKEN)
    with pytest.raises(ConfigError, match="choose another port"):
        HttpEndpoint(token=TOKEN, port=int(taken.url.rpartition(":")[2]))
    taken.close()
    taken.close()


def test_a_certificate_lets_in_and_none_or_a_strangers_does_not(store: Store, papers: Path) -> None:
    tls = endpoint_tls(papers / "server.pem", papers / "server.key", papers / "ca.pem")
    with served(store, "w1", tls=tls) as (worker,):
        assert worker.endpoint.url.startswith("https://")
        ours = caller_tls(papers / "ca.pem", papers / "client.pem", papers / "client.key")
        with asking(store, tls=ours) as caller:
            assert caller.ask("ping", timeout_seconds=20).is_all_ok
            assert caller.ask("ping", workers=["w1"], timeout_seconds=20).is_all_ok
        for wrong in (
            caller_tls(papers / "ca.pem"),
            caller_tls(papers / "ca.pem", papers / "stranger.pem", papers / "stranger.key"),
            caller_tls(papers / "stranger.pem", papers / "client.pem", papers / "client.key"),
        ):
            with (
                asking(store, tls=wrong) as caller,
                pytest.raises(StoreUnavailable, match="No worker could be reached"),
            ):
                caller.ask("ping", timeout_seconds=5)
        assert worker.worker.told == [("pong",), ("pong",)]
        until(lambda: worker.endpoint.unauthorized_count == 3)


def test_a_token_over_tls_needs_both(store: Store, papers: Path) -> None:
    tls = endpoint_tls(papers / "server.pem", papers / "server.key")
    ours = caller_tls(papers / "ca.pem")
    with served(store, "w1", tls=tls, token=TOKEN) as (worker,):
        with asking(store, tls=ours, token=TOKEN) as caller:
            assert caller.ask("ping", timeout_seconds=20).is_all_ok
        with asking(store, tls=ours) as caller, pytest.raises(StoreUnavailable, match="401"):
            caller.ask("ping", timeout_seconds=20)
        assert worker.worker.told == [("pong",)]


def test_a_worker_that_cannot_be_reached_is_silent_and_the_others_answer(store: Store) -> None:
    with served(store, "w1", token=TOKEN), asking(store, token=TOKEN) as caller:
        beat(store, "gone", host="another-machine", controlUrl=f"http://127.0.0.1:{free_port()}")
        beat(store, "without", host="another-machine")

        def answered() -> Answers | None:
            answers = caller.ask("ping", timeout_seconds=0.7)
            return answers if answers.replies["w1"].status == "ok" else None

        assert until(answered).silent == ["gone", "without"]


def test_a_worker_that_is_slow_to_answer_is_waited_for(store: Store) -> None:
    with served(store, "w1", token=TOKEN) as (worker,), asking(store, token=TOKEN, deadline_seconds=4) as caller:
        worker.worker.may_go_on.clear()
        pending = in_thread(lambda: caller.ask("revoke", {"taskIds": ["t"]}, timeout_seconds=20))
        # Longer than any one read may take: the stream's signs of life keep it open.
        assert is_waiting(pending, seconds=4.5)
        worker.worker.may_go_on.set()
        assert pending.result(20).is_all_ok


def test_a_chain_falls_back_from_http_to_the_broker(store: Store) -> None:
    with on_duty(store, "w1", keyring=KEYS):
        beat(store, "w1", controlUrl=f"http://127.0.0.1:{free_port()}")
        ways = TransportChain(
            [HttpTransport(endpoints_of(store.heartbeats)), BrokerTransport(store.mail, store.namespace)]
        )
        answers = Caller(store, KEYS, transport=ways).ask("ping", timeout_seconds=20)
        assert answers.is_all_ok and answers.transport == "broker"


def test_an_endpoint_speaks_for_its_own_worker_only(store: Store) -> None:
    with served(store, "w2", token=TOKEN) as (liar,), asking(store, token=TOKEN) as caller:
        beat(store, "w1", host="another-machine", controlUrl=liar.endpoint.url)
        beat(store, "w2", host="another-machine")
        while not liar.worker.told:  # what comes too late is not obeyed
            answers = caller.ask("ping", workers=["w1", "w2"], timeout_seconds=0.7)
            assert answers.silent == ["w1", "w2"]
        assert set(liar.worker.told) == {("pong",)}, "it has answered, but not as the one whose endpoint was asked"


def request(
    endpoint: HttpEndpoint, method: str, path: str, body: bytes | None = None, **headers: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"), timeout=10)
    connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", **headers})
    answer = connection.getresponse()
    answer.body = answer.read()  # type: ignore[attr-defined]
    connection.close()
    return answer


def get(worker: Served, path: str, token: str = TOKEN) -> http.client.HTTPResponse:
    return request(worker.endpoint, "GET", path, Authorization=f"Bearer {token}")


def test_the_protocol_is_plain_enough_for_any_client(store: Store) -> None:
    with served(store, "w1", token=TOKEN) as (worker,):
        command = a_command(store.upkeep.now(), life=60)
        assert request(worker.endpoint, "POST", "/control", encode_command(command)).status == 202
        stream = get(worker, f"/control/replies/{command.request_id}?timeoutMs=10000")
        assert stream.status == 200 and stream.getheader("Content-Type") == "text/event-stream"
        events = stream.body.split(b"\n\n")  # type: ignore[attr-defined]
        names = [event.split(b"\n")[0] for event in events if not event.startswith(b":")]
        assert names == [b"event: reply", b"event: end", b""]
        (data,) = [line for event in events for line in event.split(b"\n") if line.startswith(b'data: {"requestId"')]
        assert decode_reply(data.removeprefix(b"data: ")).request_id == command.request_id
        empty = get(worker, "/control/replies/unasked?timeoutMs=50")
        assert empty.body.endswith(b"event: end\ndata: {}\n\n")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 404),
        ("POST", "/control/", 404),
        ("POST", "/control/replies/r", 405),
        ("GET", "/control", 405),
        ("GET", "/control/replies/", 404),
        ("GET", "/control/replies/a%20b", 404),
        ("GET", "/control/replies/../x", 404),
        ("GET", "/control/replies/r?timeoutMs=600001", 400),
        ("GET", "/control/replies/r?timeoutMs=-1", 400),
        ("PUT", "/control", 405),
    ],
)
def test_paths_and_methods_that_are_not_offered_are_refused(store: Store, method: str, path: str, status: int) -> None:
    with served(store, "w1", token=TOKEN) as (worker,):
        assert request(worker.endpoint, method, path, b"{}").status == status
        assert worker.responder.counts == {}


def test_a_body_is_measured_before_it_is_read(store: Store) -> None:
    with served(store, "w1", token=TOKEN) as (worker,):
        with socket.create_connection(("127.0.0.1", worker.port), timeout=10) as raw:
            raw.sendall(b"%sContent-Length: %d\r\n\r\n" % (HEAD, MAX_COMMAND_BYTES + 1))
            assert raw.recv(100).startswith(b"HTTP/1.1 413 ")
        for header, status in (
            ("X: y", 411),
            ("Transfer-Encoding: chunked", 411),
            ("Content-Length: 2\r\nTransfer-Encoding: chunked", 411),
            ("Content-Length: ", 400),
            ("Content-Length: x", 400),
            ("Content-Length: -1", 400),
            ("Content-Length: " + "1" * 19, 413),
            ("Content-Length: " + "1" * 30, 400),
        ):
            with socket.create_connection(("127.0.0.1", worker.port), timeout=10) as raw:
                raw.sendall(HEAD + f"{header}\r\n\r\n".encode())
                assert raw.recv(100).startswith(f"HTTP/1.1 {status} ".encode()), header
        assert worker.responder.counts == {}


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_that_stalls_is_cut_off_and_delays_nobody(store: Store, papers: Path, is_tls: bool) -> None:
    tls = endpoint_tls(papers / "server.pem", papers / "server.key") if is_tls else None
    ours = caller_tls(papers / "ca.pem") if is_tls else None
    with served(store, "w1", token=TOKEN, tls=tls, deadline_seconds=0.5) as (worker,):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", worker.port), timeout=10) as stalled:
            if not is_tls:
                stalled.sendall(HEAD + b"Content-Length: 100\r\n\r\n")
            with asking(store, token=TOKEN, tls=ours) as caller:
                until(lambda: answers_at_last(caller))  # it may stall itself, and be cut off, too
            drip_until_cut(stalled, began)
            assert 0.3 < time.monotonic() - began < 10


def drip_until_cut(stalled: socket.socket, began: float) -> None:
    """A byte now and then, so that no single read takes long."""
    stalled.settimeout(0.1)
    while time.monotonic() - began < 20:
        try:
            stalled.sendall(b"\x16" if time.monotonic() - began < 0.01 else b" ")
            if stalled.recv(1000) == b"":
                return
        except TimeoutError:
            continue
        except OSError:
            return


def test_more_connections_than_there_is_room_for_are_turned_away(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_connection, "MAX_CONNECTIONS", 2)
    with served(store, "w1", token=TOKEN) as (worker,), asking(store, token=TOKEN) as caller:
        held = [socket.create_connection(("127.0.0.1", worker.port), timeout=10) for _ in range(3)]
        until(lambda: "control.connection_dropped" in caplog.text)
        for each in held:
            each.close()
        until(lambda: answers_at_last(caller))


def answers_at_last(caller: Caller) -> bool:
    try:
        return caller.ask("ping", timeout_seconds=1).is_all_ok
    except StoreUnavailable:
        return False


def test_more_commands_than_there_is_room_for_are_turned_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_app, "MAX_COMMANDS", 3)
    with listening() as endpoint:
        assert [post(endpoint, b"%d" % n) for n in range(5)] == [202, 202, 202, 503, 503]
        assert endpoint.receive_commands(0) == [b"0", b"1", b"2"]
        assert endpoint.receive_commands(0.01) == []
        assert post(endpoint, b"5") == 202


def test_replies_that_nobody_fetches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_app, "MAX_REPLIES", 3)
    with listening() as endpoint:
        for n in range(5):
            endpoint.send_reply(Reply(request_id=f"r{n}", worker_id="w", status="ok"))
        assert [is_kept(endpoint, f"r{n}") for n in range(5)] == [False, False, True, True, True]
        assert not is_kept(endpoint, "r4"), "each is fetched once"
        monkeypatch.setattr(http_app, "REPLY_SECONDS", 0.0)
        endpoint.send_reply(Reply(request_id="old", worker_id="w", status="ok"))
        endpoint.send_reply(Reply(request_id="new", worker_id="w", status="ok"))
        assert not is_kept(endpoint, "old")


@contextmanager
def listening() -> Iterator[HttpEndpoint]:
    endpoint = HttpEndpoint(token=TOKEN)
    try:
        yield endpoint
    finally:
        endpoint.close()


def post(endpoint: HttpEndpoint, body: bytes) -> int:
    return request(endpoint, "POST", "/control", body).status


def is_kept(endpoint: HttpEndpoint, request_id: str) -> bool:
    stream = request(endpoint, "GET", f"/control/replies/{request_id}?timeoutMs=20")
    return b"event: reply" in stream.body  # type: ignore[attr-defined]


def test_an_endpoint_that_closes_ends_its_streams(store: Store) -> None:
    with served(store, "w1", token=TOKEN) as (worker,), asking(store, token=TOKEN) as caller:
        worker.worker.may_go_on.clear()
        pending = in_thread(lambda: caller.ask("revoke", {"taskIds": ["t"]}, timeout_seconds=3))
        until(lambda: worker.worker.told)
        worker.endpoint.close()
        assert pending.result(10).silent == ["w1"]


def test_an_asker_that_forgets_leaves_no_threads_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_paths, "ALIVE_SECONDS", 60.0)

    def streams() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "control-http-caller"]

    with served(store, "w1", token=TOKEN) as (worker,):
        worker.worker.may_go_on.clear()
        transport = HttpTransport(endpoints_of(store.heartbeats), token=TOKEN, deadline_seconds=60)
        command = a_command(store.upkeep.now(), "revoke", payload={"taskIds": ["t"]}, life=60)
        transport.send_command(sign(command, KEYS, namespace=store.namespace))
        (exchange,) = transport._exchanges[command.request_id]
        until(lambda: worker.worker.told and exchange._stream is not None)
        assert streams()
        transport.forget(command.request_id)
        until(lambda: streams() == [])


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of one authority (ca) for a server and a client, and a stranger's own."""
    folder = tmp_path_factory.mktemp("papers")
    ca_key = ec.generate_private_key(ec.SECP256R1())
    for name, issuer in (("ca", "ca"), ("server", "ca"), ("client", "ca"), ("stranger", "stranger")):
        key = ca_key if name == "ca" else ec.generate_private_key(ec.SECP256R1())
        signer = ca_key if issuer == "ca" else key
        certificate = a_certificate(name, issuer, key, signer)
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}.key").write_bytes(secret)
    return folder


def a_certificate(
    name: str, issuer: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    today = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
            key.public_key(),
            x509.random_serial_number(),
            today - day,
            today + day,
        )
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
        .add_extension(loopback, critical=False)
        .sign(signer, hashes.SHA256())
    )
