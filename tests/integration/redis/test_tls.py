"""A Redis store over TLS: a real server behind a TLS front of our own, for the test's redis-server speaks none."""

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stem.backends import connect
from stem.core.errors import ConfigError, StoreRefused, StoreUnavailable
from stem.core.settings.app import Settings, Tls
from support.builders import a_push
from support.servers import RedisServer


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (ca.pem), the server's papers and a client's, and another authority that nobody knows."""
    folder = tmp_path_factory.mktemp("papers")
    authority, key = _issue(folder, "ca")
    _issue(folder, "server", authority, key)
    _issue(folder, "client", authority, key)
    _issue(folder, "stranger")
    return folder


@pytest.fixture
def tls_url(redis_server: RedisServer, papers: Path) -> Iterator[str]:
    yield from _front(redis_server, papers, asks_clients=False)


@pytest.fixture
def strict_url(redis_server: RedisServer, papers: Path) -> Iterator[str]:
    yield from _front(redis_server, papers, asks_clients=True)


def test_a_server_of_our_authority_is_trusted(tls_url: str, papers: Path, namespace: str) -> None:
    store = connect(tls_url, Settings(namespace=namespace, tls=Tls(ca_file=papers / "ca.pem")))
    store.broker.push([a_push("a")])
    assert not store.broker.wait(["elsewhere"], timeout_seconds=0.05)
    assert [each.lease.id for each in store.broker.claim(["default"], limit=1, lease_seconds=9)] == ["a"]
    store.upkeep.close()


def test_a_server_of_an_unknown_authority_is_not(tls_url: str, papers: Path, namespace: str) -> None:
    with pytest.raises(StoreRefused, match="is not trusted; set STEM_TLS_CA_CERT"):
        connect(tls_url, Settings(namespace=namespace, tls=Tls(ca_file=papers / "stranger.pem")))
    with pytest.raises(StoreRefused, match="is not trusted; set STEM_TLS_CA_CERT"):
        connect(tls_url, Settings(namespace=namespace))


def test_verification_can_be_turned_off(tls_url: str, namespace: str) -> None:
    store = connect(tls_url, Settings(namespace=namespace, tls=Tls(verify=False)))
    assert store.upkeep.now() > 0
    store.upkeep.close()


def test_a_server_that_asks_for_papers_gets_ours(strict_url: str, papers: Path, namespace: str) -> None:
    ours = Tls(ca_file=papers / "ca.pem", cert_file=papers / "client.pem", key_file=papers / "client.key")
    store = connect(strict_url, Settings(namespace=namespace, tls=ours))
    assert store.upkeep.now() > 0
    store.upkeep.close()
    with pytest.raises(StoreRefused, match="STEM_TLS_"):
        connect(strict_url, Settings(namespace=namespace, tls=Tls(ca_file=papers / "ca.pem")))


def test_a_plain_server_is_told_from_one_that_speaks_tls(redis_server: RedisServer, namespace: str) -> None:
    with pytest.raises(StoreUnavailable, match="see whether it speaks TLS on this port"):
        connect(redis_server.url.replace("redis:", "rediss:"), Settings(namespace=namespace, timeout_seconds=1))


def test_papers_that_are_missing_are_a_configuration_error(tls_url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="STEM_TLS_CA_CERT names"):
        connect(tls_url, Settings(tls=Tls(ca_file=tmp_path / "absent.pem")))


def _front(server: RedisServer, papers: Path, *, asks_clients: bool) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers / "server.pem", papers / "server.key")
    if asks_clients:
        context.load_verify_locations(papers / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_relay, args=(context, caller, server.port), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield f"rediss://127.0.0.1:{listener.getsockname()[1]}/0"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


def _relay(context: ssl.SSLContext, caller: socket.socket, port: int) -> None:
    """Both ways in one thread, for a TLS socket must not be read and written at once."""
    with caller:
        try:
            secure = context.wrap_socket(caller, server_side=True)
        except OSError:
            return
        with secure, socket.create_connection(("127.0.0.1", port)) as plain:
            secure.settimeout(0.005)
            plain.settimeout(0.005)
            while True:
                for source, target in ((secure, plain), (plain, secure)):
                    try:
                        data = source.recv(65536)
                    except TimeoutError:
                        continue
                    except OSError:
                        return
                    if not data:
                        return
                    target.sendall(data)


def _issue(
    folder: Path,
    name: str,
    authority: x509.Certificate | None = None,
    authority_key: ec.EllipticCurvePrivateKey | None = None,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(authority_key or key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, key
