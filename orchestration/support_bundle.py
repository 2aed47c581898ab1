"""The support bundle of a home: versions, counts and outcomes, without private data.

Put here: the files of a bundle, each made from named fields.
Not here: evidence, amounts, names of tenants or customers, the text of any setting. A new field is
never in a bundle unless it is added here.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import platform
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from domain.errors import LedgerError
from domain.interval import format_instant
from orchestration import open_hours, period_state
from orchestration.open_home import OpenHome

DISTRIBUTIONS = ("gpu-ledger", "dagster", "duckdb", "dbt-core", "dbt-duckdb", "pyarrow", "polars")
# The earliest date of a file in a ZIP: bundles of the same home have the same bytes.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
# The newest attempts are listed one by one: a month of ten clusters with a pull per day.
ATTEMPTS_LIMIT = 1000

Part = Callable[[OpenHome], Any]


def support_bundle(opened: OpenHome) -> bytes:
    """A ZIP of plain text; a part that cannot be read is replaced by the code of its error."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in PARTS.items():
            try:
                content = part(opened)
            except LedgerError as error:
                content = {"could_not_be_read": error.code, "kind": type(error).__name__}
            text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            archive.writestr(zipfile.ZipInfo(name, ZIP_EPOCH), text)
    return buffer.getvalue()


def _about(opened: OpenHome) -> dict[str, Any]:
    return {
        "now": format_instant(opened.clock.now().replace(microsecond=0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {name: importlib.metadata.version(name) for name in DISTRIBUTIONS},
    }


def _settings(opened: OpenHome) -> Any:
    """The keys that are set, with numbers, switches and the hosts of servers."""
    opened.settings  # noqa: B018 - an invalid file raises its error
    return _redact(tomllib.loads(opened.home.config_path.read_text(encoding="utf-8")))


def _redact(value: Any) -> Any:
    match value:
        case bool() | int() | float():
            return value
        case Mapping():
            return {str(key): _redact(item) for key, item in value.items()}
        case list():
            return [_redact(item) for item in value]
        case str() if "://" in value:
            return address(value)
        case _:
            return "(set)"


def address(url: str) -> str:
    """Scheme, host and port; never a user, a password, a path or a query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


def _decisions(opened: OpenHome) -> dict[str, Any]:
    """The number of rows of each table; their content is private."""
    sha256 = opened.decisions.sha256  # an invalid table raises its error
    return {
        path.name: len([line for line in _rows(path) if line])
        for path in sorted(opened.home.decisions.glob("*.csv"))
    } | {"sha256": sha256}


def _rows(path: Path) -> Iterator[list[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = csv.reader(line for line in lines if line and not line.startswith("#"))
    next(rows, None)  # the header
    yield from rows


def _attempts(opened: OpenHome) -> list[dict[str, Any]]:
    attempts = sorted(opened.landing.attempts(), key=lambda a: (a.draft.asked_at, a.sequence))
    return [
        {
            "cluster_id": attempt.cluster_id,
            "source": attempt.source.value,
            "from": format_instant(attempt.draft.window.started_at),
            "until": format_instant(attempt.draft.window.ended_at),
            "asked_at": format_instant(attempt.draft.asked_at),
            "outcomes": dict(Counter(hour.outcome.value for hour in attempt.hours)),
            "statuses": dict(Counter(str(answer.status) for answer in attempt.answers)),
            "code_version": attempt.draft.code_version,
        }
        for attempt in attempts[-ATTEMPTS_LIMIT:]
    ]


def _periods(opened: OpenHome) -> dict[str, Any]:
    """The check results of the open periods: findings by name, without places and values."""
    found = {}
    for period in open_hours.open_periods(opened):
        state = period_state.checked_state(opened.home, period)
        found[period.name] = state and {
            "billable": state.billable,
            "blocking_count": state.blocking_count,
            "findings": dict(state.counts),
            "missing_checks": list(state.missing_checks),
        }
    return found


def _record(opened: OpenHome) -> list[dict[str, Any]]:
    return [
        {"sequence": event.sequence, "kind": event.kind.value, "fence": event.fence}
        | {"recorded_at": format_instant(event.recorded_at)}
        for event in opened.record.events()
    ]


def _files(opened: OpenHome) -> dict[str, Any]:
    """The files and bytes of each part of the home, without names; links are not followed."""
    found = {}
    for path in sorted(opened.home.path.iterdir()):
        below = [path] if path.is_file() or path.is_symlink() else path.rglob("*")
        files = [p for p in below if p.is_file() and not p.is_symlink()]
        found[path.name] = {"files": len(files), "bytes": sum(p.stat().st_size for p in files)}
    return found


PARTS: dict[str, Part] = {
    "about.json": _about,
    "attempts.json": _attempts,
    "decisions.json": _decisions,
    "files.json": _files,
    "periods.json": _periods,
    "record.json": _record,
    "settings.json": _settings,
}
