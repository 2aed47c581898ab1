"""The vendored style sheet is PatternFly's, reduced to our pages, with its published licence.

Put here: both, compared with the npm packages.
Not here: the layout of pages (`test_portal_in_a_browser`).

After a change of a template or of the version, run this file with GPU_LEDGER_WRITE_GOLDEN=1.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.patternfly import PACKAGE, PORTAL, VERSION, select_rules
from tests.servers.npm import npm_package

pytestmark = pytest.mark.servers

STATIC = PORTAL / "static"
# The package of the styles names the MIT licence without its text; this package of the same project
# and version has the text.
WITH_LICENCE = "@patternfly/react-core"


def test_the_style_sheet_is_a_part_of_the_npm_package(tmp_path: Path) -> None:
    style_sheet = select_rules(npm_package(PACKAGE, VERSION, tmp_path))
    path = STATIC / "patternfly.css"
    if os.environ.get("GPU_LEDGER_WRITE_GOLDEN"):
        path.write_text(style_sheet, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == style_sheet


def test_the_licence_is_the_published_text(tmp_path: Path) -> None:
    published = npm_package(WITH_LICENCE, VERSION, tmp_path) / "LICENSE"
    assert (STATIC / "patternfly-licence.txt").read_bytes() == published.read_bytes()
