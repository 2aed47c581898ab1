"""Pages of other origins cannot affect the pages of `gpu-ledger up` in a real browser.

Put here: Chromium with a session of ours, on a page of another origin, and under a rebound name.
Not here: single requests (`unit/test_portal_access`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dagster as dg
import pytest
from playwright.sync_api import Route

from orchestration.dagster_code.instance import make_pool, prepare
from orchestration.dagster_code.web_ui import new_session, run_web_ui
from orchestration.open_home import OpenHome
from tests.orchestrated import prepare_models
from tests.servers.browser import Browser, browser
from tests.servers.dagster_processes import all_ended
from tests.servers.process import free_port, required
from warehouse.home import Home

pytestmark = pytest.mark.servers

# Newer Chromium asks before a page connects to this machine; not every browser does.
WITHOUT_HELP = "--disable-features=LocalNetworkAccessChecks"
# It needs no code location, and writes like any other mutation.
MUTATION = """mutation { reportRunlessAssetEvents(eventParams: {
    eventType: ASSET_MATERIALIZATION, assetKey: {path: ["billing", "invoices"]}
}) { __typename } }"""
REPORTED = dg.AssetKey(["billing", "invoices"])

# All requests that a page can send without permission, and the readable parts of the responses.
ATTACK = """
const target = "TARGET", query = QUERY, sent = [];
const body = JSON.stringify({query});
const image = new Promise(done => {
  const img = new Image();
  img.onload = img.onerror = () => done("image");
  img.src = target + "/graphql?query=" + encodeURIComponent(query);
});
const form = kind => new Promise(done => {
  const frame = document.createElement("iframe"), form = document.createElement("form");
  frame.name = kind;
  document.body.append(frame, form);
  form.action = target + "/graphql?query=" + encodeURIComponent(query);
  form.method = "POST"; form.enctype = kind; form.target = kind;
  frame.onload = () => done(kind);
  form.submit();
});
const post = (path, type, mode) => fetch(target + path, {
  method: "POST", mode, credentials: "include", headers: {"Content-Type": type}, body,
}).then(answer => answer.type == "opaque" ? "opaque" : answer.status);
const socket = new Promise((done, refused) => {
  const one = new WebSocket(target.replace("http", "ws") + "/graphql", "graphql-ws");
  one.onopen = () => done("open"); one.onerror = () => refused("closed");
});
Promise.allSettled([
  image, form("application/x-www-form-urlencoded"), form("text/plain"),
  post("/graphql", "text/plain", "no-cors"), post("/graphql", "application/json", "cors"),
  post("/report_asset_materialization/billing/invoices?partition=2026-10", "text/plain", "no-cors"),
  socket,
]).then(found => { window.attacked = found.map(one => one.value ?? `refused: ${one.reason}`); });
"""


@dataclass
class World:
    operator: Browser
    port: int
    instance: dg.DagsterInstance

    def attacked_from(self, origin: str, target: str) -> list[Any]:
        """The results of the attacks of a page of that origin on our server."""
        script = ATTACK.replace("TARGET", target).replace("QUERY", json.dumps(MUTATION))
        page = self.operator.page.context.new_page()

        def attack(route: Route) -> None:
            body = f"<body><script>{script}</script></body>"
            route.fulfill(content_type="text/html", body=body)

        page.route(f"{origin}/attack", attack)
        page.goto(f"{origin}/attack")
        page.wait_for_function("window.attacked", timeout=60_000)
        found: list[Any] = page.evaluate("window.attacked")
        page.close()
        return found

    @property
    def effects(self) -> int:
        """The number of executed mutations and of other written events."""
        return len(self.instance.fetch_materializations(REPORTED, limit=10).records)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    required("chromium")
    home = Home.create(tmp_path_factory.mktemp("elsewhere") / "home")
    prepare_models(home.path)
    opened = OpenHome.at(home.path)
    environment = prepare(opened)
    port = free_port()
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        make_pool()
        with (
            all_ended(home.dagster),
            dg.DagsterInstance.get() as instance,
            run_web_ui(opened, "127.0.0.1", port, environment, ["webserver"]) as shown,
        ):
            shown.wait_until_ready()
            session = new_session(shown.url, shown.folder)
            # Names that an attacker resolves to this machine.
            names = "--host-resolver-rules=MAP *.example 127.0.0.1"
            with browser(session, Path(home.path.parent), names, WITHOUT_HELP) as operator:
                yield World(operator, port, instance)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:{other}", "http://localhost:{other}"]
)
def test_a_page_of_another_origin_changes_nothing(world: World, origin: str) -> None:
    """Another port of this machine is the same site: even strict cookies are sent to it."""
    origin = origin.format(other=free_port())
    found = world.attacked_from(origin, f"http://127.0.0.1:{world.port}")
    assert world.effects == 0
    assert found[4] == "refused: TypeError: Failed to fetch"  # no response is readable
    assert found[6] == "refused: closed"


def test_a_rebound_name_changes_and_reads_nothing(world: World) -> None:
    """The page and our server then have one origin, so every response can be read."""
    own = f"http://rebound.example:{world.port}"
    found = world.attacked_from(own, own)
    assert world.effects == 0
    assert (found[3], found[4], found[5], found[6]) == (421, 421, 421, "refused: closed")
    page = world.operator.page.context.new_page()
    shown = page.goto(f"{own}/graphql?query={quote('{version}')}")
    assert shown is not None
    assert (shown.status, "dagster" in shown.text().lower()) == (421, False)
    page.close()


def test_the_operators_own_pages_write_and_listen(world: World) -> None:
    """The same requests from the operator's pages have effects, so the tests can detect them."""
    own = f"http://127.0.0.1:{world.port}"
    found = world.attacked_from(own, own)
    assert found[4] == 200
    assert found[5] == 403
    assert found[6] == "open"
    assert world.effects == 1  # of seven attempts, the one in JSON with our origin


def test_the_operators_own_pages_get_every_response(world: World) -> None:
    page = world.operator.page.context.new_page()
    answered: list[tuple[int, str]] = []
    page.on("response", lambda answer: answered.append((answer.status, answer.url)))
    # The page asks for its data only after its scripts have started, which can take seconds.
    with page.expect_response(lambda answer: "/graphql?op=" in answer.url, timeout=60_000):
        page.goto(f"http://127.0.0.1:{world.port}/runs")
    page.wait_for_load_state("networkidle")
    page.close()
    assert [(status, url) for status, url in answered if status >= 400] == []
