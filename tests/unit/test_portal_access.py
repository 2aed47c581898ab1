"""The access layer of web applications: requests that it refuses, and those that it passes on.

Put here: single requests, without a port.
Not here: a real browser and Dagster's own application (`servers/test_pages_of_other_origins`).
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from portal.access import AccessLayer, Hosts, new_key, one_time_token, session_cookie

KEY = new_key()
OWN = "http://127.0.0.1:3000"
MUTATION = {"query": "mutation { launchRun }"}


class Application:
    """An application that records the requests that reach it."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            self.reached.append("lifespan")
            return
        self.reached.append(f"{scope.get('method', 'websocket')} {scope['path']}")
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"shown"})


class World:
    def __init__(self, listening: str = "127.0.0.1") -> None:
        self.application = Application()
        self.access: Any = AccessLayer(
            self.application, Hosts.of(listening), KEY, posts=["/graphql"]
        )

    def send(self, method: str, url: str, **options: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(self.access)
            async with httpx.AsyncClient(transport=transport) as client:
                return await client.request(method, url, **options)

        return asyncio.run(sent())

    def with_session(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Cookie": session_cookie(KEY)} | options.pop("headers", {})
        return self.send(method, OWN + path, headers=headers, **options)

    def websocket(self, **headers: str) -> list[str]:
        """The types of the messages that are sent when a websocket opens."""
        answered: list[str] = []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            answered.append(message["type"])

        named = {"host": "127.0.0.1:3000"} | {k.replace("_", "-"): v for k, v in headers.items()}
        pairs = [(name.lower().encode(), value.encode()) for name, value in named.items()]
        scope = {"type": "websocket", "path": "/graphql", "query_string": b"", "headers": pairs}
        asyncio.run(self.access(scope, receive, send))
        return answered


@pytest.fixture
def world() -> World:
    return World()


def test_a_page_with_a_session_is_shown(world: World) -> None:
    for path in ("/", "/runs/1", "/assets/east/thanos_hours?view=partitions"):
        assert world.with_session("GET", path).status_code == 200
    assert len(world.application.reached) == 3


def test_a_query_with_a_session_is_passed_on(world: World) -> None:
    browser = {"Origin": OWN, "Sec-Fetch-Site": "same-origin"}
    assert world.with_session("POST", "/graphql", json=MUTATION, headers=browser).text == "shown"
    assert world.with_session("POST", "/graphql", json=MUTATION).text == "shown"  # a script
    # Dagster's pages put the name of each query into the URL.
    named = world.with_session("POST", "/graphql?op=RunsQuery", json=MUTATION, headers=browser)
    assert named.text == "shown"


def test_a_token_starts_one_session_and_is_removed_from_the_url(world: World) -> None:
    token = one_time_token(KEY)
    begun = world.send("GET", f"{OWN}/assets/a%20b?view=x&token={token}")
    assert (begun.status_code, begun.headers["location"]) == (303, "/assets/a%20b?view=x")
    cookie = begun.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert token not in cookie
    assert begun.headers["referrer-policy"] == "no-referrer"
    session = {"Cookie": cookie.partition(";")[0]}
    assert world.send("GET", f"{OWN}/", headers=session).status_code == 200
    assert world.send("GET", f"{OWN}/?token={token}").status_code == 401
    again = world.send("GET", f"{OWN}/?token={token}", headers=session)  # the page is reloaded
    assert (again.status_code, again.headers["location"]) == (303, "/")
    assert "set-cookie" not in again.headers


def test_a_token_redirects_to_no_other_site(world: World) -> None:
    begun = world.send("GET", f"{OWN}//evil.example/?token={one_time_token(KEY)}")
    assert begun.headers["location"] == "/evil.example/"


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        session_cookie(new_key()),
        session_cookie(KEY).partition("=")[0] + "=" + one_time_token(KEY),  # signed for a token
        session_cookie(KEY)[:-1],
        session_cookie(KEY).partition("=")[0] + "=.",
        session_cookie(KEY).partition("=")[0] + "=\u00e9.\u00e9",
        session_cookie(KEY).partition("=")[2],
    ],
    # The keys differ in every process, but pytest-xdist needs equal IDs in all of them.
    ids=["none", "other_key", "of_a_token", "cut", "unsigned", "not_ascii", "nameless"],
)
def test_without_a_session_nothing_is_shown(world: World, cookie: str) -> None:
    headers = {"Cookie": cookie.encode("latin-1")}
    for path in ("/", "/server_info", "/graphql", "/?token=", "/?token=a.b"):
        assert world.send("GET", OWN + path, headers=headers).status_code == 401
    assert world.send("POST", f"{OWN}/graphql", json=MUTATION, headers=headers).status_code == 401
    assert world.application.reached == []


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:3000", "127.0.0.1.evil.example", "localhost.", "10.0.0.1:3000",
     "127.0.0.1@evil.example", "[::2]", "", "localhost:3000:1", "a b", "127.0.0.1:x"],
)  # fmt: skip
def test_a_rebound_name_is_refused_even_with_a_session(world: World, host: str) -> None:
    answer = world.with_session("GET", "/", headers={"Host": host})
    assert answer.status_code == 421
    assert world.application.reached == []


def test_two_hosts_or_none_are_refused(world: World) -> None:
    both = [("Host", "127.0.0.1:3000"), ("Host", "evil.example")]
    cookie = ("Cookie", session_cookie(KEY))
    assert world.send("GET", f"{OWN}/", headers=[*both, cookie]).status_code == 421


@pytest.mark.parametrize(
    ("listening", "host", "status"),
    [
        ("127.0.0.1", "localhost:8080", 200),  # through a tunnel the port is another one
        ("127.0.0.1", "LOCALHOST", 200),
        ("127.0.0.1", "[::1]:3000", 200),
        ("gpu01.lab", "gpu01.lab:3000", 200),
        ("gpu01.lab", "gpu02.lab:3000", 421),
        ("::1", "[::1]:3000", 200),
        ("fd00::1", "[fd00::1]:3000", 200),
        ("0.0.0.0", "192.0.2.7:3000", 200),
        ("::", "[2001:db8::7]:3000", 200),
        ("0.0.0.0", "evil.example:3000", 421),
    ],
)
def test_allowed_hosts_are_the_names_that_the_server_listens_on(
    listening: str, host: str, status: int
) -> None:
    headers = {"Host": host, "Cookie": session_cookie(KEY)}
    assert World(listening).send("GET", f"{OWN}/", headers=headers).status_code == status


@pytest.mark.parametrize(
    "foreign",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:3000.evil.example"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "new-word"},
        {"Origin": OWN, "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_requests_of_other_sites_are_refused_even_with_a_session(
    world: World, foreign: dict[str, str]
) -> None:
    assert world.with_session("GET", "/", headers=foreign).status_code == 403
    posted = world.with_session("POST", "/graphql", json=MUTATION, headers=foreign)
    assert posted.status_code == 403
    token = one_time_token(KEY)
    assert world.send("GET", f"{OWN}/?token={token}", headers=foreign).status_code == 403
    assert world.send("GET", f"{OWN}/?token={token}").status_code == 303  # still unused
    cookie = {"cookie": session_cookie(KEY)}
    answered = world.websocket(**cookie, **{k.lower(): v for k, v in foreign.items()})
    assert answered == ["websocket.close"]
    assert world.application.reached == []


def test_a_websocket_needs_a_session_and_a_host(world: World) -> None:
    cookie = session_cookie(KEY)
    assert world.websocket() == ["websocket.close"]
    assert world.websocket(cookie=cookie, host="evil.example") == ["websocket.close"]
    assert world.application.reached == []
    assert world.websocket(cookie=cookie, origin=OWN) == ["websocket.accept"]


@pytest.mark.parametrize("path", ["/graphql", "/graphql/", "//graphql"])
def test_queries_in_the_url_are_refused(world: World, path: str) -> None:
    for method in ("GET", "HEAD"):
        assert world.with_session(method, path, params=MUTATION).status_code == 405
    assert world.with_session("POST", path, params=MUTATION).status_code == 415
    assert world.application.reached == []


@pytest.mark.parametrize(
    "content_type",
    ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain",
     "text/plain; application/json", "application/graphql", "application/jsonp", ""],
)  # fmt: skip
def test_forms_and_other_simple_requests_are_refused(world: World, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    body = '{"query": "mutation { launchRun }"}'
    assert world.with_session("POST", "/graphql", content=body, headers=headers).status_code == 415
    assert world.with_session("POST", "/graphql", content=body).status_code == 415
    assert world.application.reached == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_all_other_writes_are_refused(world: World, method: str) -> None:
    for path in (
        "/report_asset_materialization/billing/invoices",
        "/report_asset_check/a",
        "/report_asset_observation/a",
        "/",
        "/graphqlx",
    ):
        assert world.with_session(method, path, json={}).status_code == 403
    assert world.application.reached == []


def test_startup_and_shutdown_are_passed_on(world: World) -> None:
    asyncio.run(world.access({"type": "lifespan"}, None, None))
    assert world.application.reached == ["lifespan"]
