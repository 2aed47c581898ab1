"""Proxies in front of a sample store: authorization, permitted paths, and added matchers.

Put here: a real HTTP server that behaves like ACM's rbac-query-proxy, Observatorium or OpenShift's
thanos-querier, in front of any server.
Not here: the queries through it (the tests), or TLS (`tests/unit/test_thanos_connections.py`).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

SELECTOR = re.compile(r"\{")
QUERIES = ("query", "match[]")
NOTHING = {"status": "success", "data": {"resultType": "matrix", "result": []}}

ACM_PATHS = ("/api/v1/query", "/api/v1/query_range", "/api/v1/series", "/api/v1/labels")
"""The permitted paths of rbac-query-proxy: no values of labels, and no list of stores."""


@dataclass(frozen=True)
class QueryProxy:
    """The behaviour of a proxy: of a real one, or with a fault."""

    prefix: str = ""
    paths: Sequence[str] = ()  # () permits all paths
    tokens: Sequence[str] = ()  # () requires none
    clusters: Sequence[str] | None = None  # that the user may see; None: all of them
    namespaces: Sequence[str] | None = None  # of a tenant; present in all queried clusters
    drops: Sequence[str] = ()  # parameters that it drops
    asked: list[tuple[str, str]] = field(default_factory=list)  # paths, and the decision about each

    def query(self, text: str) -> str:
        """A query with matchers for the permitted clusters and namespaces in every selector."""
        added = ""
        if self.clusters is not None:
            added += f'cluster=~"{"|".join(self.clusters)}",'
        if self.namespaces is not None:
            added += f'namespace=~"{"|".join(self.namespaces)}",'
        return SELECTOR.sub("{" + added, text).replace(",}", "}") if added else text


def rbac_query_proxy(token: str, *clusters: str) -> QueryProxy:
    """ACM's, on the hub: a bearer token, and the clusters whose metrics its user may see."""
    return QueryProxy(paths=ACM_PATHS, tokens=(token,), clusters=clusters)


def observatorium(token: str) -> QueryProxy:
    """Observatorium's API: everything below the tenant's path."""
    paths = (*ACM_PATHS, "/api/v1/label/__name__/values")
    return QueryProxy(prefix="/api/metrics/v1/default", paths=paths, tokens=(token,))


def thanos_querier(token: str) -> QueryProxy:
    """OpenShift's, behind kube-rbac-proxy: the whole API below /api, for authorized users."""
    paths = (*ACM_PATHS, "/api/v1/label/__name__/values")
    return QueryProxy(paths=paths, tokens=(token,))


@contextmanager
def proxied(upstream: str, proxy: QueryProxy) -> Iterator[str]:
    """The address of a store behind a proxy."""
    with httpx.Client(base_url=upstream, timeout=60, trust_env=False) as behind:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy, behind))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}{proxy.prefix}"
        finally:
            server.shutdown()
            server.server_close()


def _handler(proxy: QueryProxy, behind: httpx.Client) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers.get("content-length", 0))).decode())

        def _pass_on(self, text: str) -> None:
            path = urlsplit(self.path).path
            own = path.removeprefix(proxy.prefix)
            status, kind, body = self._answer(path, own, text)
            proxy.asked.append((own, str(status)))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, path: str, own: str, text: str) -> tuple[int, str, bytes]:
            bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
            if proxy.tokens and bearer not in proxy.tokens:
                return 401, "text/plain", b"unauthorized user"
            if not path.startswith(proxy.prefix) or (proxy.paths and own not in proxy.paths):
                return 404, "text/plain", b"404 page not found"
            if proxy.clusters is not None and not proxy.clusters:
                return 200, "application/json", json.dumps(NOTHING).encode()
            asked = [
                (name, proxy.query(value) if name in QUERIES else value)
                for name, value in parse_qsl(text)
                if name not in proxy.drops
            ]
            if self.command == "GET":
                found = behind.get(f"{own}?{urlencode(asked)}")
            else:
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                found = behind.post(own, content=urlencode(asked), headers=form)
            return found.status_code, found.headers["content-type"], found.content

        def log_message(self, *_: object) -> None:
            pass

    return Handler
