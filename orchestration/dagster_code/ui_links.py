"""Paths in the Dagster web UI, and commands as Markdown.

Put here: the links and commands that appear in metadata.
Not here: starting the web UI (`web_ui`).
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import dagster as dg

from domain.billing_period import BillingPeriod
from orchestration.dagster_code.partitions import hour_name
from orchestration.open_home import OpenHome

LOCATION = "gpu-ledger"
"""The name of the code location in `workspace.yaml`."""


def asset_link(key: dg.AssetKey) -> str:
    return f"/assets/{'/'.join(quote(part) for part in key.path)}"


def partitions_link(key: dg.AssetKey) -> str:
    """The page with all partitions of an asset."""
    return f"{asset_link(key)}?view=partitions"


def partition_link(key: dg.AssetKey, hour: datetime) -> str:
    """The page of one hour, with all of its events."""
    return f"{partitions_link(key)}&partition={quote(hour_name(hour))}&showAllEvents=true"


def launch_link(job: str, config: str) -> str:
    """The launchpad of a job, with its configuration (YAML) filled in."""
    return f"/locations/{LOCATION}/jobs/{job}/playground/setup?config={quote(config)}"


def close_link(period: BillingPeriod, facts_sha256: str = "") -> str:
    """The launchpad of a dry run; with the hash of the facts of a dry run, that of the close."""
    lines = ("ops:", "  close_one_period:", "    config:")
    values = [f"      period: {period}", f"      issue: {str(bool(facts_sha256)).lower()}"]
    values += [f"      facts_sha256: {facts_sha256}"] if facts_sha256 else []
    return launch_link("close_period", "\n".join([*lines, *values, ""]))


def command_cell(opened: OpenHome, *parts: str) -> str:
    """A command as a Markdown cell: one part per line, because long lines are cut off."""
    lines = " \\\n  ".join([*parts, opened.option])
    return f"```\n{lines}\n```"
