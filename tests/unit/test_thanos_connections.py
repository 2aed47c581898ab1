"""Real sockets: TLS with a private authority and client certificates, a proxy, closed connections.

Put here: behaviour that needs a real connection.
Not here: the content of requests and responses (`test_prometheus_client`).
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clients.prometheus import PrometheusResponse
from ingestion.settings import Connection
from ingestion.thanos.attempt_client import AttemptClient
from tests.tunnel_proxy import tunnel_proxy

BODY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'


class Answering(BaseHTTPRequestHandler):
    """A server that responds to every query with an empty matrix and records the paths."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.paths.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def server(tls: ssl.SSLContext | None = None) -> Iterator[ThreadingHTTPServer]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    found.paths = []  # type: ignore[attr-defined]
    if tls is not None:
        found.socket = tls.wrap_socket(found.socket, server_side=True)
    thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.shutdown()
        found.server_close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private authority, a server certificate for 127.0.0.1 and a client certificate."""
    folder = tmp_path_factory.mktemp("keys")
    authority = ec.generate_private_key(ec.SECP256R1())
    write(folder, "ca", authority, certificate("authority", authority, authority, None))
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    for name, extension in (("server", here), ("client", None)):
        own = ec.generate_private_key(ec.SECP256R1())
        write(folder, name, own, certificate(name, own, authority, extension))
    return folder


def certificate(
    name: str,
    own: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType | None,
) -> x509.Certificate:
    now = datetime.now(UTC)
    is_authority = own is authority
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if extension is not None:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(authority, hashes.SHA256())


def write(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, signed: x509.Certificate
) -> None:
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    (folder / f"{name}.crt").write_bytes(signed.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )


def server_tls(keys: Path, client_required: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.crt", keys / "server.key")
    if client_required:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(keys / "ca.crt")
    return context


def post_query(connection: Connection) -> PrometheusResponse:
    with AttemptClient(connection, wait=lambda seconds: None) as client:
        return client.post("/api/v1/query", {"query": "up[1h]"})


def test_a_configured_private_authority_is_trusted(keys: Path) -> None:
    with server(server_tls(keys, client_required=False)) as found:
        url = f"https://127.0.0.1:{found.server_port}"
        assert post_query(Connection(url, ca_file=str(keys / "ca.crt"))).body == BODY


def test_an_unknown_authority_is_never_trusted(keys: Path) -> None:
    with server(server_tls(keys, client_required=False)) as found:
        reply = post_query(Connection(f"https://127.0.0.1:{found.server_port}"))
        assert reply.not_connected
        assert "CERTIFICATE_VERIFY_FAILED" in reply.failure
        assert found.paths == []  # type: ignore[attr-defined]


def test_a_certificate_for_another_host_is_never_trusted(keys: Path) -> None:
    with server(server_tls(keys, client_required=False)) as found:
        url = f"https://localhost:{found.server_port}"
        reply = post_query(Connection(url, ca_file=str(keys / "ca.crt")))
        assert reply.not_connected
        assert found.paths == []  # type: ignore[attr-defined]


def test_a_client_certificate_is_accepted_by_a_server_that_requires_one(keys: Path) -> None:
    with server(server_tls(keys, client_required=True)) as found:
        url = f"https://127.0.0.1:{found.server_port}"
        authority = str(keys / "ca.crt")
        with_certificate = Connection(
            url,
            ca_file=authority,
            client_certificate_file=str(keys / "client.crt"),
            client_key_file=str(keys / "client.key"),
        )
        assert post_query(with_certificate).body == BODY
        assert post_query(Connection(url, ca_file=authority)).failure


def test_a_configured_proxy_is_used() -> None:
    with server() as proxy:
        proxied = Connection(
            "http://store.test:9090", proxy=f"http://127.0.0.1:{proxy.server_port}"
        )
        assert post_query(proxied).body == BODY
        assert proxy.paths == ["http://store.test:9090/api/v1/query"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("proxy_speaks", ["http", "https"])
def test_a_proxy_tunnels_to_a_server_with_tls(
    keys: Path, monkeypatch: pytest.MonkeyPatch, proxy_speaks: str
) -> None:
    """The server's certificate is checked inside the tunnel, with or without TLS to the proxy."""
    tls = server_tls(keys, client_required=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(keys / "ca.crt"))  # for the proxy
    with server(tls) as found, tunnel_proxy(tls if proxy_speaks == "https" else None) as proxy:
        url = f"https://127.0.0.1:{found.server_port}"
        with AttemptClient(
            Connection(url, proxy=proxy.url, ca_file=str(keys / "ca.crt")), wait=lambda _: None
        ) as client:
            replies = [client.post("/api/v1/query", {"query": "up[1h]"}) for _ in range(2)]
        assert [reply.body for reply in replies] == [BODY, BODY], replies
        name = f"127.0.0.1:{found.server_port}"
        opened = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n".encode()
        assert [head.startswith(opened) for head in proxy.heads] == [True, True]
        assert not [head for head in proxy.heads if b"uthorization" in head]
        monkeypatch.setenv("SSL_CERT_FILE", str(keys / "nothing.crt"))
        stranger = f"https://localhost:{found.server_port}"
        assert post_query(
            Connection(stranger, proxy=proxy.url, ca_file=str(keys / "ca.crt"))
        ).not_connected


def test_a_refused_tunnel_is_no_connection_and_the_proxy_gets_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tunnel_proxy(answer=b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as proxy:
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("https_proxy", proxy.url.replace("//", "//user:p%40ss@"))
        reply = post_query(Connection("https://store.test"))
    assert reply.not_connected
    assert "the proxy refused a tunnel: 407" in reply.failure
    assert b"\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n" in proxy.heads[0]
    assert "p%40ss" not in reply.failure
    assert "p@ss" not in reply.failure


def test_a_proxy_that_is_neither_http_nor_https_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    reply = post_query(Connection("http://store.test"))
    assert reply.not_connected
    assert "a proxy with socks5://; gpu-ledger speaks to proxies over http:// and" in reply.failure


def test_a_closed_port_is_not_connected() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        reply = post_query(Connection(f"http://127.0.0.1:{held.getsockname()[1]}"))
    assert reply.not_connected
    assert reply.status == 0


def hanging_up(send: bytes) -> Callable[[socket.socket], None]:
    def handle(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(send)

    return handle


@contextmanager
def raw_server(send: bytes) -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=hanging_up(send), args=(listening,), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "send",
    [
        b"",
        HEAD,
        HEAD + b"Content-Length: 100\r\n\r\n" + BODY,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY[:5] + b"\r\n",
        b"not http at all\r\n\r\n",
    ],
    ids=["nothing", "half the head", "fewer bytes than announced", "no last chunk", "not http"],
)
def test_a_broken_connection_is_never_a_complete_response(send: bytes) -> None:
    with raw_server(send) as port:
        reply = post_query(Connection(f"http://127.0.0.1:{port}"))
    assert reply.cut_short
    assert reply.failure


def test_a_server_that_accepts_and_sends_nothing_times_out() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        reply = post_query(Connection(url, timeout_seconds=1))
    assert reply.timed_out
    assert reply.tries == 1
