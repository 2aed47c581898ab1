"""Where things are in Dagster's web pages, below their address.

Put here: the paths that our texts point to.
Not here: starting the pages (`orchestration.pages`).
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import dagster as dg

from domain.billing_period import BillingPeriod
from orchestration.partitions import hour_name

LOCATION = "gpu-ledger"
"""The name of the code location, as `workspace.yaml` gives it."""


def asset_link(key: dg.AssetKey) -> str:
    return f"/assets/{'/'.join(quote(part) for part in key.path)}"


def strip_link(key: dg.AssetKey) -> str:
    """The strip of all partitions of an asset."""
    return f"{asset_link(key)}?view=partitions"


def partition_link(key: dg.AssetKey, hour: datetime) -> str:
    """The page of one hour, with everything that was said about it."""
    return f"{strip_link(key)}&partition={quote(hour_name(hour))}&showAllEvents=true"


def launch_link(job: str, config: str) -> str:
    """Where a job is launched, with its configuration (YAML) filled in."""
    return f"/locations/{LOCATION}/jobs/{job}/playground/setup?config={quote(config)}"


def close_link(period: BillingPeriod, facts_sha256: str = "") -> str:
    """Where a dry run is launched; with the hash of the facts that one showed, the close."""
    lines = ("ops:", "  close_one_period:", "    config:")
    values = [f"      period: {period}", f"      issue: {str(bool(facts_sha256)).lower()}"]
    values += [f"      facts_sha256: {facts_sha256}"] if facts_sha256 else []
    return launch_link("close_period", "\n".join([*lines, *values, ""]))
