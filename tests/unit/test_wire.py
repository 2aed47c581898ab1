"""Connections to one server: complete, cut and invalid responses, limits and proxies.

Put here: bytes on a socket, from a server that sends a given script.
Not here: the meaning of responses (`test_collector_client`, `test_prometheus_client`).
"""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from clients.credentials import ServerAccess
from clients.http_transport import ServerTransport
from clients.kubernetes import KubernetesClient
from clients.kubernetes_errors import NotKubernetes, ServerUnreachable
from ingestion.kubernetes.watched_resources import PATHS

TLS = ssl.create_default_context()
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Parrot:
    """A server that sends given responses on each connection, and then closes it."""

    def __init__(self, *connections: tuple[bytes, ...]) -> None:
        self.heard: list[bytes] = []
        self._connections = connections
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.hung_up = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answers in self._connections:
            with self._socket.accept()[0] as talking:
                for answer in answers:
                    self.heard.append(_whole_request(talking))
                    talking.sendall(answer)
            self.hung_up.release()

    def close(self) -> None:
        self._socket.close()


def _whole_request(connection: socket.socket) -> bytes:
    """A head and its body, or the bytes before the client closed the connection."""
    received = b""
    while b"\r\n\r\n" not in received or len(received) < _length(received):
        if not (part := connection.recv(65536)):
            break
        received += part
    return received


def _length(received: bytes) -> int:
    head, end, _ = received.partition(b"\r\n\r\n")
    announced = re.search(rb"(?i)content-length: (\d+)", head)
    return len(head + end) + int(announced[1] if announced else 0)


@contextmanager
def talking(*connections: tuple[bytes, ...]) -> Iterator[tuple[Parrot, ServerTransport]]:
    with closing(Parrot(*connections)) as parrot:
        wire = ServerTransport(TLS)
        with closing(wire):
            yield parrot, wire


def ask(wire: ServerTransport, parrot: Parrot, path: str = "/", seconds: float = 5.0) -> bytes:
    timeout = httpx.Timeout(seconds).as_dict()
    request = httpx.Request("GET", parrot.url + path, extensions={"timeout": timeout})
    with closing(wire.handle_request(request)) as response:
        return b"".join(response.iter_bytes())


def test_each_request_has_a_connection_of_its_own() -> None:
    with talking((OK,), (OK,)) as (parrot, wire):
        assert [ask(wire, parrot, "/a?limit=1"), ask(wire, parrot, "/b")] == [b"{}", b"{}"]
        assert [heard.split(b"\r\n")[0] for heard in parrot.heard] == [
            b"GET /a?limit=1 HTTP/1.1",
            b"GET /b HTTP/1.1",
        ]


def test_a_request_is_not_repeated() -> None:
    with talking((b"",), (OK,)) as (parrot, wire):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            ask(wire, parrot)
        assert len(parrot.heard) == 1


def test_a_connection_with_an_unread_response_is_closed() -> None:
    with talking((OK,), (OK,)) as (parrot, wire):
        wire.handle_request(httpx.Request("GET", parrot.url)).close()
        assert ask(wire, parrot) == b"{}"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (CHUNKED + b"2\r\n{}\r\n1\r\n \r\n0\r\n\r\n", b"{} "),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", b"{}"),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
            % (len(gzip.compress(b"{}" * 99)), gzip.compress(b"{}" * 99)),
            b"{}" * 99,
        ),
    ],
    ids=["chunks", "until it ends", "an old server", "wait", "nothing", "packed"],
)
def test_every_form_of_a_complete_response_is_read(answer: bytes, body: bytes) -> None:
    with talking((answer,)) as (parrot, wire):
        assert ask(wire, parrot) == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        CHUNKED + b"2\r\n{}\r\n",
        CHUNKED + b"9\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        CHUNKED + b"two\r\n{}\r\n",
    ],
    ids=["cut body", "cut chunks", "cut chunk", "cut head", "another protocol", "no chunks"],
)
def test_an_incomplete_or_invalid_response_is_never_accepted(answer: bytes) -> None:
    with talking((answer,)) as (parrot, wire), pytest.raises(httpx.RemoteProtocolError):
        ask(wire, parrot)


WARNED = OK.replace(b"\r\n\r\n", b'\r\nWarning: 299 - "%s"\r\n\r\n')


@pytest.mark.parametrize("word", ["für".encode("latin-1"), "für".encode(), b"\x85\xff\x80"])
def test_header_names_ignore_case(word: bytes) -> None:
    with talking((WARNED % word,), (OK,)) as (parrot, wire):
        assert [ask(wire, parrot), ask(wire, parrot)] == [b"{}", b"{}"]


def test_a_connection_with_another_protocol_is_closed() -> None:
    with talking((b"HTTP/2.0 200 OK\r\n\r\n", b"")) as (parrot, wire):
        with pytest.raises(httpx.TransportError) as held:
            ask(wire, parrot, seconds=0.2)
        assert parrot.hung_up.acquire(timeout=60), held
        assert parrot.heard[1] == b"", "we have hung up"


@pytest.mark.parametrize("name", ["X-Two", "X-Two\r\nX-Three"])
def test_header_injection_is_refused(name: str) -> None:
    with talking((OK,)) as (parrot, wire):
        headers = {name: "a" if "\n" in name else "a\r\nX-Three: b"}
        with pytest.raises(httpx.LocalProtocolError):
            wire.handle_request(httpx.Request("GET", parrot.url, headers=headers))
        assert parrot.hung_up.acquire(timeout=60)
        assert parrot.heard == [b""]


def test_a_request_is_sent_completely() -> None:
    with talking((OK,)) as (parrot, wire):
        timeout = httpx.Timeout(5.0).as_dict()
        request = httpx.Request(
            "POST", parrot.url + "/a?b=c", content=b"query=up", extensions={"timeout": timeout}
        )
        wire.handle_request(request).close()
        host = parrot.url.removeprefix("http://").encode()
        asked = b"POST /a?b=c HTTP/1.1\r\nHost: %b\r\nContent-Length: 8\r\n\r\nquery=up"
        assert parrot.heard == [asked % host]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nContent-Type: application/json", b"HTTP/1"])
def test_a_truncated_header_has_no_list_after_it(head: bytes) -> None:
    with talking((head,)) as (parrot, _), pytest.raises((NotKubernetes, ServerUnreachable)):
        list(KubernetesClient(ServerAccess(parrot.url)).pages(PATHS["pods"]))


def test_a_surplus_response_is_not_used_for_the_next_request() -> None:
    other = OK.replace(b"{}", b"[]")
    with talking((OK + other,), (OK,)) as (parrot, wire):
        assert [ask(wire, parrot), ask(wire, parrot)] == [b"{}", b"{}"]


@pytest.mark.parametrize(
    "endless",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000,
        CHUNKED + b"0\r\nX: " + b"x" * 100_000,
        CHUNKED + b"0" * 100_000,
    ],
    ids=["a long one", "many", "a long trailer", "a long length"],
)
def test_endless_headers_do_not_fill_the_memory(endless: bytes) -> None:
    with talking((endless,)) as (parrot, wire), pytest.raises(httpx.RemoteProtocolError):
        ask(wire, parrot)


def test_a_silent_server_is_waited_for_until_the_timeout() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with closing(silent), closing(ServerTransport(TLS)) as wire:
        timeout = httpx.Timeout(0.05).as_dict()
        with pytest.raises(httpx.ReadTimeout):
            wire.handle_request(httpx.Request("GET", url, extensions={"timeout": timeout}))


def test_a_closed_port_is_reported() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    wire = ServerTransport(TLS)
    with closing(wire), pytest.raises(httpx.ConnectError):
        wire.handle_request(httpx.Request("GET", url))


# --- proxies -------------------------------------------------------------------------------------

NAMESPACE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    b'{"metadata": {"uid": "c-1"}}'
)


@pytest.mark.parametrize("named", ["settings", "environment"])
def test_requests_go_to_the_proxy_instead_of_the_server(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talking((NAMESPACE,)) as (parrot, _):
        monkeypatch.setenv("no_proxy", "")
        if named == "environment":
            monkeypatch.setenv("http_proxy", parrot.url.removeprefix("http://"))
        proxy = parrot.url if named == "settings" else ""
        client = KubernetesClient(ServerAccess("http://api.example:8080", proxy=proxy))
        with closing(client):
            assert client.cluster_id() == "c-1"
        assert parrot.heard[0].startswith(b"GET http://api.example:8080/api/v1/namespaces/")


@pytest.mark.parametrize("named", ["127.0.0.1,.svc", "127.0.0.1:PORT"])
def test_a_server_without_a_proxy_is_queried_directly(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talking((NAMESPACE,)) as (parrot, _):
        monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
        monkeypatch.setenv("no_proxy", named.replace("PORT", parrot.url.rpartition(":")[2]))
        with closing(KubernetesClient(ServerAccess(parrot.url))) as client:
            assert client.cluster_id() == "c-1"
