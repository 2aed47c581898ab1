"""Commands as a person types them who looks at Dagster's pages: in any folder, for this home.

Put here: how they are spelled and broken over lines.
Not here: which command repairs what (`assets.hour_events`, `proposals`).
"""

from __future__ import annotations

import shlex

from orchestration.open_home import OpenHome


def on_a_line(opened: OpenHome, *parts: str) -> str:
    """For a sentence."""
    return " ".join([*parts, _home(opened)])


def cell(opened: OpenHome, *parts: str) -> str:
    """For a cell of Markdown, which cuts long lines off: each part on a line, copied as one."""
    lines = " \\\n  ".join([*parts, _home(opened)])
    return f"```\n{lines}\n```"


def _home(opened: OpenHome) -> str:
    return f"--home {shlex.quote(str(opened.home.path.resolve()))}"
