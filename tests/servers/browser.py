"""A headless Chromium on Dagster's pages: an operator's actions, and screenshots.

Put here: opening a page, waiting for a text on it, taking a screenshot.
Not here: the steps of an operator (`test_pages_in_a_browser`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, TimeoutError, sync_playwright

from tests.servers.dagster_processes import root_of
from tests.servers.process import required

SIZE = {"width": 1280, "height": 800}
PATIENCE_MS = 600_000  # a rebuild of a period and its check, on a machine under load
SETTLE_MS = 1_500


@dataclass
class Browser:
    """One page of a browser, and the folder for its pictures."""

    url: str
    page: Page
    pictures: Path

    def go(self, path: str, shows: str) -> None:
        self.page.goto(f"{self.url}{path}")
        self.sees(shows)

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for(timeout=PATIENCE_MS)

    def until(self, path: str, shows: str, every_ms: int = 10_000) -> None:
        """Load a page repeatedly until it shows a text."""
        for _ in range(PATIENCE_MS // every_ms):
            self.page.goto(f"{self.url}{path}")
            with suppress(TimeoutError):
                self.page.get_by_text(shows).first.wait_for(timeout=every_ms)
                return
        raise AssertionError(f"{path} never showed {shows!r}")

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name).first.click(timeout=PATIENCE_MS)

    def picture(self, name: str) -> None:
        self.page.wait_for_timeout(SETTLE_MS)
        self.page.screenshot(path=self.pictures / f"{name}.png")


@contextmanager
def browser(session: str, pictures: Path, *options: str) -> Iterator[Browser]:
    """A browser in the session of this address; options are Chromium's own."""
    pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root, and these pages are our own.
        chromium = playwright.chromium.launch(
            executable_path=required("chromium"), args=["--no-sandbox", *options]
        )
        try:
            page = chromium.new_context(viewport=SIZE).new_page()
            page.goto(session)
            yield Browser(root_of(session), page, pictures)
        finally:
            chromium.close()
