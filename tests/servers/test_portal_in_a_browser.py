"""The portal's pages in headless Chromium: wide and narrow, by keyboard, with hostile names.

Put here: checks that need a browser: layout, accessibility, requests to other hosts.
Not here: numbers and refusals (`unit/test_portal_pages`).

GPU_LEDGER_PICTURES=FOLDER stores screenshots of the pages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.portal_by_hand import HOSTILE, OWN, Portal, marts_of, portal_at
from tests.servers.npm import npm_package
from tests.servers.process import free_port, required, running

pytestmark = pytest.mark.servers

AXE_VERSION = "4.14.0"
SIZES = ({"width": 1280, "height": 900}, {"width": 390, "height": 844})
PAGES = {
    "tenant": (OWN, f"/tenants/{OWN}", "12.00 USD"),
    "workload": (OWN, f"/tenants/{OWN}/workload?kind=Job&name=train-a", HOSTILE),
    "provider": ("provider", "/provider", "gpu-ledger gaps 2026-10"),
    "map": ("provider", "/provider/map", "GPU-free"),
    "health": ("provider", "/provider/health", "Health"),
    "returned": ("provider", "/provider/returned", "Stopped workloads"),
    "programme": ("programme", "/programme?hour=2026-10-01T01", "gpu-1"),
    "front": ("provider", "/", OWN),
    "login": ("provider", "/login", "Your provider gives you the token"),
    "error": (OWN, "/tenants/no-such-tenant", "There is no such page"),
    "stopped": (OWN, f"/tenants/{OWN}/returned", "Stopped workloads"),
}
CONTROLS = "a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Portal:
    made = portal_at(tmp_path_factory.mktemp("portal") / "home", marts_of(own_pod=HOSTILE))
    (made.home.path / "config.toml").touch()
    return made


@pytest.fixture(scope="module")
def url(portal: Portal) -> Iterator[str]:
    """The portal's own process."""
    port = free_port()
    command = [
        Path(sys.executable).with_name("gpu-ledger"),
        "portal",
        f"--home={portal.home.path}",
        f"--port={port}",
    ]
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    with running(command, answers, portal.home.path / "portal.log"):
        yield address


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core, from npm."""
    package = npm_package("axe-core", AXE_VERSION, tmp_path_factory.mktemp("axe"))
    return (package / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=required("chromium"),
            # No name except the portal's address can be resolved.
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        try:
            yield browser
        finally:
            browser.close()


def log_in_by_keyboard(page: Page, url: str, token: str) -> None:
    """Tab to the field, type, press Enter: no pointer."""
    page.goto(f"{url}/login")
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "token":
            break
    page.keyboard.type(token)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_pages_are_complete_accessible_and_use_no_other_host(
    portal: Portal, url: str, axe: str, tmp_path: Path
) -> None:
    pictures = Path(os.environ.get("GPU_LEDGER_PICTURES", tmp_path))
    with chromium() as browser:
        for size in SIZES:
            for name, (caller, path, shown) in PAGES.items():
                context = browser.new_context(viewport=size, java_script_enabled=True)  # type: ignore[arg-type]
                page = context.new_page()
                foreign: list[str] = []
                errors: list[str] = []
                page.on("request", lambda r, to=foreign: to.append(r.url))
                page.on("pageerror", lambda e, to=errors: to.append(str(e)))
                page.on("dialog", lambda d, to=errors: (to.append(d.message), d.dismiss()))
                log_in_by_keyboard(page, url, portal.tokens[caller])
                page.goto(url + path)
                assert page.get_by_text(shown).first.is_visible(), (name, size)
                page.screenshot(path=pictures / f"{name}-{size['width']}.png", full_page=True)
                page.evaluate(axe)
                found = page.evaluate("axe.run()")["violations"]
                assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], (name, size)
                assert [one for one in foreign if not one.startswith(f"{url}/")] == []
                assert errors == []
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width <= size["width"], (name, width)
                broken = page.evaluate(
                    "[...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
                )
                assert broken == []
                context.close()


@pytest.mark.parametrize("size", SIZES, ids=("wide", "narrow"))
def test_every_control_is_reached_and_works_by_keyboard(
    portal: Portal, url: str, size: dict[str, int]
) -> None:
    with chromium() as browser:
        for name in ("tenant", "provider", "map", "health", "programme"):
            caller, path, _ = PAGES[name]
            page = browser.new_context(viewport=size).new_page()  # type: ignore[arg-type]
            log_in_by_keyboard(page, url, portal.tokens[caller])
            page.goto(url + path)
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")  # the link that skips the header
            assert page.evaluate("document.activeElement.id") == "main"
            page.goto(url + path)
            count = page.evaluate(
                """wanted => [...document.querySelectorAll(wanted)]
                    .filter(one => one.checkVisibility())
                    .map((one, number) => one.setAttribute("data-control", number)).length""",
                CONTROLS,
            )
            reached: list[str] = []
            for _ in range(count + 20):  # a field for a time has several stops
                page.keyboard.press("Tab")
                reached.append(page.evaluate("document.activeElement.dataset.control ?? ''"))
            found = list(dict.fromkeys(one for one in reached if one))
            assert found == [str(number) for number in range(count)], name
            if page.locator("summary").count():
                page.locator("summary").first.focus()
                page.keyboard.press("Enter")
                assert page.evaluate("document.querySelector('details').open")
            page.locator("main form button").first.focus()
            with page.expect_navigation():
                page.keyboard.press("Enter")
            assert "?" in page.url
            page.context.close()


def test_pages_work_without_scripts(portal: Portal, url: str) -> None:
    with chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(f"{url}/login")
        page.get_by_label("Token").fill(portal.tokens[OWN])
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("Cost so far").first.wait_for()
        page.get_by_role("link", name="Job train-b").click()
        page.get_by_text("Pods of this workload").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").wait_for()
        assert page.url == f"{url}/login"
