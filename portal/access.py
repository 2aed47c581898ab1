"""Which requests reach a web application of ours: one ASGI layer in front of it.

Put here: the checks of Host, Origin, token, method and content type.
Not here: the application, or who may see which tenant.

A browser sends a request for any page that it shows: an image of a foreign page can be a GET of
ours, a form of it a POST. So every request needs a session cookie that browsers keep to our own
pages, and must name a host of ours and no foreign origin. A name that an attacker lets resolve to
this machine is no host of ours.

A session begins with a token in the address, which works once. Tokens and cookies are signed with
a key that is made for each start of the server; nothing else is remembered of them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN = "token"
KEY_BYTES = 32
JSON = "application/json"
OWN_SITES = frozenset({"same-origin", "none"})
"""`none`: typed, or opened from a terminal. `same-site` is another port of the same host."""

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+)(:\d{1,5})?", re.ASCII)


def new_key() -> str:
    """The key of one start of a server."""
    return secrets.token_hex(KEY_BYTES)


def one_time_token(key: str) -> str:
    """A token that begins one session."""
    return _signed(key, "token")


def session_cookie(key: str) -> str:
    """`name=value` of a session, for a caller that has the key."""
    return f"{_cookie_name(key)}={_signed(key, 'session')}"


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names under which a server may be addressed. Ports differ behind a tunnel."""

    names: frozenset[str]
    any_address: bool  # a literal IP address cannot be made to point elsewhere

    @classmethod
    def of(cls, listening: str) -> Hosts:
        """The names of a server that listens on this host or address."""
        loopback = {"localhost", "127.0.0.1", "[::1]"}
        if listening in ("0.0.0.0", "::"):
            own = {socket.gethostname().lower(), socket.getfqdn().lower()}
            return cls(frozenset(loopback | own), any_address=True)
        own = {f"[{listening}]" if ":" in listening else listening.lower()}
        return cls(frozenset(loopback | own), any_address=False)

    def include(self, header: str) -> bool:
        """Whether a Host header names this server."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].lower()
        return name in self.names or (self.any_address and _is_address(name))


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """The response to a request that does not reach the application."""

    status: int
    seen: str
    remedy: str

    @property
    def text(self) -> str:
        return f"{self.seen}. {self.remedy}."


def refusal_of_foreign_request(
    scope: Scope, hosts: Hosts, *, links: bool = False
) -> AccessRefusal | None:
    """Why a request is for another server, or from another site; None when it is neither.

    With `links`, a link on a page of another site may lead here: reading has no effect.
    """
    named = list(_headers(scope, b"host"))
    if len(named) != 1 or not hosts.include(named[0]):
        return AccessRefusal(
            421, "This server has another name", "Open the address that it printed"
        )
    if any(not _is_origin_of(named[0], origin) for origin in _headers(scope, b"origin")):
        return AccessRefusal(
            403, "A page of another origin sent this request", "Type or paste the address instead"
        )
    if links and _follows_a_link(scope):
        return None
    if any(site not in OWN_SITES for site in _headers(scope, b"sec-fetch-site")):
        return AccessRefusal(
            403, "A page of another site sent this request", "Type or paste the address instead"
        )
    return None


class AccessLayer:
    """An ASGI application that passes allowed requests on to `application`, and refuses others.

    A POST is passed on only to one of the paths `posts`, and only as JSON, which no form can send;
    a GET of such a path only without a query string. Other methods that write never are.
    """

    def __init__(
        self, application: Application, hosts: Hosts, key: str, posts: Collection[str]
    ) -> None:
        self._application = application
        self._hosts = hosts
        self._key = key
        self._posts = frozenset(posts)
        self._used: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # the start and the end of the server
            await self._application(scope, receive, send)
            return
        refusal = refusal_of_foreign_request(scope, self._hosts)
        if refusal is None and (begin := self._new_session(scope)):
            await _respond(send, 303, "", begin)
            return
        refusal = refusal or self._not_allowed(scope)
        if refusal is None:
            await self._application(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()  # its `connect`; closed before it is accepted, which is an HTTP 403
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _respond(send, refusal.status, refusal.text, [])

    def _new_session(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """The headers that begin a session, if the address has an unused token."""
        if scope["type"] != "http" or scope["method"] != "GET":
            return []
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == TOKEN]
        if len(tokens) != 1:
            return []
        begins = _is_signed(self._key, "token", tokens[0]) and tokens[0] not in self._used
        if not begins and not self._has_session(scope):
            return []
        self._used |= {tokens[0]} if begins else set()
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        path = "/" + quote(scope["path"].lstrip("/"))  # never `//host`, which is another site
        headers = [
            (b"location", f"{path}?{rest}".encode() if rest else path.encode()),
            (b"referrer-policy", b"no-referrer"),
        ]
        if begins:
            cookie = f"{session_cookie(self._key)}; Path=/; HttpOnly; SameSite=Strict"
            headers.append((b"set-cookie", cookie.encode()))
        return headers

    def _not_allowed(self, scope: Scope) -> AccessRefusal | None:
        if not self._has_session(scope):
            return AccessRefusal(
                401, "There is no session", "Open the address with the token that was printed"
            )
        if scope["type"] == "websocket":
            return None
        method, path = scope["method"], "/" + scope["path"].strip("/")
        if method not in ("GET", "HEAD", "POST") or (method == "POST" and path not in self._posts):
            return AccessRefusal(403, f"{method} is not allowed here", "Send a GET request")
        if method != "POST" and path in self._posts and scope["query_string"]:
            return AccessRefusal(405, "A query is in the address", "Send it by POST, as JSON")
        if method == "POST" and _media_types(scope) != [JSON]:
            return AccessRefusal(415, f"The body is not {JSON}", f"Send {JSON}")
        return None

    def _has_session(self, scope: Scope) -> bool:
        name = _cookie_name(self._key)
        cookies = (
            cookie.strip().partition("=")
            for header in _headers(scope, b"cookie")
            for cookie in header.split(";")
        )
        return any(
            found == name and _is_signed(self._key, "session", value) for found, _, value in cookies
        )


async def _respond(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = f"{text}\n".encode() if text else b""
    own = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": own + headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope, name: bytes) -> Iterator[str]:
    return (value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name)


def _follows_a_link(scope: Scope) -> bool:
    return (
        scope.get("method") == "GET"
        and list(_headers(scope, b"sec-fetch-mode")) == ["navigate"]
        and list(_headers(scope, b"sec-fetch-dest")) == ["document"]
    )


def _media_types(scope: Scope) -> list[str]:
    found = _headers(scope, b"content-type")
    return [value.partition(";")[0].strip().lower() for value in found]


def _is_origin_of(host: str, origin: str) -> bool:
    """Whether an Origin header is the page's own: the same name and port as the Host header."""
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _cookie_name(key: str) -> str:
    """Its own for each server: browsers share cookies between the ports of a host."""
    return f"gpu-ledger-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _signed(key: str, purpose: str) -> str:
    nonce = secrets.token_hex(16)
    return f"{nonce}.{_signature(key, purpose, nonce)}"


def _is_signed(key: str, purpose: str, value: str) -> bool:
    nonce, _, signature = value.partition(".")
    expected = _signature(key, purpose, nonce)
    return hmac.compare_digest(signature.encode(), expected.encode())


def _signature(key: str, purpose: str, nonce: str) -> str:
    return hmac.new(key.encode(), f"{purpose} {nonce}".encode(), hashlib.sha256).hexdigest()
